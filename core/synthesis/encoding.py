"""Encodes rows of a declared table as small integers, decodes them, and measures how columns are associated.

Guarantee: a row's integers depend on that row and the public schema alone, so no row affects another's.

A numeric value becomes one of `STEPS` + 1 even steps between its public bounds, any other the index of its cell
(`columns`). As a vector of [0, 1]^d (`unit_vectors`) a numeric column is step / STEPS and a categorical one is one-hot.

The strength of the association between two columns (`associations`) is between 0 and 1 for all kinds of columns. Two
numeric columns: the absolute correlation (Pearson). Two categorical ones: Cramer's V. One of each: the correlation
ratio, the fraction of the numbers' standard deviation that lies between the categories. 0 for a column of one value. It
has no guarantee of its own: on synthetic rows it is post-processing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import BadRow, InvalidInput
from core.synthesis.columns import STEPS, CategoricalColumn, CodeArray, FloatArray, NumericColumn, Outside
from core.synthesis.faults import Faults
from core.synthesis.schema import DeclaredTable, TableSchema
from core.synthesis.subjects import SubjectBound

ROWS_MIN, ROWS_MAX = 2, 1 << 24


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Private rows: `codes` int16 `[n, columns]`, steps or indices of cells; `labels` `[n]`, 0 without a label."""

    schema: TableSchema
    codes: CodeArray
    labels: CodeArray

    def __len__(self) -> int:
        return len(self.codes)


def encode_rows(schema: TableSchema | DeclaredTable, rows: Sequence[Any], *, outside: Outside) -> EncodedTable:
    """Encode the rows as integers. Every row contains every column, including the label; a declared table says which
    further ones it may have.

    Whether a table is rejected depends on its rows, so only the sender receives the answer. Nothing was charged then.
    Raises: InvalidInput for fewer than two rows or too many; BadRow with all faults of the rows.
    """
    if not ROWS_MIN <= len(rows) <= ROWS_MAX:
        raise InvalidInput(f"A table has between {ROWS_MIN} and {ROWS_MAX} rows.", field="rows")
    declared = schema if isinstance(schema, DeclaredTable) else DeclaredTable(schema, None)
    faults = Faults()
    table = encode_block(
        declared, rows, outside=outside, faults=faults, lines=range(1, len(rows) + 1), bound=bound_of(declared)
    )
    if faults:
        first = faults.first
        raise BadRow(
            first.message, reason=first.reason, row=first.lines[0] - 1, place=first.place, faults=faults.as_json()
        )
    return table


def encode_block(
    declared: DeclaredTable,
    rows: Sequence[Any],
    *,
    outside: Outside,
    faults: Faults,
    lines: Sequence[int],
    bound: SubjectBound | None,
) -> EncodedTable:
    """Encode some rows of a table as integers, for a table that arrives in blocks; see `joined`. `bound`: keeps the
    first rows of each subject, of all blocks together; without it all rows are kept.

    Adds to `faults`, with the number of the row in `lines`: a row that is no object; a column that is missing, or
    unknown; a value that its column does not read; with `refuse`, a number outside its bounds. Codes of a row with a
    fault are arbitrary, and no rows are encoded after 100,000 faults.
    """
    schema, names = declared.schema, set(declared.schema.names)
    flat: list[Mapping[str, Any]] = []
    for row, line in zip(rows, lines, strict=True):
        if faults.are_enough:
            return EncodedTable(schema, np.empty((0, len(schema.columns)), np.int16), np.empty(0, np.int16))
        one: Any = {}
        try:
            one = declared.row(row, number=line)
        except BadRow as error:
            faults.add(error.reason, line, error.detail)
        else:
            if not isinstance(one, Mapping):
                faults.add("wrong-columns", line, "A row is an object of the declared columns.")
                one = {}
            elif one.keys() != names:
                faults.add_names(one, line, declared)
        flat.append(one)
    codes = np.empty((len(rows), len(schema.columns)), dtype=np.int16)
    labels = np.zeros(len(rows), dtype=np.int16)
    every = [(column, f"columns.{j}", codes[:, j]) for j, column in enumerate(schema.columns)]
    if schema.label is not None:
        every.append((schema.label, "label", labels))
    for column, place, target in every:
        has = [i for i, row in enumerate(flat) if column.name in row]
        target[has], bad = column.encode([flat[i][column.name] for i in has], outside)
        for reason, wrong in bad.items():
            for i in np.flatnonzero(wrong):
                faults.add_value(reason, lines[has[i]], column, place)
    keep = slice(None) if bound is None else bound.kept(rows, lines, faults)
    return EncodedTable(schema, codes[keep], labels[keep])


def bound_of(declared: DeclaredTable) -> SubjectBound | None:
    """Return a new bound on the rows of each subject, if the table declares one."""
    return None if declared.subject is None else SubjectBound(declared.subject)


def joined(blocks: Sequence[EncodedTable]) -> EncodedTable:
    """Concatenate the rows of one or more blocks of the same schema, in order."""
    codes, labels = (np.concatenate(parts) for parts in zip(*((b.codes, b.labels) for b in blocks), strict=True))
    return EncodedTable(blocks[0].schema, codes, labels)


def decode_rows(table: EncodedTable) -> list[dict[str, Any]]:
    """Return synthetic rows in the caller's format, with the values of each `order` sorted."""
    schema = table.schema
    values = {column.name: column.decode(table.codes[:, j]) for j, column in enumerate(schema.columns)}
    if schema.label is not None:
        values[schema.label.name] = schema.label.decode(table.labels)
    for names in schema.order:
        rows = map(_ascending, zip(*(values[name] for name in names), strict=True))
        values |= zip(names, map(list, zip(*rows, strict=True)), strict=False)  # no values without rows
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _ascending(values: Sequence[Any]) -> list[Any]:
    """Sort the values of one row; a missing one keeps its place. Times of one column's form sort as texts."""
    present = iter(sorted(value for value in values if value is not None))
    return [None if value is None else next(present) for value in values]


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
