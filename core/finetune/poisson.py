"""Poisson sampling, exactly as accounted: each row joins a batch independently."""

from __future__ import annotations

import numpy as np

from core.mechanisms.samplers.exact import IntArray, uniform_indices


def poisson_batch(*, rows: int, batch: int) -> IntArray:
    """Return the rows of one step: ascending int64 indices below `rows`. An empty batch is a valid outcome.

    Guarantee: every row is included with probability exactly batch / rows, independently of all others. The sampler
    uses integers from the operating system's CSPRNG: a row is included if a uniform integer below `rows` is below
    `batch`.

    Raises: ValueError unless 1 <= batch <= rows <= 2^32.
    """
    if not 1 <= batch <= rows:
        raise ValueError("the expected batch must lie between 1 and the rows")
    return np.flatnonzero(uniform_indices(rows, rows) < batch)
