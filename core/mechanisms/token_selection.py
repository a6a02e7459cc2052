"""`dp` fill: one token of a fixed public candidate list for a slot, by scores that a model gives them.

Guarantee: pure epsilon-DP of one draw for **any** change of the scores, that is for any change of whatever the model
read, as long as the candidate list, its length V and the range R are public; epsilon is `weight_range.draw_epsilon_nano`
of R and V. Scores are integers g in 0..G and y is drawn with probability w_y / sum w, w = exp(R g / G) in [1, e^R].
Nothing is asked of the model: its logits may round as they like, since `scores` puts any finite number on the grid.

Source: McSherry and Talwar 2007 (exponential mechanism); sampled exactly by `sampling.exponential_mechanism`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from core.mechanisms.sampling import IntArray, exponential_mechanism

GRID = 1 << 16  # G: steps of a score; the finest difference of two weights is a factor exp(R / G)


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
