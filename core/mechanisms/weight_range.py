"""The exact price of one draw from a fixed list whose weights lie in [1, e^R].

Guarantee priced: y is drawn from V candidates with probability w_y / sum w, every weight in [1, e^R] whatever the
input. Then Pr[y | x] <= e^eps Pr[y | x'] for every two inputs and every y, with

    eps(R, V) = R + ln((1 + (V - 1) e^R) / (e^R + V - 1))  <=  2 R.

Proof. The ratio of two such probabilities of y is largest where w_y = e^R beside others of 1 stands against w'_y = 1
beside others of e^R: e^R / (e^R + V - 1) over 1 / (1 + (V - 1) e^R). A mechanism that can reach both weight vectors has
exactly this epsilon. It grows with V, so that of a longer list serves a shorter one. The Renyi divergence is at most
that of bounded range at eta = **2 R** (weights e^(eta g / 2 G) of scores g in 0..G), and that of pure eps(R, V);
bounded range at eps(R, V) would be unsound, since eps(R, V) < 2 R.

Imports no numpy: the front end prices a request with it. Source: McSherry and Talwar 2007, with the exact constant of
bounded weights.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

from core.amounts import EPSILON_MAX, NANO

_LIMITS: dict[str, Any] = {"prec": 60, "Emin": -999999999999999999, "Emax": 999999999999999999}
_DOWN = Context(rounding=ROUND_FLOOR, **_LIMITS)
_UP = Context(rounding=ROUND_CEILING, **_LIMITS)


def draw_epsilon_nano(range_nano: int, *, candidates: int) -> int:
    """eps(R, V) of the module docstring in nano-epsilon, rounded up.

    Units: R in nano. Raises: ValueError for fewer than 2 candidates or an R outside 0..`EPSILON_MAX`.
    """
    if candidates < 2 or not 0 <= range_nano <= EPSILON_MAX * NANO:
        raise ValueError("at least two candidates and a range that is no larger than an epsilon may be")
    exact = Decimal(range_nano).scaleb(-9, _UP)
    # with q = e^-R: (1 + (V - 1) e^R) / (e^R + V - 1) = (q + V - 1) / (1 + (V - 1) q), which falls as q grows
    least = max(Decimal(0), _DOWN.next_minus(_DOWN.exp(exact.copy_negate())))
    others = Decimal(candidates - 1)
    ratio = _UP.divide(_UP.add(least, others), _DOWN.add(1, _DOWN.multiply(others, least)))
    total = _UP.add(exact, _UP.next_plus(_UP.ln(ratio)))
    return min(int(_UP.multiply(total, NANO).to_integral_value(rounding=ROUND_CEILING)), 2 * range_nano)


@lru_cache(maxsize=1024)
def draw_range_nano(epsilon_nano: int, *, candidates: int) -> int:
    """The largest R, in nano, whose draw costs at most `epsilon_nano`. It may be 0: then every draw is uniform.

    Raises: ValueError for fewer than 2 candidates or an epsilon outside 1..`EPSILON_MAX`.
    """
    if not 1 <= epsilon_nano <= EPSILON_MAX * NANO:
        raise ValueError("epsilon must be positive and in range")
    low, high = epsilon_nano // 2, epsilon_nano  # R <= eps(R, V) <= 2 R
    if draw_epsilon_nano(high, candidates=candidates) <= epsilon_nano:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if draw_epsilon_nano(middle, candidates=candidates) <= epsilon_nano:
            low = middle
        else:
            high = middle
    return low
