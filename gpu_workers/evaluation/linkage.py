"""Whether two halves of a person's texts find each other by their vectors.

The texts of each person who has two at least are dealt into two halves. An attacker who knows whose the first halves
are takes, for each second half, the person with the nearest mean vector.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_workers.evaluation.corpus import FloatArray, scaled

PERSONS_MIN = 10
_Z = 1.959964  # of a two-sided interval for 95 %


@dataclass(frozen=True)
class Linkage:
    """The share of persons who are found, with its Wilson interval for 95 %, and by chance. `epsilon`: None for texts,
    and for vectors without noise."""

    name: str
    epsilon: float | None
    persons: int
    found: float
    low: float
    high: float
    chance: float


def halves(persons: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """Return the rows of the two halves of each person who has two texts at least."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, person in enumerate(persons):
        rows[person].append(row)
    return [(own[::2], own[1::2]) for own in rows.values() if len(own) > 1]


def linkage(
    name: str, epsilon: float | None, vectors: FloatArray, pairs: Sequence[tuple[list[int], list[int]]]
) -> Linkage:
    """Link the halves by `vectors`, `[n, m]`. `pairs`: of PERSONS_MIN persons at least."""
    first, second = (scaled(np.stack([vectors[own[side]].mean(axis=0) for own in pairs])) for side in (0, 1))
    count = len(pairs)
    right = int(np.sum(np.argmax(second @ first.T, axis=1) == np.arange(count)))
    share, z = right / count, _Z
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Linkage(name, epsilon, count, share, max(0.0, middle - half), min(1.0, middle + half), 1 / count)
