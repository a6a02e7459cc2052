"""The Gaussian arm of a filter: releases dominated by a Gaussian one compose by the sum of their squared mu.

A release is mu-GDP if distinguishing two neighbouring inputs by it is never easier than distinguishing N(0, 1) from
N(mu, 1) (Dong, Roth and Su 2022). Releases with adaptively chosen mu are m-GDP together if the sum of mu^2 stays at
most m^2: fully adaptive composition has no extra cost for them (Smith and Thakurta 2022, arXiv 2210.17520). The arm
admits a release if the sum is at most the largest m^2 whose exact delta at the account's epsilon is the arm's share.

* Gaussian noise of `noise_multiplier` times the l2 sensitivity is mu-GDP with mu = 1 / noise_multiplier, exactly.
* A pure epsilon-DP release is mu-GDP with mu = 2 Phi^-1(1 / (1 + e^-epsilon)). Its trade-off curve lies above the two
  chords from (0, 1) and (1, 0) to the point (p, p), p = 1 / (1 + e^epsilon). The curve of mu-GDP is convex, has the
  same ends, and passes through (p, p) for this mu, so it lies below both chords. For small epsilon mu^2 is
  (pi / 2) epsilon^2. The Renyi arms, in which it costs epsilon^2, are better for accounts with pure releases only.

Costs are rounded up, caps are rounded down. `gaussian_cap_nano` loads scipy; pricing needs only `math`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from core.amounts import FEMTO, NANO

_SMALL_EPSILON = 1e-3
_ROUND_UP = 1 + 1e-12  # above the error of inv_cdf, which is a few units of rounding
_STEP_DOWN = 1 - 2.0**-40


def gaussian_square_nano(noise_multiplier: float) -> int:
    """Return mu^2 of Gaussian noise, in nano, computed in exact fractions and rounded up."""
    return math.ceil(Fraction(NANO) / Fraction(noise_multiplier) ** 2)


@lru_cache(maxsize=4096)
def pure_square_nano(epsilon_nano: int) -> int:
    """Return the mu^2 that dominates a pure release of `epsilon_nano`, in nano, rounded up. It increases with epsilon.

    Below epsilon = 1e-3 the code uses mu <= epsilon sqrt(pi / 2): Phi^-1(1/2 + x) = sqrt(2 pi) (x + pi x^3 / 3 + ...)
    at x = tanh(epsilon / 2) / 2 = epsilon / 4 - epsilon^3 / 48 + .... The cubic terms sum to less than 0, and computing
    1/2 + x itself would lose digits. Above epsilon = 40 the code uses mu^2 <= 8 epsilon: 1 - Phi(t) <= e^(-t^2 / 2) / 2
    gives Phi^-1(1 - p) <= sqrt(2 ln(1 / 2p)), and 2p >= e^-epsilon.
    """
    epsilon = epsilon_nano / NANO
    if epsilon < _SMALL_EPSILON:
        mu = epsilon * math.sqrt(math.pi / 2)
    elif epsilon > 40.0:
        mu = math.sqrt(8 * epsilon)
    else:
        mu = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon)))
    return math.ceil(mu * mu * _ROUND_UP * NANO)


def gaussian_cap_nano(epsilon_nano: int, delta_femto: int) -> int:
    """Return the largest sum of mu^2, in nano, that is (epsilon, delta)-DP, rounded down; -1 if there is no such arm.

    An account without delta has no Gaussian arm. The value is found on the exact curve of Balle and Wang 2018 and then
    lowered until the rounded-up epsilon of `core.accounting.gaussian` fits.
    """
    if delta_femto == 0 or epsilon_nano == 0:
        return -1
    from core.accounting.gaussian import delta_of_gaussian, epsilon_of_gaussian  # imported late: loads scipy

    epsilon, delta = epsilon_nano / NANO, delta_femto / FEMTO
    if delta >= 1.0:
        return -1  # basic composition admits everything at this delta
    low, high = 0.0, 1.0
    while delta_of_gaussian(epsilon, high) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if delta_of_gaussian(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    mu = low
    while mu > 0 and epsilon_of_gaussian(delta, mu) > epsilon:
        mu *= _STEP_DOWN
    return math.floor(Fraction(mu) ** 2 * NANO)
