"""What sentence-level release is compared with: two simpler mechanisms, simulated.

The noise is floating point from NumPy's generator: these functions measure utility and release nothing to anybody.
No gateway code calls them. Each document is float32 `[k, d]`, one row a sentence; each answer float32 `[n, d]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
BOX_SHARE = 0.75


@dataclass(frozen=True)
class Box:
    """A public box: `low` and `high` `[d]`."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def around(cls, means: FloatArray) -> Box:
        """The interval of each dimension that holds the middle 75 % of public document means."""
        tail = (1 - BOX_SHARE) / 2
        low, high = np.quantile(means, (tail, 1 - tail), axis=0).astype(np.float32)
        return cls(low, high)

    def clip(self, rows: FloatArray) -> FloatArray:
        return np.clip(rows, self.low, self.high)


def truncation(documents: Sequence[FloatArray], epsilon: float, box: Box, source: np.random.Generator) -> FloatArray:
    """Clip each sentence to the box, average, add Laplace noise to every dimension.

    Guarantee: eps for replacing one sentence, k public; eps is the total, eps/d a dimension (basic composition).
    Sensitivity: w_j / k in dimension j, hence scale d w_j / (k eps). Source: Li and Clifton 2021, as in Meehan,
    Mrini and Chaudhuri 2022, sections 5.3 and A.3.
    """
    lengths = np.array([len(document) for document in documents])
    means = np.stack([box.clip(document).mean(axis=0) for document in documents])
    scale = means.shape[1] * (box.high - box.low) / (lengths[:, None] * epsilon)
    return (means + source.laplace(size=means.shape) * scale).astype(np.float32)


def mean_laplace(documents: Sequence[FloatArray], epsilon: float, source: np.random.Generator) -> FloatArray:
    """The mean of unit-length sentences plus noise of density proportional to exp(-k eps |z|_2 / 2).

    Guarantee: eps for replacing one sentence, k public. Sensitivity: 2/k in the Euclidean norm (two unit vectors are at
    most 2 apart). The noise is a uniform direction times a Gamma(d, 2/(k eps)) length. Source: the K-norm mechanism
    (Hardt and Talwar 2010) with the Euclidean ball.
    """
    lengths = np.array([len(document) for document in documents])
    means = np.stack([_unit(document).mean(axis=0) for document in documents])
    return (means + ball_noise(means.shape, source) * (2 / (lengths[:, None] * epsilon))).astype(np.float32)


def ball_noise(shape: tuple[int, int], source: np.random.Generator) -> npt.NDArray[np.float64]:
    """Rows of density proportional to exp(-|z|_2)."""
    rows, dimension = shape
    return _unit(source.standard_normal((rows, dimension))) * source.gamma(dimension, size=(rows, 1))


def _unit(rows: npt.NDArray) -> npt.NDArray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
