"""The Gaussian mechanism, exactly (Balle and Wang 2018, Theorem 8).

With mu = sensitivity / standard deviation: delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).
k releases are one of mu sqrt(k), and several multipliers add as sum mu_i^2.
"""

from __future__ import annotations

import math

from scipy.special import erfcx, log_ndtr, ndtr

_ROUND_UP = 1e-12


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """The exact delta at `epsilon` >= 0 of a Gaussian release with `mu` = sensitivity / standard deviation > 0."""
    upper = mu / 2 - epsilon / mu
    lower = -mu / 2 - epsilon / mu
    if upper > -5.0:
        return max(0.0, float(ndtr(upper)) - math.exp(min(0.0, epsilon + float(log_ndtr(lower)))))
    # both terms are phi(upper) times a Mills ratio: no cancellation of tiny tails
    root2 = math.sqrt(2.0)
    return 0.5 * math.exp(-upper * upper / 2) * float(erfcx(-upper / root2) - erfcx(-lower / root2))


def epsilon_of_gaussian(delta: float, mu: float) -> float:
    """The least epsilon >= 0 with delta(eps) <= `delta`, rounded up by parts in 10^12: a bound."""
    if delta_of_gaussian(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + 10.0 * mu
    while delta_of_gaussian(high, mu) > delta:
        low, high = high, 2 * high
    while high - low > _ROUND_UP * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if delta_of_gaussian(middle, mu) > delta:
            low = middle
        else:
            high = middle
    # an error of `delta` near the root is at most some units of rounding in upper^2/2, hence in eps/mu
    return high * (1 + 1e-11) + 1e-12 * mu
