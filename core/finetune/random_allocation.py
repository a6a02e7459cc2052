"""Random allocation, exactly as accounted: in an epoch each row joins exactly one step."""

from __future__ import annotations

from core.mechanisms.samplers.exact import IntArray, uniform_indices


def random_allocation(*, rows: int, steps: int) -> IntArray:
    """Return the step of each row in one epoch of `steps` steps: int64 `[rows]`. A step may have no rows.

    Guarantee: every row's step is uniform in 0..steps-1, exactly, and independent of all others. The sampler uses
    integers from the operating system's CSPRNG.

    Raises: ValueError unless rows >= 1 and 1 <= steps <= 2^32.
    """
    if rows < 1:
        raise ValueError("the number of rows must be at least 1")
    return uniform_indices(rows, steps)
