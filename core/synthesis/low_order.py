"""Public frequencies on one or two columns, where the characteristic function of a table's rows has power.

Guarantee: the frequencies and the bounds depend only on the public schema and a public number.

Harmonics. A categorical column of m categories has the characters of the cyclic group: harmonic r turns category c by
r c / m, r = 1 .. m / 2. A numeric column on [0, 1] has harmonic j: half a turn j times, j = 1, 2, ... A frequency is a
harmonic of one column, or of two columns with the sum or the difference of their phases. The frequencies of one column
together determine its histogram in each class, those of two columns the histogram of each pair.

Reach: an upper bound on the squared change of a group of k frequencies when one row is replaced. One frequency changes
by 2 - 2 cos of the phase difference. Summed over one column's harmonics that is 2 k - 2 D, over a pair's, both signs,
2 k - 4 D D', where D = sum_r cos theta_r is a function of the difference of two codes (of categories modulo m). The
code enumerates all its values. The bound is about half of the 4 k of k arbitrary frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.samplers.exact import IntArray
from core.synthesis.encoding import STEPS
from core.synthesis.features import TURN
from core.synthesis.schema import CategoricalColumn, Column, TableSchema

FloatArray = npt.NDArray[np.float64]

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
