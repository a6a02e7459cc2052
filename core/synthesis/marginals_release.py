"""The baseline: noisy class-conditional marginals, and rows drawn from them column by column.

Guarantee: (epsilon, delta)-DP for replacing one row, at `RecordBudget`'s analytic Gaussian calibration; one event.
Everything derived from the noisy counts is post-processing. If n is not released without noise (`rows` None), the same
release is also private for adding or removing one row, at sqrt(2) times the multiplier.

The release. For each of M columns, the counts of (class, bin), where a bin is one of even public bins of a numeric
column, or a category. A row is in one cell of each table. Replacing it lowers one count and raises one in each of the M
tables, or none: squared sensitivity 2 M. Adding or removing it: M. Counts are multiplied by the public `_FINENESS`
before the noise and divided by it afterwards, so that the noise is not coarse; sensitivity and noise scale alike.

Consistency. The tables' class totals estimate the same class sizes. They are averaged by inverse variance and, if n
is public, moved to the nearest sizes of sum n. Each class of each table is then moved to the nearest non-negative
counts that add up to its size. Columns are treated as independent within a class, so correlations beyond the label are
lost.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.vectors.release import noise_generator
from core.synthesis.columns import STEPS, Column, NumericColumn
from core.synthesis.encoding import EncodedTable
from core.synthesis.pricing import RecordBudget, noise_scale, noisy
from core.synthesis.schema import TableSchema

FloatArray = npt.NDArray[np.float64]

MARGINALS: Final = "marginals"
BINS_MAX = 256
_FINENESS = 64


@dataclass(frozen=True, eq=False)
class MarginalsRelease:
    """Consistent counts; public. `tables` has a float64 `[classes, bins]` for each column; `classes` has their sums.

    `bins`: of a numeric column. `noise`: the standard deviation of a count before consistency. `rows`: n if it is
    public, else None.
    """

    schema: TableSchema
    rows: int | None
    bins: int
    tables: tuple[FloatArray, ...]
    classes: FloatArray
    noise: float

    def sample(self, count: int) -> EncodedTable:
        """Draw `count` synthetic rows: a class, then each column independently. Numbers are uniform in their bin.

        Raises InvalidInput for a count below 1.
        """
        if count < 1:
            raise InvalidInput("At least one row is needed.", field="rows")
        generator = noise_generator()
        labels = generator.choice(len(self.classes), size=count, p=_law(self.classes)).astype(np.int16)
        codes = np.empty((count, len(self.tables)), dtype=np.int16)
        for j, (column, table) in enumerate(zip(self.schema.columns, self.tables, strict=True)):
            for label, counts in enumerate(table):
                members = np.flatnonzero(labels == label)
                drawn = generator.choice(len(counts), size=len(members), p=_law(counts))
                if isinstance(column, NumericColumn):
                    edges = _edges(self.bins)
                    drawn = generator.integers(edges[drawn], edges[drawn + 1])
                codes[members, j] = drawn
        return EncodedTable(self.schema, codes, labels)


def marginals_release(
    table: EncodedTable, *, bins: int, budget: RecordBudget, rows_are_public: bool
) -> MarginalsRelease:
    """Make one release of the table, to be charged as `budget.event(MARGINALS)`; see the module docstring.

    Raises: InvalidInput for bins outside 1..256, OutOfRange for a budget too small; both before anything is drawn.
    """
    scale = counts_scale(table.schema, bins=bins, noise_multiplier=budget.noise_multiplier)
    exact = joint_counts(table, bins=bins)
    released = [noisy(counts * _FINENESS, scale=scale) / _FINENESS for counts in exact]
    rows = len(table) if rows_are_public else None
    classes = _class_sizes(released, rows)
    tables = tuple(
        np.stack([nearest(row, size) for row, size in zip(counts, classes, strict=True)]) for counts in released
    )
    return MarginalsRelease(table.schema, rows, bins, tables, classes, scale / _FINENESS)


def counts_scale(schema: TableSchema, *, bins: int, noise_multiplier: float) -> int:
    """Return the integer noise scale for counts multiplied by `_FINENESS`. Raises as `marginals_release`."""
    if not 1 <= bins <= BINS_MAX:
        raise InvalidInput(f"The number of bins must be between 1 and {BINS_MAX}.", field="bins")
    return noise_scale(noise_multiplier, squared_sensitivity=squared_sensitivity(schema) * _FINENESS**2)


def squared_sensitivity(schema: TableSchema) -> int:
    """Return the squared sensitivity of all joint counts together, for replacing one row: 2 for each column."""
    return 2 * len(schema.columns)


def joint_counts(table: EncodedTable, *, bins: int) -> list[IntArray]:
    """Return for each column the number of rows of each class and bin: int64 `[classes, bins]`."""
    found = []
    for j, column in enumerate(table.schema.columns):
        codes = table.codes[:, j].astype(np.int64)
        if isinstance(column, NumericColumn):
            codes = np.searchsorted(_edges(bins), codes, side="right") - 1
        size = cells(column, bins)
        flat = np.bincount(table.labels * size + codes, minlength=table.schema.classes * size)
        found.append(flat.reshape(table.schema.classes, size))
    return found


def cells(column: Column, bins: int) -> int:
    """Return the number of cells of a class in the column's table."""
    return bins if isinstance(column, NumericColumn) else len(column.categories)


def _edges(bins: int) -> IntArray:
    """Return the bins' first steps, and one past the last step: int64 `[bins + 1]`."""
    return np.arange(bins + 1) * (STEPS + 1) // bins


def _class_sizes(tables: list[FloatArray], rows: int | None) -> FloatArray:
    """Average the tables' class sizes. Each table's sum over bins has a variance proportional to its bins."""
    weights = np.array([1 / table.shape[1] for table in tables])
    sums = np.stack([table.sum(axis=1) for table in tables])
    sizes: FloatArray = weights @ sums / weights.sum()
    total = max(1.0, float(sizes.sum())) if rows is None else float(rows)
    return nearest(sizes, total)


def nearest(values: FloatArray, total: float) -> FloatArray:
    """Return the nearest numbers, by Euclidean distance, that are not negative and add up to `total` >= 0.

    All are lowered by the same number and truncated at zero (Duchi et al. 2008).
    """
    falling = np.sort(values)[::-1]
    excess = np.cumsum(falling) - total
    ranks = np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(falling - excess / ranks >= 0)[-1])
    nearest: FloatArray = np.maximum(values - excess[last] / ranks[last], 0.0)
    return nearest


def _law(counts: FloatArray) -> FloatArray:
    """Return probabilities; uniform ones for a class without rows, which is never drawn."""
    total = math.fsum(counts)
    return counts / total if total > 0 else np.full(len(counts), 1 / len(counts))
