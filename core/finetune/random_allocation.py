"""Random allocation, as it is accounted: in an epoch each row joins exactly one step."""

from __future__ import annotations

from core.mechanisms.samplers.exact import IntArray, uniform_indices


def random_allocation(*, rows: int, steps: int) -> IntArray:
    """The step of each row in one epoch of `steps` steps: int64 `[rows]`. A step may get no row at all.

    Guarantee: every row's step is uniform in 0..steps-1, exactly, and independent of all others, by integers from the
    operating system's CSPRNG.

    Raises: ValueError unless rows >= 1 and 1 <= steps <= 2^32.
    """
    if rows < 1:
        raise ValueError("there must be a row")
    return uniform_indices(rows, steps)
