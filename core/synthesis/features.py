"""The characteristic function of encoded rows as exact integer sums.

Guarantee: a row's contribution is a function of that row alone, and at most its amplitude in each (cosine, sine)
pair. Every product and sum is one of integers below 2^53, exact in any order, at any batch size.

For k public frequencies t_i, phi(x)_i = (cos t_i.x, sin t_i.x). Frequencies are multiples of 2 pi / 2^18, and a row has
coordinates of 1 / 2^12, so t_i.x is a whole number of 2^-30 turns, rounded to 2^-14 turns. Cosine and sine are read
from a table, multiplied by the frequency's amplitude A_i and truncated towards zero. No such pair is longer than A_i
(checked). The rounding moves a pair by at most `pair_error`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.vectors.projection import derived_normals
from core.synthesis.encoding import STEPS, EncodedTable, unit_vectors

FloatArray = npt.NDArray[np.float64]

AMPLITUDE_MAX = 1 << 12
_TURN_BITS = 14
_EXTRA_BITS = 16
TURN = (1 << (_TURN_BITS + _EXTRA_BITS)) // STEPS  # the integer of a frequency of one turn over [0, 1]
_UNIT = 2 * np.pi * STEPS / 2.0 ** (_TURN_BITS + _EXTRA_BITS)  # radians for each integer of a frequency
_EXACT_MAX = 2.0**53
_BLOCK_NUMBERS = 1 << 21


class FeatureMap:
    """k frequencies in d dimensions, and the amplitudes of their integers."""

    def __init__(self, integers: IntArray, amplitude: int | IntArray) -> None:
        """`integers` int64 `[d, k]`, `amplitude` one for all or `[k]`.

        Raises ValueError for frequencies or an amplitude beyond exact sums.
        """
        self.amplitudes: IntArray = np.broadcast_to(np.asarray(amplitude, dtype=np.int64), integers.shape[1:])
        if self.amplitudes.min() < 1 or self.amplitudes.max() > AMPLITUDE_MAX:
            raise ValueError("the amplitude is out of range")
        self._integers = integers.astype(np.float64)
        if np.abs(self._integers).sum(axis=0).max() * STEPS >= _EXACT_MAX:
            raise ValueError("the frequencies are too high")
        for value in np.unique(self.amplitudes):
            _check_lengths(int(value))

    @property
    def frequencies(self) -> FloatArray:
        """The frequencies in radians, `[k, d]`, for rows in [0, 1]^d."""
        return np.ascontiguousarray(self._integers.T) * _UNIT

    def sums(self, table: EncodedTable) -> IntArray:
        """Return for each class the sum of its rows' contributions: int64 `[classes, k, 2]`, cosine then sine."""
        width, count = self._integers.shape
        totals = np.zeros((table.schema.classes, count, 2), dtype=np.float64)
        step = max(1, _BLOCK_NUMBERS // max(width, count))
        for start in range(0, len(table), step):
            block = slice(start, start + step)
            phases = self._phases(unit_vectors(table.schema, table.codes[block]))
            members = np.equal.outer(np.arange(table.schema.classes), table.labels[block]).astype(np.float64)
            for part in (0, 1):
                totals[:, :, part] += members @ np.trunc(_waves()[part][phases] * self.amplitudes)
        return totals.astype(np.int64)

    def _phases(self, vectors: FloatArray) -> IntArray:
        """Return t_i.x in 2^-14 turns, `[n, k]`."""
        turns = (vectors @ self._integers).astype(np.int64)
        return ((turns + (1 << (_EXTRA_BITS - 1))) >> _EXTRA_BITS) & ((1 << _TURN_BITS) - 1)


def public_frequencies(*, width: int, count: int, spread: float) -> IntArray:
    """Return `count` frequencies of the law N(0, spread^2) in each of `width` dimensions, integers `[width, count]`.

    Apart from their spread these are public constants: normal numbers derived from a published name, never noise.
    """
    normals = derived_normals(f"privacy-gateway/frequencies/1\n{width}\n{count}", width * count)
    integers: IntArray = np.rint(normals.reshape(width, count) * (spread / _UNIT)).astype(np.int64)
    return integers


def pair_error(amplitude: float) -> float:
    """Return the maximum distance of a row's pair from A (cos t.x, sin t.x), for given integers of one frequency."""
    return math.sqrt(2) + amplitude * math.pi / (1 << _TURN_BITS) + 1e-6


@lru_cache(maxsize=1)
def _waves() -> tuple[FloatArray, FloatArray]:
    """Return cosine and sine at every phase."""
    angle = 2 * np.pi * np.arange(1 << _TURN_BITS) / 2.0**_TURN_BITS
    return np.cos(angle), np.sin(angle)


@lru_cache(maxsize=1 << 12)
def _check_lengths(amplitude: int) -> None:
    """Raise RuntimeError for a pair that is too long."""
    cosine, sine = (np.trunc(wave * amplitude) for wave in _waves())
    if (cosine**2 + sine**2).max() > amplitude**2:
        raise RuntimeError("a pair of the table is longer than its amplitude")
