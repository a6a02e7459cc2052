"""Cumulants of the privacy loss of one release, in closed form. The ledger sums them for the dashboard's estimates.

L = ln(dP/dQ), X is L under Q, Y is L under P. This module imports only `math`, because the front end computes the
cumulants with each request.
"""

from __future__ import annotations

import math
from functools import lru_cache

from core.accounting.events import Adjacency, PrivacyEvent
from core.amounts import NANO

CUMULANTS = 5
TWO_RESPONSES = 2**52  # above every epsilon in nano; the sum stays below 2^53
_SERIES_MAX = 20.0


@lru_cache(maxsize=4096)
def moments_of(event: PrivacyEvent) -> tuple[float, ...] | None:
    """Return cumulants 1 to 5 of X, then 1 to 5 of Y, of the event's dominating pair. Cumulants add over releases.

    The pair is randomised response for `pure`, `metric` and `exponential`, two of them at half epsilon for
    `two_geometric`, Laplace noise for `laplace` and `permute_and_flip`, Gaussian noise for `gaussian`. Returns None if
    no pair is known: for an event with only an (epsilon, delta), and under metric adjacency, where the pair depends on
    the distance.
    """
    if event.adjacency is Adjacency.METRIC:
        return None
    if event.noise_multiplier is not None:
        square = event.noise_multiplier**-2 if event.noise_multiplier > 1e-100 else math.inf
        return (-square / 2, square, 0.0, 0.0, 0.0, square / 2, square, 0.0, 0.0, 0.0) if square < math.inf else None
    if event.kind == "approximate" or event.delta_femto > 0:
        return None
    epsilon = event.epsilon_nano / NANO
    if event.kind in ("laplace", "permute_and_flip"):
        y = _laplace(epsilon)
    elif event.kind == "two_geometric":
        y = tuple(2 * cumulant for cumulant in _randomised_response(epsilon / 2))
    else:
        y = _randomised_response(epsilon)
    # both pairs are symmetric: -Y has the distribution of X
    return (-y[0], y[1], -y[2], y[3], -y[4], *y)


def pure_epsilon_nano(event: PrivacyEvent) -> int | None:
    """Return the epsilon of an event whose dominating pair is randomised response, else None.

    The pair of `two_geometric` is two randomised responses at half epsilon; the result is TWO_RESPONSES plus epsilon.
    A history in which all events have the same number composes exactly, as a binomial.
    """
    if event.delta_femto > 0:
        return None
    if event.kind == "two_geometric":
        return TWO_RESPONSES + event.epsilon_nano
    return event.epsilon_nano if event.kind in ("pure", "metric", "exponential") else None


def _randomised_response(epsilon: float) -> tuple[float, ...]:
    """Y is epsilon (2B - 1), where B is Bernoulli with odds e^epsilon."""
    tilt = math.tanh(epsilon / 2)
    variance = math.exp(-epsilon) / (1 + math.exp(-epsilon)) ** 2  # of B
    width = 2 * epsilon
    return (
        epsilon * tilt,
        width**2 * variance,
        -(width**3) * variance * tilt,
        width**4 * variance * (1 - 6 * variance),
        -(width**5) * variance * tilt * (1 - 12 * variance),
    )


def _laplace(epsilon: float) -> tuple[float, ...]:
    """Y is epsilon (1 - 2U). epsilon U is 0 with probability 1/2, otherwise exponential and truncated at epsilon.

    Therefore E U^n = (n/2) gamma(n, epsilon) / epsilon^n. The moments of U have the size of its spread, so nothing
    cancels.
    """
    m1, m2, m3, m4, m5 = (n / 2 * _gamma_ratio(n, epsilon) for n in range(1, 6))
    c2 = m2 - m1**2
    c3 = m3 - 3 * m1 * m2 + 2 * m1**3
    c4 = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    c5 = m5 - 5 * m1 * m4 + 10 * m1**2 * m3 - 10 * m1**3 * m2 + 4 * m1**5
    width = -2 * epsilon
    return (
        epsilon + math.expm1(-epsilon),
        width**2 * c2,
        width**3 * c3,
        width**4 * (c4 - 3 * c2**2),
        width**5 * (c5 - 10 * c3 * c2),
    )


def _gamma_ratio(n: int, x: float) -> float:
    """Return gamma(n, x) / x^n, with the lower incomplete gamma, by a series of positive terms or in closed form."""
    if x < _SERIES_MAX:
        term = total = 1 / n
        k = n
        while term > 1e-17 * total:
            k += 1
            term *= x / k
            total += term
        return math.exp(-x) * total
    rest = math.exp(-x) * sum(x**k / math.factorial(k) for k in range(n))
    return math.factorial(n - 1) * (1 - rest) / x**n
