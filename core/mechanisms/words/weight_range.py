"""The exact price of one draw from a fixed list whose weights lie in [1, e^R] and may all change with the input.

This module does not import numpy, because the front end prices requests with it.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from core.amounts import EPSILON_MAX, NANO

_LIMITS: dict[str, Any] = {"prec": 60, "Emin": -999999999999999999, "Emax": 999999999999999999}
_DOWN = Context(rounding=ROUND_FLOOR, **_LIMITS)
_UP = Context(rounding=ROUND_CEILING, **_LIMITS)


def draw_epsilon_nano(range_nano: int, *, candidates: int) -> int:
    """Return the pure epsilon of the draw, in nano, rounded up.

    Guarantee priced: y is drawn from V candidates with probability w_y / sum w, where every weight is in [1, e^R] for
    every input. Then Pr[y | x] <= e^eps Pr[y | x'] for every two inputs and every y, with

        eps(R, V) = R + ln((1 + (V - 1) e^R) / (e^R + V - 1))  <=  2 R.

    Proof. The ratio of two such probabilities of y is largest if w_y = e^R beside others of 1 in one input, and
    w'_y = 1 beside others of e^R in the other: e^R / (e^R + V - 1) over 1 / (1 + (V - 1) e^R). A mechanism that can
    reach both has exactly this epsilon. It grows with V, so the price of a longer list is valid for a shorter one.

    Units: R in nano. Raises: ValueError for fewer than 2 candidates or an R outside 0..`EPSILON_MAX`.
    Source: McSherry and Talwar 2007, with the exact constant of bounded weights.
    """
    if candidates < 2 or not 0 <= range_nano <= EPSILON_MAX * NANO:
        raise ValueError("there must be at least two candidates and a range within the limits of epsilon")
    exact = Decimal(range_nano).scaleb(-9, _UP)
    # with q = e^-R: (1 + (V - 1) e^R) / (e^R + V - 1) = (q + V - 1) / (1 + (V - 1) q), which decreases in q
    least = max(Decimal(0), _DOWN.next_minus(_DOWN.exp(exact.copy_negate())))
    others = Decimal(candidates - 1)
    ratio = _UP.divide(_UP.add(least, others), _DOWN.add(1, _DOWN.multiply(others, least)))
    total = _UP.add(exact, _UP.next_plus(_UP.ln(ratio)))
    return min(int(_UP.multiply(total, NANO).to_integral_value(rounding=ROUND_CEILING)), 2 * range_nano)
