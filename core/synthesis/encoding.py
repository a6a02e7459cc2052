"""Rows of a declared table as small integers, and back.

Guarantee: a row's integers follow from that row and the public schema alone, so that no row moves another's.

A numeric value becomes one of `STEPS` + 1 even steps between its public bounds, a category its index. As a vector of
[0, 1]^d (`unit_vectors`) a numeric column is step / STEPS and a categorical one is one-hot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.synthesis.schema import CategoricalColumn, NumericColumn, TableSchema

STEPS = 1 << 12
ROWS_MIN, ROWS_MAX = 2, 1 << 24
CodeArray = npt.NDArray[np.int16]
FloatArray = npt.NDArray[np.float64]


class Outside(StrEnum):
    """What becomes of a number outside the declared bounds."""

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
    """The rows as integers. Every row names every column, the label included, and nothing else.

    Whether a table is refused depends on its rows: the answer is for who sent them, and nothing was charged.
    Raises: InvalidInput with row and column as `field`, never with a value, for fewer than two rows, a missing or
    further column, NaN or infinity, what is no number or no declared category, and, by `refuse`, a number outside its
    bounds.
    """
    if not ROWS_MIN <= len(rows) <= ROWS_MAX:
        raise InvalidInput(f"A table has between {ROWS_MIN} and {ROWS_MAX} rows.", field="rows")
    names = set(schema.names)
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) or set(row) != names:
            raise InvalidInput("A row has exactly the declared columns.", field=f"rows.{i}")
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


def decode_rows(table: EncodedTable) -> list[dict[str, Any]]:
    """Synthetic rows as the caller writes them."""
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
    """The rows in units of 1 / STEPS of [0, 1]^d, float64 holding integers, `[n, width]`."""
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
            raise InvalidInput("A number is expected.", field=f"rows.{i}.{place}")
    numbers = np.array([_as_float(value) for value in values], dtype=np.float64)
    whole = numbers == np.rint(numbers) if column.integer else np.ones(len(numbers), dtype=bool)
    _refuse_first(~np.isfinite(numbers), "A finite number is expected.", place)
    _refuse_first(~whole, "A whole number is expected.", place)
    inside = np.clip(numbers, column.minimum, column.maximum)
    if outside is Outside.REFUSE:
        _refuse_first(inside != numbers, "A number lies outside its declared bounds.", place)
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
            raise InvalidInput("A declared category is expected.", field=f"rows.{i}.{place}")
        found.append(code)
    return found


def _refuse_first(bad: npt.NDArray[np.bool_], detail: str, place: str) -> None:
    if bad.any():
        raise InvalidInput(detail, field=f"rows.{int(bad.argmax())}.{place}")
