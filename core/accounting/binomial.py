"""Exact composition of equal pure-epsilon releases (Kairouz, Oh and Viswanath 2015, Theorem 3.3).

Randomised response is the worst pure-eps0 mechanism. Its privacy loss after m releases is (2k - m) eps0 with
k ~ Bin(m, 1/(1+e^eps0)) under Q and k ~ Bin(m, e^eps0/(1+e^eps0)) under P, hence
delta(eps) = P[k > t] - e^eps Q[k > t] for t the last k with (2k - m) eps0 <= eps.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtrc, expit, gammaln, logsumexp

_TERMS_MAX = 20_000
_TAIL_SLACK = 1e-9


def _log_tail(k: int, m: int, log_p: float, log_not_p: float) -> float:
    """ln P[Bin > k] for k well above the mean, from its leading terms (their ratio falls below 1 and keeps falling)."""
    terms = np.arange(k + 1, min(m, k + _TERMS_MAX) + 1, dtype=np.float64)
    logs = gammaln(m + 1.0) - gammaln(terms + 1.0) - gammaln(m - terms + 1.0) + terms * log_p + (m - terms) * log_not_p
    return float(logsumexp(logs))


def _tails(k: int, m: int, eps0: float) -> tuple[float, float]:
    """P[Bin(m, p) > k] and ln Q[Bin(m, 1 - p) > k] with p = e^eps0 / (1 + e^eps0)."""
    if k < 0:
        return 1.0, 0.0
    if k >= m:
        return 0.0, -math.inf
    above = float(bdtrc(k, m, float(expit(eps0))))
    under_q = float(bdtrc(k, m, float(expit(-eps0))))
    if under_q > 1e-280:
        return above, math.log(under_q)
    log_small = -eps0 - math.log1p(math.exp(-eps0))
    return above, _log_tail(k, m, log_small, -math.log1p(math.exp(-eps0)))


def delta_of_pure(epsilon: float, eps0: float, count: int) -> float:
    """The exact delta at `epsilon` of `count` releases of pure `eps0`-DP, adaptive or not, either adjacency."""
    k = math.floor((epsilon / eps0 + count) / 2 + 1e-12)
    above, log_q = _tails(k, count, eps0)
    return max(0.0, above - math.exp(min(700.0, epsilon + log_q)))


def epsilon_of_pure(delta: float, eps0: float, count: int) -> float:
    """The least epsilon with delta(eps) <= `delta`, in closed form between the lattice points; rounded up: a bound."""
    low, high = (count - 1) // 2, count  # delta at lattice point `low` is above the target, at `high` it is 0
    if delta_of_pure(0.0, eps0, count) <= delta:
        return 0.0
    while high - low > 1:
        middle = (low + high) // 2
        if delta_of_pure(max(0.0, (2 * middle - count) * eps0), eps0, count) > delta:
            low = middle
        else:
            high = middle
    above, log_q = _tails(low, count, eps0)
    rest = above * (1 + _TAIL_SLACK) - delta
    epsilon = math.log(rest) - log_q if rest > 0 else 0.0
    return min(max(epsilon, 0.0) * (1 + 1e-12) + _TAIL_SLACK, count * eps0)
