"""Public frequencies, and the characteristic function of encoded rows at them as exact integer sums.

Guarantee: a row's contribution is a function of that row alone, and at most its amplitude in each (cosine, sine)
pair. Every product and sum is one of integers below 2^53, exact in any order, at any batch size.

For k public frequencies t_i, phi(x)_i = (cos t_i.x, sin t_i.x). Frequencies are multiples of 2 pi / 2^18, and a row has
coordinates of 1 / 2^12, so t_i.x is a whole number of 2^-30 turns, rounded to 2^-14 turns. Cosine and sine are read
from a table, multiplied by the frequency's amplitude A_i and truncated towards zero. No such pair is longer than A_i
(checked). The rounding moves a pair by at most `pair_error`.

**Low-order frequencies** (`low_order`) are on one or two columns, where the characteristic function of a table's rows
has power. The frequencies and the bounds depend only on the public schema and a public number.

Harmonics. A categorical column of m categories has the characters of the cyclic group: harmonic r turns category c by
r c / m, r = 1 .. m / 2. A numeric column on [0, 1] has harmonic j: half a turn j times, j = 1, 2, ... A frequency is a
harmonic of one column, or of two columns with the sum or the difference of their phases. The frequencies of one column
together determine its histogram in each class, those of two columns the histogram of each pair.

Reach: an upper bound on the squared change of a group of k frequencies when one row is replaced. One frequency changes
by 2 - 2 cos of the phase difference. Summed over one column's harmonics that is 2 k - 2 D, over a pair's, both signs,
2 k - 4 D D', where D = sum_r cos theta_r is a function of the difference of two codes (of categories modulo m). The
code enumerates all its values. The bound is about half of the 4 k of k arbitrary frequencies.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.vectors.projection import derived_normals
from core.synthesis.columns import STEPS, CategoricalColumn, Column
from core.synthesis.encoding import EncodedTable, unit_vectors
from core.synthesis.schema import TableSchema

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


ALONE_MAX = 32  # harmonics of a numeric column alone
PAIRED_MAX = 4  # harmonics of a numeric column in a pair
_SHUFFLE = 20211121
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Group:
    """`size` frequencies of `columns`, one or two. `reach` is defined in the module docstring, at amplitude 1."""

    columns: tuple[int, ...]
    size: int
    reach: float


@dataclass(frozen=True, eq=False)
class LowOrder:
    """`integers` int64 `[width, k]` as for a `FeatureMap`, group after group."""

    integers: IntArray
    groups: tuple[Group, ...]


@dataclass(frozen=True, eq=False)
class _Harmonics:
    """The harmonics of column `column`: `integers` `[coordinates, count]`, the smallest and the largest D."""

    column: int
    start: int
    integers: IntArray
    least: float
    greatest: float

    @property
    def count(self) -> int:
        return int(self.integers.shape[1])


def low_order(schema: TableSchema, *, frequencies: int) -> LowOrder:
    """Return the schema's low-order frequencies up to `frequencies`: the lowest harmonics, all pairs first.

    Raises InvalidInput if there are fewer frequencies than columns.
    """
    alone, pairs = _chosen(schema, frequencies)
    blocks = [_placed(schema, (part, part.integers)) for part in alone]
    for one, two in pairs:
        first = np.repeat(one.integers, two.count, axis=1)
        second = np.tile(two.integers, (1, one.count))
        blocks += [_placed(schema, (one, first), (two, sign * second)) for sign in (1, -1)]
    return LowOrder(np.concatenate(blocks, axis=1), _groups(alone, pairs))


def low_order_groups(schema: TableSchema, *, frequencies: int) -> tuple[Group, ...]:
    """Return the groups of `low_order` without the frequencies. Raises as it does."""
    return _groups(*_chosen(schema, frequencies))


_Pairs = list[tuple[_Harmonics, _Harmonics]]


def _chosen(schema: TableSchema, frequencies: int) -> tuple[list[_Harmonics], _Pairs]:
    alone = _most(schema, frequencies, paired=False)
    remaining = frequencies - sum(part.count for part in alone)
    paired = _most(schema, remaining, paired=True)
    pairs = list(combinations(paired, 2))
    if not paired:  # use one harmonic for each of as many pairs as fit
        every = list(combinations(_harmonics(schema, 1, paired=True), 2))
        order = np.random.Generator(np.random.PCG64(_SHUFFLE)).permutation(len(every))
        pairs = [every[i] for i in sorted(order[: remaining // 2].tolist())]
    return alone, pairs


def _groups(alone: list[_Harmonics], pairs: _Pairs) -> tuple[Group, ...]:
    groups = [Group((part.column,), part.count, _reach(part.count - part.least)) for part in alone]
    for one, two in pairs:
        size = 2 * one.count * two.count
        ends = [a * b for a in (one.least, one.greatest) for b in (two.least, two.greatest)]
        groups.append(Group((one.column, two.column), size, _reach(size - 2 * min(ends))))
    return tuple(groups)


def _reach(half: float) -> float:
    """Return the reach, at least 1. It would be 0 for a column of one category, which must not get more weight."""
    return max(1.0, 2 * half + _ROUNDING)


def _most(schema: TableSchema, frequencies: int, *, paired: bool) -> list[_Harmonics]:
    """Return the harmonics up to the highest common one that fits; none if not even the first of the pairs fit."""
    for highest in range(_highest(schema), 0, -1):
        counts = [_count(column, highest, paired=paired) for column in schema.columns]
        squares = sum(count**2 for count in counts)
        if (sum(counts) ** 2 - squares if paired else sum(counts)) <= frequencies:
            return _harmonics(schema, highest, paired=paired)
    if paired:
        return []
    raise InvalidInput("At least one frequency for each column is needed.", field="frequencies")


def _highest(schema: TableSchema) -> int:
    return max(_count(column, STEPS, paired=False) for column in schema.columns)


def _count(column: Column, highest: int, *, paired: bool) -> int:
    if isinstance(column, CategoricalColumn):
        count = len(column.categories) // 2
        return min(highest, count if paired else max(1, count))
    return min(highest, PAIRED_MAX if paired else ALONE_MAX)


def _harmonics(schema: TableSchema, highest: int, *, paired: bool) -> list[_Harmonics]:
    """Return the harmonics of every column that has any. In a pair, a column of one category has none."""
    found, start = [], 0
    for j, column in enumerate(schema.columns):
        numbers = np.arange(1, _count(column, highest, paired=paired) + 1)
        if isinstance(column, CategoricalColumn):
            size = len(column.categories)
            turns = np.outer(np.arange(size), numbers) % size / size
            integers = np.rint(turns * TURN).astype(np.int64)
        else:
            turns = np.outer(np.arange(STEPS + 1), numbers) / (2 * STEPS)
            integers = (numbers * (TURN // 2)).reshape(1, -1)
        if len(numbers):
            sums: FloatArray = np.cos(2 * np.pi * turns).sum(axis=1)
            found.append(_Harmonics(j, start, integers, float(sums.min()), float(sums.max())))
        start += column.width
    return found


def _placed(schema: TableSchema, *parts: tuple[_Harmonics, IntArray]) -> IntArray:
    """Place the integers of columns in the coordinates of whole rows."""
    whole = np.zeros((schema.width, parts[0][1].shape[1]), dtype=np.int64)
    for harmonics, integers in parts:
        whole[harmonics.start : harmonics.start + len(integers)] = integers
    return whole


def by_column(schema: TableSchema, frequencies: FloatArray) -> list[FloatArray]:
    """Split `frequencies` `[k, width]` into the columns' coordinates."""
    starts = np.cumsum([0, *(column.width for column in schema.columns)])
    return [frequencies[:, first:last] for first, last in pairwise(starts)]
