"""The number of vectors of a codebook and of nearest neighbours: public rules, without torch or scipy.

The guarantee holds at every size; the rules serve utility. The rule of a spherical codebook maximises the expected
cosine between vector and release,

    A(q) p (1 - e^-eps),   q = n / N,   p = n e^eps / (n e^eps + N - n),

where A(q) is the mean cosine of a fixed vector with the nearest fraction q of random directions (for q = 1 it is 0). A
direction's cosine is t / sqrt(t^2 + R^2) with t normal and R^2 chi-square of m - 1 degrees of freedom; the code
replaces R^2 by its mean.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from core.amounts import NANO

SIZE_MIN, SIZE_MAX = 1 << 10, 1 << 16
TRAINED_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)
_NEIGHBOURS_ENOUGH = 32  # with more neighbours, a finer codebook would change little
_QUANTILES = 32
_STEP = 1.1


class CodebookSize(NamedTuple):
    """N vectors, n of which form a subset."""

    vectors: int
    neighbours: int


@lru_cache(maxsize=256)
def codebook_size(*, dimension: int, epsilon_nano: int) -> CodebookSize:
    """Return the smallest power of two N in 2^10..2^16 whose best n is at least 32, else 2^16, and that n."""
    epsilon = epsilon_nano / NANO
    size = SIZE_MIN
    while True:
        neighbours = max(_counts(size), key=lambda n: expected_cosine(dimension, epsilon, n / size))
        if neighbours >= _NEIGHBOURS_ENOUGH or size == SIZE_MAX:
            return CodebookSize(size, neighbours)
        size *= 2


def trained_size(epsilon_nano: int) -> int:
    """Return the number of centroids of the trained codebook: 2^floor(eps - 2), from 2 to 4,096.

    It is near the best at every epsilon from 2 to 20 on public text (gpu_workers/packs/vectors/general.md). A code is
    kept with probability .88 (eps 2), .95 (eps 4), .99 (eps 10).
    """
    exponent = epsilon_nano // NANO - 2
    return min(TRAINED_SIZES[-1], max(TRAINED_SIZES[0], 1 << min(max(exponent, 0), 62)))


def expected_cosine(dimension: int, epsilon: float, share: float) -> float:
    """Return the value that the rule maximises (module docstring); `share` is q in (0, 1/2]."""
    p = share / (share + (1.0 - share) * math.exp(-epsilon))
    return _near_cosine(dimension, share) * p * -math.expm1(-epsilon)


@lru_cache(maxsize=4096)
def _near_cosine(dimension: int, share: float) -> float:
    normal = NormalDist()
    tail = [-normal.inv_cdf(share * (i + 0.5) / _QUANTILES) for i in range(_QUANTILES)]
    return sum(t / math.sqrt(t * t + dimension - 1) for t in tail) / _QUANTILES


def _counts(size: int) -> list[int]:
    """Return 1..size/2, thinned out to steps of a tenth."""
    counts, count = [1], 1
    while count < size // 2:
        count = min(max(count + 1, round(count * _STEP)), size // 2)
        counts.append(count)
    return counts
