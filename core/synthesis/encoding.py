"""Encodes rows of a declared table as small integers, decodes them, and measures how columns are associated.

Guarantee: a row's integers depend on that row and the public schema alone, so no row affects another's.

A numeric value becomes one of `STEPS` + 1 even steps between its public bounds, a category its index. As a vector of
[0, 1]^d (`unit_vectors`) a numeric column is step / STEPS and a categorical one is one-hot.

The strength of the association between two columns (`associations`) is between 0 and 1 for all kinds of columns. Two
numeric columns: the absolute correlation (Pearson). Two categorical ones: Cramer's V. One of each: the correlation
ratio, the fraction of the numbers' standard deviation that lies between the categories. 0 for a column of one value. It
has no guarantee of its own: on synthetic rows it is post-processing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import BadRow, InvalidInput
from core.synthesis.schema import CategoricalColumn, NumericColumn, TableSchema

STEPS = 1 << 12
ROWS_MIN, ROWS_MAX = 2, 1 << 24
CodeArray = npt.NDArray[np.int16]
FloatArray = npt.NDArray[np.float64]


class Outside(StrEnum):
    """The treatment of a number outside the declared bounds."""

    REFUSE = "refuse"
    CLIP = "clip"


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Private rows: `codes` int16 `[n, columns]`, steps or indices of categories; `labels` `[n]`, 0 without a label."""

    schema: TableSchema
    codes: CodeArray
    labels: CodeArray

    def __len__(self) -> int:
        return len(self.codes)


def encode_rows(schema: TableSchema, rows: Sequence[Mapping[str, Any]], *, outside: Outside) -> EncodedTable:
    """Encode the rows as integers. Every row contains every column, including the label, and nothing else.

    Whether a table is rejected depends on its rows, so only the sender receives the answer. Nothing was charged then.
    Raises: InvalidInput for fewer than two rows or too many; BadRow as `encode_block`.
    """
    if not ROWS_MIN <= len(rows) <= ROWS_MAX:
        raise InvalidInput(f"A table has between {ROWS_MIN} and {ROWS_MAX} rows.", field="rows")
    return encode_block(schema, rows, outside=outside)


def encode_block(schema: TableSchema, rows: Sequence[Mapping[str, Any]], *, outside: Outside) -> EncodedTable:
    """Encode some rows of a table as integers, for a table that arrives in blocks; see `joined`.

    Raises: BadRow, whose field has row and column and never a value, for a missing or additional column, NaN or
    infinity, a value that is no number or no declared category, and, with `refuse`, a number outside its bounds.
    """
    names = set(schema.names)
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) or set(row) != names:
            raise BadRow("A row has exactly the declared columns.", reason="wrong-columns", row=i)
    codes = np.empty((len(rows), len(schema.columns)), dtype=np.int16)
    for j, column in enumerate(schema.columns):
        values = [row[column.name] for row in rows]
        if isinstance(column, NumericColumn):
            codes[:, j] = _steps(column, values, outside, f"columns.{j}")
        else:
            codes[:, j] = _indices(column, values, f"columns.{j}")
    labels = np.zeros(len(rows), dtype=np.int16)
    if schema.label is not None:
        labels[:] = _indices(schema.label, [row[schema.label.name] for row in rows], "label")
    return EncodedTable(schema, codes, labels)


def joined(blocks: Sequence[EncodedTable]) -> EncodedTable:
    """Concatenate the rows of one or more blocks of the same schema, in order."""
    codes, labels = (np.concatenate(parts) for parts in zip(*((b.codes, b.labels) for b in blocks), strict=True))
    return EncodedTable(blocks[0].schema, codes, labels)


def decode_rows(table: EncodedTable) -> list[dict[str, Any]]:
    """Return synthetic rows in the caller's format."""
    schema = table.schema
    values: dict[str, list[Any]] = {}
    for j, column in enumerate(schema.columns):
        codes = table.codes[:, j]
        if isinstance(column, CategoricalColumn):
            values[column.name] = [column.categories[code] for code in codes]
            continue
        numbers = column.minimum + codes.astype(np.float64) / STEPS * (column.maximum - column.minimum)
        values[column.name] = [int(number) for number in np.rint(numbers)] if column.integer else numbers.tolist()
    if schema.label is not None:
        values[schema.label.name] = [schema.label.categories[code] for code in table.labels]
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def unit_vectors(schema: TableSchema, codes: CodeArray) -> FloatArray:
    """Return the rows in units of 1 / STEPS of [0, 1]^d: integers in float64, `[n, width]`."""
    vectors = np.zeros((len(codes), schema.width), dtype=np.float64)
    start = 0
    for j, column in enumerate(schema.columns):
        if isinstance(column, NumericColumn):
            vectors[:, start] = codes[:, j]
        else:
            vectors[np.arange(len(codes)), start + codes[:, j]] = STEPS
        start += column.width
    return vectors


