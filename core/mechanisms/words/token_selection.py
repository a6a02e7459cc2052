"""`dp` fill: one token of a fixed public candidate list for a slot, with a preference for the slot's original token.

Guarantee: pure epsilon-DP of one draw for replacing the slot's own token by anything else, whatever the model's scores
for the slot, if the model does not read that token. The price is R = epsilon, exactly: no smaller one holds.

Mechanism: each candidate y has a weight a_y in [1, e^R] by the model's scores, which are the same for both tokens. The
own token x, if it is a candidate, has e^R instead. y is drawn with probability proportional to its weight. Proof, with
T the sum of the a_y and Z_x = T - a_x + e^R (T if x is no candidate) the sum for x:

* y = x, against x': the ratio is e^R / a_x times Z_x' / Z_x. If a_x is 1 it is at most e^R (e^R at a_x' = 1). For a
  larger a_x, Z_x' contains it and Z_x does not: (a_x + u) / (a_x (1 + u)) with u > 0 decreases in a_x. So it is at most
  e^R;
* any other y: its weight under x' is at least its weight under x, so the ratio is at most Z_x' / Z_x. Since a_x is
  at most e^R, Z_x >= T and Z_x' <= T - 1 + e^R, which is below e^R T.

Weights are w = exp(R g / G) of integers g in 0..G. The only condition on the model's logits is that they are finite. If
all scores could change with the token, the cost would be `pricing.draw_epsilon_nano` of R, up to twice as much.

Source: k-ary randomised response (Kairouz, Oh and Viswanath 2014) with a public prior over the replacements; sampled
exactly by `samplers.exact.exponential_mechanism`.
"""

import numpy as np
import numpy.typing as npt

from core.mechanisms.samplers.exact import IntArray, exponential_mechanism

GRID = 1 << 16  # G: steps of a score; the smallest ratio of two different weights is exp(R / G)


def scores(logits: npt.NDArray[np.float32], *, clip: float) -> IntArray:
    """Return logits on the public grid: the largest of a row is `GRID`; those `clip` or more below it are 0.

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


def select(scored: IntArray, own: int | None, *, epsilon_nano: int) -> int:
    """Draw the index of one candidate (module docstring). An epsilon of 0 gives a uniform one.

    Shapes: `scored` int64 `[V]`, one slot's row of `scores` or a part of it; `own` is the slot's token, None if it is
    no candidate. Raises: ValueError for a score outside 0..GRID, or fewer than 2 candidates.
    """
    if len(scored) < 2 or scored.min() < 0 or scored.max() > GRID:
        raise ValueError("at least two scores, each between 0 and GRID")
    if epsilon_nano == 0:
        return exponential_mechanism(np.zeros_like(scored), epsilon_nano=1, sensitivity=1)
    favoured = scored.copy()
    if own is not None:
        favoured[own] = GRID
    return exponential_mechanism(favoured, epsilon_nano=2 * epsilon_nano, sensitivity=GRID)
