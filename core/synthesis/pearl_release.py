"""PEARL's private release: the class-conditional characteristic function of a table, once (Liew et al. 2021).

Guarantee: (epsilon, delta)-DP for replacing one row, at `RecordBudget`'s analytic Gaussian calibration; one event.
Everything made of a `PearlRelease` is post-processing. Two modes:

* n public. Two Gaussian releases: of the mean distance, which sets the frequencies, with 1/64 of the squared budget
  (sum of 1 / multiplier^2), then of the embedding with the rest. The second depends on the first only through its
  output; Gaussian releases compose adaptively as if they were one (Dong, Roth and Su 2022, Corollary 3.3).
* n private. The embedding alone, at a public spread of the frequencies. n is not used: only the noisy class counts
  know it. The same release is then also private for adding or removing one row, at sqrt(2) times the multiplier.

The embedding. A row x of class y adds A phi(x) to the sums of class y, phi(x)_i = (cos t_i.x, sin t_i.x) for k public
frequencies, as integers of length at most A a pair (`features`), and the weight w = floor(A sqrt(k)) to the count of
class y. All sums are unnormalised; divided by A n sqrt(k) the sums are the paper's embedding, with its sensitivity 2/n.

Sensitivity. Replace (x, y) by (x', y'); the sums' part of a row has length at most A sqrt(k).

* y = y': the counts stay, the sums of one class move by a difference of two such vectors: at most 2 A sqrt(k).
* y != y': two classes' sums move by one vector each, two counts by w: squared, at most 2 A^2 k + 2 w^2 <= 4 A^2 k.

So 2 A sqrt(k) for both together: at this weight the counts cost nothing beside the sums. (Means of a class would move
by 2 / n_c with n_c private, and are never formed before the noise.) Adding or removing a row: A^2 k + w^2 <= 2 A^2 k.

Noise is exact (`accounted_noise`): sums, counts and distances are integers, and no float rounding enters a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.discrete_noise import GAUSSIAN_SCALE_MAX
from core.mechanisms.sampling import IntArray
from core.synthesis.accounted_noise import noise_scale, noisy
from core.synthesis.encoding import EncodedTable
from core.synthesis.features import AMPLITUDE_MAX, FeatureMap, public_frequencies
from core.synthesis.mean_distance import distance_bound, distance_sum, mean_distance, public_distance
from core.synthesis.pricing import RecordBudget
from core.synthesis.schema import TableSchema

FloatArray = npt.NDArray[np.float64]

PEARL: Final = "pearl"
FREQUENCIES_MAX = 10_000
DISTANCE_SHARE = 1 / 64
_AMPLITUDE_MIN = 16
_ROOM = 0.99  # of the widest noise: the rounding of its square root stays inside


@dataclass(frozen=True, eq=False)
class PearlRelease:
    """What left the private rows; public from here on.

    Shapes: `frequencies` `[k, d]`; `sums` `[classes, k, 2]`, sums over rows of cosine and sine; `counts` `[classes]`,
    which may be negative. `sums_noise` and `counts_noise` are the standard deviations of an entry. `rows` is n where it
    was public, else None. `mean_distance` is the released one, or the public stand-in.
    """

    schema: TableSchema
    rows: int | None
    mean_distance: float
    frequencies: FloatArray
    sums: FloatArray
    counts: FloatArray
    sums_noise: float
    counts_noise: float


def pearl_release(
    table: EncodedTable, *, frequencies: int, budget: RecordBudget, rows_are_public: bool
) -> PearlRelease:
    """One release of the table, to be charged as `budget.event(PEARL)`; see the module docstring.

    Raises: InvalidInput for a number of frequencies outside 1..10,000, OutOfRange for a budget too small for them;
    both before anything is drawn.
    """
    schema = table.schema
    embedding, distance_noise = noise_plan(
        schema, frequencies=frequencies, noise_multiplier=budget.noise_multiplier, rows_are_public=rows_are_public
    )
    distance = public_distance(schema)
    if distance_noise is not None:
        released = int(noisy(np.array([distance_sum(table)]), scale=distance_noise)[0])
        distance = mean_distance(released, rows=len(table), schema=schema)
    integers = public_frequencies(width=schema.width, count=frequencies, spread=1 / distance)
    features = FeatureMap(integers, embedding.amplitude)
    exact = embedded(table, features, weight=embedding.weight)
    noised = noisy(exact, scale=embedding.scale).astype(np.float64)
    sums, counts = noised[:, :-1].reshape(schema.classes, frequencies, 2), noised[:, -1]
    return PearlRelease(
        schema=schema,
        rows=len(table) if rows_are_public else None,
        mean_distance=distance,
        frequencies=features.frequencies,
        sums=sums / embedding.amplitude,
        counts=counts / embedding.weight,
        sums_noise=embedding.scale / embedding.amplitude,
        counts_noise=embedding.scale / embedding.weight,
    )


@dataclass(frozen=True)
class EmbeddingPlan:
    """The public integers of an embedding: amplitude A, weight w of a count, squared sensitivity, noise scale."""

    amplitude: int
    weight: int
    squared_sensitivity: int
    scale: int


def noise_plan(
    schema: TableSchema, *, frequencies: int, noise_multiplier: float, rows_are_public: bool
) -> tuple[EmbeddingPlan, int | None]:
    """The embedding's integers and the noise scale of the distance, None where n is private. Raises as `pearl_release`.

    The two releases share the squared budget: the sum of 1 / multiplier^2 is that of `noise_multiplier` alone.
    """
    if not rows_are_public:
        return embedding_plan(frequencies, noise_multiplier), None
    embedding = embedding_plan(frequencies, noise_multiplier / math.sqrt(1 - DISTANCE_SHARE))
    bound = distance_bound(schema)
    return embedding, noise_scale(noise_multiplier / math.sqrt(DISTANCE_SHARE), squared_sensitivity=bound**2)


def embedding_plan(frequencies: int, noise_multiplier: float) -> EmbeddingPlan:
    """The finest integers whose noise the sampler reaches. Raises as `pearl_release`."""
    if not 1 <= frequencies <= FREQUENCIES_MAX:
        raise InvalidInput(f"Between 1 and {FREQUENCIES_MAX} frequencies.", field="frequencies")
    widest = _ROOM * GAUSSIAN_SCALE_MAX / (2 * math.sqrt(frequencies) * noise_multiplier)
    # below the smallest useful amplitude `noise_scale` refuses
    amplitude = max(_AMPLITUDE_MIN, min(AMPLITUDE_MAX, int(widest)))
    squared = 4 * frequencies * amplitude**2
    scale = noise_scale(noise_multiplier, squared_sensitivity=squared)
    return EmbeddingPlan(amplitude, math.isqrt(frequencies * amplitude**2), squared, scale)


def embedded(table: EncodedTable, features: FeatureMap, *, weight: int) -> IntArray:
    """The exact integers that noise is added to, int64 `[classes, 2 k + 1]`: sums, then the weighted count."""
    sums = features.sums(table).reshape(table.schema.classes, -1)
    counts = np.bincount(table.labels, minlength=table.schema.classes)
    return np.column_stack([sums, weight * counts])