def _steps(column: NumericColumn, values: Sequence[object], outside: Outside, place: str) -> FloatArray:
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadRow("A number is expected.", reason="not-a-number", row=i, place=place)
    numbers = np.array([_as_float(value) for value in values], dtype=np.float64)
    whole = numbers == np.rint(numbers) if column.integer else np.ones(len(numbers), dtype=bool)
    _refuse_first(~np.isfinite(numbers), "A finite number is expected.", "not-finite", place)
    _refuse_first(~whole, "A whole number is expected.", "not-whole", place)
    inside = np.clip(numbers, column.minimum, column.maximum)
    if outside is Outside.REFUSE:
        _refuse_first(inside != numbers, "A number lies outside its declared bounds.", "outside-bounds", place)
    steps: FloatArray = np.rint((inside - column.minimum) / (column.maximum - column.minimum) * STEPS)
    return steps


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _indices(column: CategoricalColumn, values: Sequence[object], place: str) -> list[int]:
    index = {category: i for i, category in enumerate(column.categories)}
    found: list[int] = []
    for i, value in enumerate(values):
        code = index.get(value) if isinstance(value, str) else None
        if code is None:
            raise BadRow("A declared category is expected.", reason="unknown-category", row=i, place=place)
        found.append(code)
    return found


def _refuse_first(bad: npt.NDArray[np.bool_], detail: str, reason: str, place: str) -> None:
    if bad.any():
        raise BadRow(detail, reason=reason, row=int(bad.argmax()), place=place)


IntArray = npt.NDArray[np.int64]


def associations(table: EncodedTable, *, columns: int) -> FloatArray:
    """Return the associations of the first `columns` columns and the label, if any, last: symmetric `[m, m]`."""
    declared = table.schema.columns[:columns]
    values = [table.codes[:, j].astype(np.int64) for j in range(len(declared))]
    sizes = [len(column.categories) if isinstance(column, CategoricalColumn) else 0 for column in declared]
    if table.schema.label is not None:
        values.append(table.labels.astype(np.int64))
        sizes.append(table.schema.classes)
    found = np.eye(len(values))
    for i in range(len(values)):
        for j in range(i):
            found[i, j] = found[j, i] = _association(values[i], sizes[i], values[j], sizes[j])
    return found


def _association(first: IntArray, first_size: int, second: IntArray, second_size: int) -> float:
    """`size` is the number of categories, 0 for a numeric column."""
    if not first_size and not second_size:
        return _correlation(first, second)
    if first_size and second_size:
        return _cramers_v(first, first_size, second, second_size)
    return (
        _correlation_ratio(second, first, first_size) if first_size else _correlation_ratio(first, second, second_size)
    )


def _correlation(first: IntArray, second: IntArray) -> float:
    a, b = first - first.mean(), second - second.mean()
    spread = math.sqrt(float(a @ a) * float(b @ b))
    return min(1.0, abs(float(a @ b)) / spread) if spread > 0 else 0.0


def _cramers_v(first: IntArray, first_size: int, second: IntArray, second_size: int) -> float:
    counts = np.bincount(first * second_size + second, minlength=first_size * second_size).astype(np.float64)
    counts = counts.reshape(first_size, second_size)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(counts.shape) < 2:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    return min(1.0, math.sqrt(chi_squared / counts.sum() / (min(counts.shape) - 1)))


def _correlation_ratio(numbers: IntArray, categories: IntArray, size: int) -> float:
    counts = np.bincount(categories, minlength=size)
    centred = numbers - numbers.mean()
    total = float(centred @ centred)
    if total <= 0:
        return 0.0
    sums = np.bincount(categories, weights=centred, minlength=size)
    between = float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())
    return math.sqrt(min(1.0, between / total))
