"""The mean distance of two rows, as an integer sum over disjoint pairs.

Guarantee: replacing one row moves the sum by at most `distance_bound`, because a row is in one pair and that is the
largest distance of two rows. Over n/2 pairs that is 2 diameter / n for the mean, the sensitivity of the mean over all
n (n - 1) ordered pairs (Liew, Takahashi and Ueno 2021, appendix F), at a cost linear in n.

A public shuffle of the row numbers determines the pairs, so a sorted table causes no bias. n is public.
"""

from __future__ import annotations

import math

import numpy as np

from core.synthesis.encoding import STEPS, EncodedTable, unit_vectors
from core.synthesis.schema import TableSchema

_UNITS = 16  # integers for a distance of 1
_BLOCK = 1 << 12
_SHUFFLE = 20210608


def distance_bound(schema: TableSchema) -> int:
    """Return the largest distance of two rows, in units of 1/16, rounded up."""
    return math.isqrt(schema.squared_diameter * _UNITS**2 - 1) + 1


def distance_sum(table: EncodedTable) -> int:
    """Return the sum of the distances of `pairs(n)` disjoint pairs, each in units of 1/16 and rounded."""
    order = np.random.Generator(np.random.PCG64(_SHUFFLE)).permutation(len(table))
    half = pairs(len(table))
    first, second = table.codes[order[:half]], table.codes[order[half : 2 * half]]
    total = 0
    for start in range(0, half, _BLOCK):
        block = slice(start, start + _BLOCK)
        difference = unit_vectors(table.schema, first[block]) - unit_vectors(table.schema, second[block])
        lengths = np.sqrt((difference * difference).sum(axis=1)) * (_UNITS / STEPS)
        total += int(np.minimum(np.rint(lengths), distance_bound(table.schema)).sum())
    return total


def pairs(rows: int) -> int:
    """Return the number of disjoint pairs of n rows."""
    return rows // 2


def mean_distance(noisy_sum: int, *, rows: int, schema: TableSchema) -> float:
    """Convert the released sum to a mean, clamped between a 64th of the diameter and the diameter. Post-processing."""
    diameter = math.sqrt(schema.squared_diameter)
    return min(max(noisy_sum / _UNITS / pairs(rows), diameter / 64), diameter)


def public_distance(schema: TableSchema) -> float:
    """Return the public substitute for the mean distance if none was released."""
    return math.sqrt(schema.squared_diameter / 2)
