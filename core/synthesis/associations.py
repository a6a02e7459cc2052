"""The strength of the association between two columns of a table, between 0 and 1, for all kinds of columns.

Two numeric columns: the absolute correlation (Pearson). Two categorical ones: Cramer's V. One of each: the correlation
ratio, the fraction of the numbers' standard deviation that lies between the categories. 0 for a column of one value.
This module has no guarantee of its own: on synthetic rows it is post-processing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from core.synthesis.encoding import EncodedTable
from core.synthesis.schema import CategoricalColumn

FloatArray = npt.NDArray[np.float64]
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
