"""PEARL's private release: the class-conditional characteristic function of a table, once (Liew et al. 2021).

Guarantee: (epsilon, delta)-DP for replacing one row, at `RecordBudget`'s analytic Gaussian calibration; one event.
Everything derived from a `PearlRelease` is post-processing. If n is private (`rows` None), only the noisy class counts
depend on it, and the same release is also private for adding or removing one row, at sqrt(2) times the multiplier.

The embedding. A row x of class y adds A_i (cos t_i.x, sin t_i.x) to the sums of class y for each of k public
frequencies, as integer pairs of length at most A_i (`frequencies`), and the weight w to the count of class y. All sums
are unnormalised. Divided by A n sqrt(k), those of a common A are the paper's embedding, with its sensitivity 2/n.
(Means of a class would move by 2 / n_c with n_c private, and are never formed before the noise.)

Sensitivity, squared, of sums and counts together. Replace (x, y) by (x', y').

* y != y': two classes' sums move by one vector each, two counts by w: at most 2 sum_i A_i^2 + 2 w^2.
* y = y': the counts stay, the sums of one class move by a difference of two such vectors.
  - Gaussian frequencies, one A: at most 4 A^2 k. With w = floor(A sqrt(k)) both cases agree.
  - Low-order frequencies: a group of frequencies of one amplitude moves by at most A^2 reach (`frequencies`) before
    rounding, which adds at most 2 e sqrt(k_g) to the length, where e combines `pair_error` and the harmonics' own
    rounding. The sum over the groups is S. w^2 is the larger of (S - 2 sum A_i^2) / 2, which makes both cases agree,
    and S / 16.

Adding or removing a row: sum A_i^2 + w^2, at most half of either.

Designs. `LOW_ORDER` (the default): frequencies of one column or two, half of the squared sensitivity for either kind,
equal parts for the groups in it. Nothing else is released. `GAUSSIAN`: the paper's, in all columns at once, from
N(0, 1 / mean distance^2). The paper spends half of the budget on the mean distance and the class counts. In this module
the counts are in the vector of the sums at no cost, and, if n is public, the mean distance of two rows is released
first with 1/64 of the squared budget (sum of 1 / multiplier^2), and the embedding with the rest. The second release
depends on the first only through its output, and Gaussian releases compose adaptively as if they were one (Dong, Roth
and Su 2022, Corollary 3.3). If n is private, a public number replaces the mean distance, which the paper does not have.

The mean distance of two rows is an integer sum over disjoint pairs. Replacing one row moves the sum by at most
`distance_bound`, because a row is in one pair and that is the largest distance of two rows. Over n/2 pairs that is 2
diameter / n for the mean, the sensitivity of the mean over all n (n - 1) / 2 pairs (Liew, Takahashi and Ueno 2021,
appendix F), at a cost linear in n. A public shuffle of the row numbers determines the pairs, so a sorted table causes
no bias. n is public.

Noise is exact (`pricing.noisy`): sums, counts and distances are integers, and no float rounding affects a proof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.samplers.discrete_noise import GAUSSIAN_SCALE_MAX
from core.mechanisms.samplers.exact import IntArray
from core.synthesis.columns import STEPS
from core.synthesis.encoding import EncodedTable, unit_vectors
from core.synthesis.frequencies import AMPLITUDE_MAX, TURN, FeatureMap, Group, low_order, pair_error, public_frequencies
from core.synthesis.pricing import RecordBudget, noise_scale, noisy
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


FloatArray = npt.NDArray[np.float64]

PEARL: Final = "pearl"
FREQUENCIES_MAX = 10_000
DISTANCE_SHARE = 1 / 64
PAIRS_SHARE = 1 / 2
_AMPLITUDE_MIN = 16
_MARGIN = 0.99  # fraction of the widest noise, as a margin for the rounding of its square root


class Design(StrEnum):
    """How the frequencies are chosen."""

    LOW_ORDER = "low_order"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, eq=False)
class PearlRelease:
    """The released values. Everything in this object is public.

    Shapes: `frequencies` `[k, d]`; `sums` `[classes, k, 2]`, sums over rows of cosine and sine; `counts` `[classes]`,
    which may be negative; `weights` `[k]`, a frequency's amplitude over the largest. The standard deviation of an
    entry of `sums` is `sums_noise / weights`, that of a count `counts_noise`. `rows` is n if it is public, else None.
    `mean_distance` is the released value, or its public substitute.
    """

    schema: TableSchema
    rows: int | None
    design: Design
    mean_distance: float
    frequencies: FloatArray
    weights: FloatArray
    sums: FloatArray
    counts: FloatArray
    sums_noise: float
    counts_noise: float

    @property
    def classes(self) -> FloatArray:
        """The noisy counts of the classes, as other releases name them."""
        return self.counts

    @property
    def noise(self) -> float:
        """The standard deviation of a count, as other releases name it."""
        return self.counts_noise


def pearl_release(
    table: EncodedTable,
    *,
    frequencies: int,
    budget: RecordBudget,
    rows_are_public: bool,
    design: Design = Design.LOW_ORDER,
) -> PearlRelease:
    """Make one release of the table, to be charged as `budget.event(PEARL)`; see the module docstring.

    `frequencies`: their number; for the low-order design the maximum. Raises: InvalidInput for a number outside
    1..10,000 or, for the low-order design, below the number of columns; OutOfRange for a budget too small for them;
    both before anything is drawn.
    """
    schema = table.schema
    plan = noise_plan(
        schema,
        frequencies=frequencies,
        noise_multiplier=budget.noise_multiplier,
        rows_are_public=rows_are_public,
        design=design,
    )
    distance, embedding = public_distance(schema), plan.embedding
    if plan.distance_scale is not None:
        distance = _released_distance(table, plan.distance_scale)
    integers = plan.integers
    if integers is None:
        integers = public_frequencies(width=schema.width, count=frequencies, spread=1 / distance)
    features = FeatureMap(integers, embedding.amplitude)
    exact = embedded(table, features, weight=embedding.weight)
    noised = noisy(exact, scale=embedding.scale).astype(np.float64)
    amplitudes = features.amplitudes.astype(np.float64)
    sums = noised[:, :-1].reshape(schema.classes, -1, 2) / amplitudes[:, None]
    return PearlRelease(
        schema=schema,
        rows=len(table) if rows_are_public else None,
        design=design,
        mean_distance=distance,
        frequencies=features.frequencies,
        weights=amplitudes / amplitudes.max(),
        sums=sums,
        counts=noised[:, -1] / embedding.weight,
        sums_noise=embedding.scale / float(amplitudes.max()),
        counts_noise=embedding.scale / embedding.weight,
    )


@dataclass(frozen=True, eq=False)
class EmbeddingPlan:
    """The public integers of an embedding: amplitude (or `[k]`), weight w of a count, squared sensitivity, scale."""

    amplitude: int | IntArray
    weight: int
    squared_sensitivity: int
    scale: int


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """Everything that is fixed before a row is read.

    `integers`: the low-order frequencies; None for Gaussian ones, which may depend on the mean distance.
    `distance_scale`: the noise of the mean distance, None if it is not released.
    """

    embedding: EmbeddingPlan
    integers: IntArray | None
    distance_scale: int | None


def noise_plan(
    schema: TableSchema, *, frequencies: int, noise_multiplier: float, rows_are_public: bool, design: Design
) -> NoisePlan:
    """Compute the plan from the schema and public numbers alone. Raises as `pearl_release`."""
    checked(frequencies)
    if design is Design.LOW_ORDER:
        found = low_order(schema, frequencies=frequencies)
        return NoisePlan(low_order_plan(found.groups, noise_multiplier), found.integers, None)
    if not rows_are_public:
        return NoisePlan(embedding_plan(frequencies, noise_multiplier), None, None)
    embedding = embedding_plan(frequencies, noise_multiplier / math.sqrt(1 - DISTANCE_SHARE))
    squared = distance_bound(schema) ** 2
    scale = noise_scale(noise_multiplier / math.sqrt(DISTANCE_SHARE), squared_sensitivity=squared)
    return NoisePlan(embedding, None, scale)


def checked(frequencies: int) -> int:
    """Return `frequencies`. Raises InvalidInput if it is out of range."""
    if not 1 <= frequencies <= FREQUENCIES_MAX:
        raise InvalidInput(f"The number of frequencies must be between 1 and {FREQUENCIES_MAX}.", field="frequencies")
    return frequencies


def embedding_plan(frequencies: int, noise_multiplier: float) -> EmbeddingPlan:
    """Plan one amplitude: the finest integers whose noise the sampler supports. Raises OutOfRange if there are none."""
    amplitude = _finest(noise_multiplier, largest=1 / (2 * math.sqrt(frequencies)))
    squared = 4 * frequencies * amplitude**2
    scale = noise_scale(noise_multiplier, squared_sensitivity=squared)
    return EmbeddingPlan(amplitude, math.isqrt(frequencies * amplitude**2), squared, scale)


def low_order_plan(groups: Sequence[Group], noise_multiplier: float) -> EmbeddingPlan:
    """Plan low-order frequencies: amplitudes `[k]`, where each group has an equal share of its kind's part."""
    orders = [len(group.columns) for group in groups]
    part = PAIRS_SHARE if 2 in orders else 0.0
    shares = np.array([(part if order == 2 else 1 - part) / orders.count(order) for order in orders])
    reaches = np.array([group.reach for group in groups])
    ideal = np.sqrt(shares / reaches)
    sizes = np.array([group.size for group in groups])
    finest = _finest(noise_multiplier, largest=float(ideal.max()))
    while True:
        amplitudes = np.maximum(1, np.floor(ideal * (finest / ideal.max()))).astype(np.int64)
        errors = 2 * np.array([pair_error(a) + 2 * a * math.pi / TURN for a in amplitudes.tolist()])
        same_class = math.ceil(float(((amplitudes * np.sqrt(reaches) + np.sqrt(sizes) * errors) ** 2).sum()))
        sums = int((sizes * amplitudes**2).sum())
        weight = math.isqrt(max((same_class - 2 * sums) // 2, same_class // 16))
        squared = max(same_class, 2 * sums + 2 * weight**2)
        if finest == _AMPLITUDE_MIN or noise_multiplier * math.sqrt(squared) < _MARGIN * GAUSSIAN_SCALE_MAX:
            break
        finest = max(_AMPLITUDE_MIN, finest * 15 // 16)
    scale = noise_scale(noise_multiplier, squared_sensitivity=squared)
    return EmbeddingPlan(np.repeat(amplitudes, sizes), weight, squared, scale)


def _finest(noise_multiplier: float, *, largest: float) -> int:
    """Return the largest usable amplitude. `largest` is its value at a sensitivity of 1."""
    widest = _MARGIN * GAUSSIAN_SCALE_MAX / noise_multiplier * largest
    # for an amplitude below the smallest useful one, `noise_scale` raises
    return max(_AMPLITUDE_MIN, min(AMPLITUDE_MAX, int(widest)))


def embedded(table: EncodedTable, features: FeatureMap, *, weight: int) -> IntArray:
    """Return the exact integers before noise, int64 `[classes, 2 k + 1]`: sums, then the weighted count."""
    sums = features.sums(table).reshape(table.schema.classes, -1)
    counts = np.bincount(table.labels, minlength=table.schema.classes)
    return np.column_stack([sums, weight * counts])


def _released_distance(table: EncodedTable, scale: int) -> float:
    released = int(noisy(np.array([distance_sum(table)]), scale=scale)[0])
    return mean_distance(released, rows=len(table), schema=table.schema)
