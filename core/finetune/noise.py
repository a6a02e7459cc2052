"""Gaussian noise on the sum of a step's clipped gradients.

Assumption: float64 stands for the real numbers. The noise is drawn in float64 from a keyed AES stream. The sum with
the noise is rounded to a public grid and to float32. This depends only on noisy numbers and hides the last digits, but
it is not a proof (docs/KNOWN_LIMITATIONS.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from core.mechanisms.vectors.noise import FloatArray, round_to_grid


def noisy_sum(total: FloatArray, *, deviation: float, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return `total` plus independent normal noise of standard `deviation` on every entry, for any shape.

    Guarantee: with a deviation of (noise multiplier) * C this is the Gaussian mechanism for a total that one row moves
    by at most C in l2 norm, over everything to which one `generator` adds noise in the step.
    """
    noisy = total + generator.normal(0.0, deviation, total.shape)
    return round_to_grid(noisy, scale=deviation)
