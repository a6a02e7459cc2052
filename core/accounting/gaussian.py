"""The Gaussian mechanism, exactly (Balle and Wang 2018, Theorem 8).

With mu = sensitivity / standard deviation: delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).
k releases equal one release of mu sqrt(k), and different multipliers add as sum mu_i^2.

In terms of a = eps/mu - mu/2, b = a + mu and the Mills ratio M(x) = Phi(-x) / phi(x), with e^eps phi(b) = phi(a):

    delta = phi(a) (M(a) - M(b)) = phi(a) * integral of 1 - x M(x) from a to b,    1 - delta = Phi(a) + phi(a) M(b).

The difference loses the digits that M(a) and M(b) have in common, a fraction 1/mu of them. The integral loses none,
because its integrand is positive. The sum for 1 - delta keeps its digits where delta is nearly 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, ndtr

_ROOT_2 = math.sqrt(2.0)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_NARROW = 0.1  # up to this mu the code evaluates the integral
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# The relative error of both sides of the curve, as computed at a given `a`, for delta >= 1e-30, that is a <= 12.
# phi(a): a^2 2^-53 < 2e-14. Mills ratios: 8 units of rounding, which the difference multiplies by at most 14
# (mu > 1) and 1 - x M(x) > 1 / (x^2 + 3) by at most 172 (mu <= 1): < 2e-13. The quadrature of an entire function over
# a length of 1 by 20 nodes: < 1e-20.
_RELATIVE_ERROR = 1e-12
# The error of `a` itself is 2^-53 (eps/mu + |a|). This equals an error of epsilon of 2^-53 (2 eps + 9 mu), because
# |a| < 9 where a < 0.
_ROUND_UP = 1e-14
_TOLERANCE = 1e-13


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Return the exact delta at `epsilon` >= 0 of a Gaussian release with `mu` = sensitivity / standard deviation > 0.

    The error is parts in 10^12 of delta for delta >= 1e-30 and every `mu`.
    """
    a = epsilon / mu - mu / 2
    if mu <= _NARROW:
        x = a + mu * (_NODES + 1) / 2
        return float(_density(a) * (mu / 2) * (_WEIGHTS @ (1 - x * _ROOT_HALF_PI * erfcx(x / _ROOT_2))))
    if a > 0:
        return _density(a) * (_mills(a) - _mills(a + mu))
    return float(ndtr(-a)) - _density(a) * _mills(a + mu)


def epsilon_of_gaussian(delta: float, mu: float) -> float:
    """Return the least epsilon >= 0 with delta(eps) <= `delta`, rounded up. The result is a bound.

    Guarantee: never below the true value, for every `mu` and 1e-30 <= `delta` < 1. It exceeds the true value by less
    than 2e-13 (eps + 10 mu) for delta <= 1 - 1e-12. Nearer to 1, the excess is as small as 1 - delta allows.
    """
    if _is_within(0.0, mu, delta):
        return 0.0
    low, high = 0.0, mu * mu / 2 + 10.0 * mu
    while not _is_within(high, mu, delta):
        low, high = high, 2 * high
    while high - low > _TOLERANCE * high + _ROUND_UP * mu:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _is_within(middle, mu, delta):
            high = middle
        else:
            low = middle
    return high * (1 + _ROUND_UP) + _ROUND_UP * mu


def _is_within(epsilon: float, mu: float, delta: float) -> bool:
    """Whether delta(eps) <= `delta` certainly holds, up to the rounding of `a`."""
    if delta <= 0.5:
        return delta_of_gaussian(epsilon, mu) * (1 + _RELATIVE_ERROR) <= delta
    a = epsilon / mu - mu / 2
    complement = float(ndtr(a)) + _density(a) * _mills(a + mu)
    return complement * (1 - _RELATIVE_ERROR) >= 1 - delta


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / (_ROOT_2 * math.sqrt(math.pi))


def _mills(x: float) -> float:
    return _ROOT_HALF_PI * float(erfcx(x / _ROOT_2))
