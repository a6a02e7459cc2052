"""The public cells of a column: short ranges of codes.

A categorical column has a cell for each category. A numeric column with few whole numbers has a cell for each number.
Another numeric column has a cell for each bound, because many tables have a point mass there, and even bins between the
bounds. Nothing in this module depends on private rows.
"""

from dataclasses import dataclass

import numpy as np

from core.mechanisms.samplers.exact import IntArray
from core.synthesis.columns import STEPS, CategoricalColumn, Column
from core.synthesis.schema import TableSchema

WHOLE_NUMBERS_MAX = 128


@dataclass(frozen=True, eq=False)
class Cells:
    """A column's cells: codes `first` to `last`, both included, int64 `[cells]`. The codes of a cell are equally
    likely."""

    first: IntArray
    last: IntArray

    def __len__(self) -> int:
        return len(self.first)


def cells_of(column: Column, bins: int) -> Cells:
    """Return the cells of a column. `bins`: their number between the bounds of a numeric column."""
    if isinstance(column, CategoricalColumn):
        codes = np.arange(len(column.categories))
        return Cells(codes, codes)
    if column.integer and column.maximum - column.minimum < WHOLE_NUMBERS_MAX:
        whole = np.arange(column.maximum - column.minimum + 1)
        steps = np.rint(whole / whole[-1] * STEPS).astype(np.int64)
        return Cells(steps, steps)
    edges = 1 + np.arange(bins + 1) * (STEPS - 1) // bins
    first = np.concatenate([[0], edges[:-1], [STEPS]])
    last = np.concatenate([[0], edges[1:] - 1, [STEPS]])
    return Cells(first, last)


def all_cells(schema: TableSchema, bins: int) -> list[Cells]:
    """Return the cells of every column."""
    return [cells_of(column, bins) for column in schema.columns]
