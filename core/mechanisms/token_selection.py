"""`dp` fill: one token of a fixed public candidate list for a slot, by scores that a model gives them.

Guarantee: pure epsilon-DP of one draw for **any** change of the scores, that is for any change of whatever the model
read, as long as the candidate list, its length V and the range R are public: for any two score vectors and every
candidate y, Pr[y | s] <= e^eps Pr[y | s'] with

    eps(R, V) = R + ln((1 + (V - 1) e^R) / (e^R + V - 1))  <=  2 R.

Proof. Scores are integers g in 0..G and y is drawn with probability w_y / sum w, w = exp(R g / G) in [1, e^R]. The
ratio of two such probabilities for y is largest where w_y = e^R beside others of 1 stands against w'_y = 1 beside
others of e^R: e^R / (e^R + V - 1) over 1 / (1 + (V - 1) e^R). Both vectors exist: this is the exact epsilon, no bound.
Nothing is asked of the model: its logits may round as they like, since `scores` puts any finite number on the grid.

The Renyi divergence of one draw is at most that of epsilon-bounded range at **2 R** (the exponential mechanism of
sensitivity G has weights exp(eta g / (2 G)), so eta = 2 R), and that of pure eps(R, V); bounded range at eps(R, V)
would be unsound, since eps(R, V) < 2 R.

Source: McSherry and Talwar 2007 (exponential mechanism) with the exact constant of a bounded score vector; sampled
exactly by `sampling.exponential_mechanism`.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from core.amounts import EPSILON_MAX, NANO
from core.mechanisms.sampling import IntArray, exponential_mechanism

GRID = 1 << 16  # G: steps of a score; the finest difference of two weights is a factor exp(R / G)

_LIMITS: dict[str, Any] = {"prec": 60, "Emin": -999999999999999999, "Emax": 999999999999999999}
_DOWN = Context(rounding=ROUND_FLOOR, **_LIMITS)
_UP = Context(rounding=ROUND_CEILING, **_LIMITS)


def slot_epsilon_nano(range_nano: int, candidates: int) -> int:
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
def slot_range_nano(epsilon_nano: int, candidates: int) -> int:
    """The largest R, in nano, whose draw costs at most `epsilon_nano`. It may be 0: then every draw is uniform.

    Raises: ValueError for fewer than 2 candidates or an epsilon outside 1..`EPSILON_MAX`.
    """
    if not 1 <= epsilon_nano <= EPSILON_MAX * NANO:
        raise ValueError("epsilon must be positive and in range")
    low, high = epsilon_nano // 2, epsilon_nano  # R <= eps(R, V) <= 2 R
    if slot_epsilon_nano(high, candidates) <= epsilon_nano:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if slot_epsilon_nano(middle, candidates) <= epsilon_nano:
            low = middle
        else:
            high = middle
    return low


def scores(logits: npt.NDArray[np.float32], *, clip: float) -> IntArray:
    """Logits on the public grid: the largest of a row is `GRID`, what lies `clip` or more below it is 0.

    Shapes: float32 `[n, V]` -> int64 `[n, V]` in 0..GRID. Units: `clip` (public) in logits.
    Raises: ValueError for a logit that is not finite, or a clip that is not positive.
    """
    wide = np.asarray(logits, dtype=np.float64)
    if wide.ndim != 2 or wide.shape[1] < 2 or not np.isfinite(wide).all():
        raise ValueError("logits must be finite, a row of at least two for each slot")
    if not clip > 0:
        raise ValueError("the clip must be positive")
    below = wide.max(axis=1, keepdims=True) - wide
    placed: IntArray = np.rint(np.maximum(1.0 - below / clip, 0.0) * GRID).astype(np.int64)
    return placed


def select(scored: IntArray, *, range_nano: int) -> int:
    """The index of one candidate, drawn with weight exp(R g / GRID), exactly.

    Shapes: `scored` int64 `[V]`, one slot's row of `scores`. Units: R in nano.
    Raises: ValueError for a score outside 0..GRID, or fewer than 2 candidates.
    """
    if len(scored) < 2 or scored.min() < 0 or scored.max() > GRID:
        raise ValueError("at least two scores, each between 0 and GRID")
    if range_nano == 0:
        return exponential_mechanism(np.zeros_like(scored), epsilon_nano=1, sensitivity=1)
    return exponential_mechanism(scored, epsilon_nano=2 * range_nano, sensitivity=GRID)
