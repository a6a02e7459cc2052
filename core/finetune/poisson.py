"""Poisson sampling, as it is accounted: each row joins a batch by a coin of its own."""

from __future__ import annotations

import numpy as np

from core.mechanisms.samplers.exact import IntArray, uniform_indices


def poisson_batch(*, rows: int, batch: int) -> IntArray:
    """The rows of one step, ascending int64 indices below `rows`; none at all is an outcome like any other.

    Guarantee: every row is in with probability exactly batch / rows, independently of all others, by integers from the
    operating system's CSPRNG: a uniform integer below `rows` is below `batch`.

    Raises: ValueError unless 1 <= batch <= rows <= 2^32.
    """
    if not 1 <= batch <= rows:
        raise ValueError("the expected batch must lie between 1 and the rows")
    return np.flatnonzero(uniform_indices(rows, rows) < batch)
