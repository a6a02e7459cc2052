"""The characteristic function of encoded rows as exact integer sums.

Guarantee: a row's contribution is a function of that row alone, of at most `amplitude` in each (cosine, sine) pair:
every product and sum is one of integers below 2^53, exact in any order, at any batch size.

For k public frequencies t_i, phi(x)_i = (cos t_i.x, sin t_i.x). Frequencies are multiples of 2 pi / 2^18, a row has
coordinates of 1 / 2^12, so t_i.x is a whole number of 2^-30 turns, rounded to 2^-14 turns; cosine and sine are read
from a table of integers, `amplitude` times the value cut towards zero. No pair of the table is longer than `amplitude`
(checked). The rounding moves a pair by at most 2e-4 + sqrt(2) / amplitude.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from core.mechanisms.sampling import IntArray
from core.mechanisms.vectors.projection import derived_normals
from core.synthesis.encoding import STEPS, EncodedTable, unit_vectors

FloatArray = npt.NDArray[np.float64]

AMPLITUDE_MAX = 1 << 12
_TURN_BITS = 14
_EXTRA_BITS = 16
_UNIT = 2 * np.pi * STEPS / 2.0 ** (_TURN_BITS + _EXTRA_BITS)  # radians that one integer of a frequency stands for
_EXACT_MAX = 2.0**53
_BLOCK_NUMBERS = 1 << 21


class FeatureMap:
    """k frequencies in d dimensions, and the amplitude of their integers."""

    def __init__(self, integers: IntArray, amplitude: int) -> None:
        """`integers` int64 `[d, k]`. Raises ValueError for frequencies or an amplitude beyond exact sums."""
        if not 1 <= amplitude <= AMPLITUDE_MAX:
            raise ValueError("the amplitude is out of range")
        self._integers = integers.astype(np.float64)
        if np.abs(self._integers).sum(axis=0).max() * STEPS >= _EXACT_MAX:
            raise ValueError("the frequencies are too high")
        self.amplitude = amplitude
        self._waves = _waves(amplitude)

    @property
    def frequencies(self) -> FloatArray:
        """The frequencies in radians, `[k, d]`, for rows in [0, 1]^d."""
        return np.ascontiguousarray(self._integers.T) * _UNIT

    def sums(self, table: EncodedTable) -> IntArray:
        """For each class, the sum of its rows' contributions: int64 `[classes, k, 2]`, cosine then sine."""
        width, count = self._integers.shape
        totals = np.zeros((table.schema.classes, count, 2), dtype=np.float64)
        step = max(1, _BLOCK_NUMBERS // max(width, count))
        for start in range(0, len(table), step):
            block = slice(start, start + step)
            phases = self._phases(unit_vectors(table.schema, table.codes[block]))
            members = np.equal.outer(np.arange(table.schema.classes), table.labels[block]).astype(np.float64)
            for part in (0, 1):
                totals[:, :, part] += members @ self._waves[part][phases]
        return totals.astype(np.int64)

    def _phases(self, vectors: FloatArray) -> IntArray:
        """t_i.x in 2^-14 turns, `[n, k]`."""
        turns = (vectors @ self._integers).astype(np.int64)
        return ((turns + (1 << (_EXTRA_BITS - 1))) >> _EXTRA_BITS) & ((1 << _TURN_BITS) - 1)


def public_frequencies(*, width: int, count: int, spread: float) -> IntArray:
    """`count` frequencies of the law N(0, spread^2) in each of `width` dimensions, as integers `[width, count]`.

    Public constants but for their spread: normal numbers that follow from a published name, never noise.
    """
    normals = derived_normals(f"privacy-gateway/frequencies/1\n{width}\n{count}", width * count)
    integers: IntArray = np.rint(normals.reshape(width, count) * (spread / _UNIT)).astype(np.int64)
    return integers


@lru_cache(maxsize=8)
def _waves(amplitude: int) -> tuple[FloatArray, FloatArray]:
    """Cosine and sine at every phase as integers (float64). Raises RuntimeError for a pair that is too long."""
    angle = 2 * np.pi * np.arange(1 << _TURN_BITS) / 2.0**_TURN_BITS
    cosine, sine = np.trunc(amplitude * np.cos(angle)), np.trunc(amplitude * np.sin(angle))
    if (cosine**2 + sine**2).max() > amplitude**2:
        raise RuntimeError("a pair of the table is longer than its amplitude")
    return cosine, sine
