"""Planted bugs of the releases of synthesis; each names the step of the proof it breaks."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from audits.bug import Bug, Detector, check, over_claim
from audits.kit import Scale
from audits.tables import BUDGET, KINDS, audited, audited_choices
from scipy import stats
from synthesis_kit import toy_schema

from core.mechanisms.samplers import discrete_noise
from core.synthesis import aim_release, encoding, marginals_release, pearl_release
from core.synthesis.columns import NumericColumn
from core.synthesis.encoding import EncodedTable
from core.synthesis.frequencies import FeatureMap, Group
from core.synthesis.pricing import noise_scale


def half_noise(patch: pytest.MonkeyPatch) -> None:
    def halved(noise_multiplier: float, *, squared_sensitivity: int) -> int:
        return noise_scale(noise_multiplier / 2, squared_sensitivity=squared_sensitivity)

    patch.setattr(pearl_release, "noise_scale", halved)
    patch.setattr(marginals_release, "noise_scale", halved)
    patch.setattr(aim_release, "noise_scale", halved)


def one_row_moves_the_sums_by_its_own_length(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity of adding a row, A sqrt(k), in place of that of replacing one."""
    real = pearl_release.embedding_plan

    def plan(frequencies: int, noise_multiplier: float) -> pearl_release.EmbeddingPlan:
        found = real(frequencies, noise_multiplier)
        scale = noise_scale(noise_multiplier, squared_sensitivity=found.squared_sensitivity // 4)
        return dataclasses.replace(found, scale=scale)

    patch.setattr(pearl_release, "embedding_plan", plan)


def a_low_order_row_moves_the_sums_by_its_own_length(patch: pytest.MonkeyPatch) -> None:
    real = pearl_release.low_order_plan

    def plan(groups: Sequence[Group], noise_multiplier: float) -> pearl_release.EmbeddingPlan:
        found = real(groups, noise_multiplier)
        scale = noise_scale(noise_multiplier, squared_sensitivity=found.squared_sensitivity // 2)
        return dataclasses.replace(found, scale=scale)

    patch.setattr(pearl_release, "low_order_plan", plan)


def means_of_each_class(patch: pytest.MonkeyPatch) -> None:
    """Sums over n_c / n with the noise of sums over n: moves by 2 / n_c and is charged as 2 / n."""
    real = pearl_release.embedded

    def divided(table: EncodedTable, features: FeatureMap, *, weight: int) -> np.ndarray:
        sizes = np.maximum(np.bincount(table.labels, minlength=2), 1)
        return real(table, features, weight=weight) * len(table) // sizes[:, None]

    patch.setattr(pearl_release, "embedded", divided)


def heavy_counts(patch: pytest.MonkeyPatch) -> None:
    real = pearl_release.embedding_plan

    def plan(frequencies: int, noise_multiplier: float) -> pearl_release.EmbeddingPlan:
        found = real(frequencies, noise_multiplier)
        return dataclasses.replace(found, weight=2 * found.weight)

    patch.setattr(pearl_release, "embedding_plan", plan)


def heavy_low_order_counts(patch: pytest.MonkeyPatch) -> None:
    real = pearl_release.low_order_plan

    def plan(groups: Sequence[Group], noise_multiplier: float) -> pearl_release.EmbeddingPlan:
        found = real(groups, noise_multiplier)
        return dataclasses.replace(found, weight=2 * found.weight)

    patch.setattr(pearl_release, "low_order_plan", plan)


def every_part_at_the_whole_budget(patch: pytest.MonkeyPatch) -> None:
    def whole(_: float, *, squared_sensitivity: int) -> int:
        return noise_scale(BUDGET.noise_multiplier, squared_sensitivity=squared_sensitivity)

    patch.setattr(pearl_release, "noise_scale", whole)


def a_row_in_two_pairs(patch: pytest.MonkeyPatch) -> None:
    """Distances of overlapping pairs. They get most of the budget; otherwise an excess of a tenth is hard to detect."""
    real = pearl_release.distance_sum
    patch.setattr(pearl_release, "DISTANCE_SHARE", 63 / 64)
    patch.setattr(pearl_release, "distance_sum", lambda table: 2 * real(table))


def one_cell_a_column(patch: pytest.MonkeyPatch) -> None:
    """A replaced row counted as one cell a column, not two."""
    patch.setattr(marginals_release, "squared_sensitivity", lambda schema: len(schema.columns))


def tables_of_aim_as_one(patch: pytest.MonkeyPatch) -> None:
    """The counts of all columns with the noise of one table. They get most of the budget."""
    real = aim_release._scale
    patch.setattr(aim_release, "_FIRST", Fraction(3, 4))
    patch.setattr(aim_release, "_scale", lambda square, **_: real(square))


def scores_of_twice_the_weight(patch: pytest.MonkeyPatch) -> None:
    real = aim_release._score
    patch.setattr(aim_release, "_score", lambda *terms: 2 * real(*terms))


def near_noise(patch: pytest.MonkeyPatch) -> None:
    """Discrete Gaussian noise that ends at two scales."""
    patch.setattr(discrete_noise, "_FAR", 2)


def no_rejection(patch: pytest.MonkeyPatch) -> None:
    """Two-sided geometric noise in place of the Gaussian one."""
    real = discrete_noise.bernoulli_exp

    def accepts(numerators: Any, denominator: int) -> Any:
        return np.ones(len(numerators), dtype=bool) if denominator == 2 * 500 * 500 else real(numerators, denominator)

    patch.setattr(discrete_noise, "bernoulli_exp", accepts)


def bounds_from_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Steps between the least and the greatest value there is, not between the declared bounds."""
    real = NumericColumn.encode

    def broken(column: Any, values: Any, outside: Any) -> Any:
        ends = {"minimum": min(values), "maximum": max(max(values), min(values) + 1)}
        return real(dataclasses.replace(column, **ends), values, outside)

    patch.setattr(NumericColumn, "encode", broken)


def _noise_is_gaussian() -> bool:
    """Chi-square of the discrete Gaussian by deciles and its far tail, at a false-alarm rate of 1e-6."""
    drawn = discrete_noise.discrete_gaussian(100_000, scale=500)
    edges = 500 * stats.norm.ppf(np.arange(1, 10) / 10)
    edges = np.concatenate([[-1_500.5], np.floor(edges) + 0.5, [1_500.5]])
    law = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / 500))
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=len(law))
    return bool(stats.chisquare(counts, law * counts.sum()).pvalue > 1e-6)


def _rows_are_encoded_alone() -> bool:
    schema = toy_schema()
    one = {"n0": 4, "colour": "red", "label": "no"}
    codes = []
    for other in ({**one, "n0": 0}, {**one, "n0": 10}):
        codes.append(encoding.encode_rows(schema, [one, other], outside=encoding.Outside.CLIP).codes[0].tolist())
    return codes[0] == codes[1]


def _detector(name: str, pairs: int = 150) -> Detector:
    return over_claim(f"audit of {name}", lambda: audited(KINDS[name], Scale(60_000, pairs, 1), seed=81))


PRIVATE, PUBLIC = _detector("pearl, n private"), _detector("pearl, n public")
LOW, MARGINALS, AIM = _detector("pearl, low order"), _detector("marginals"), _detector("aim", 30)
CHOICE = over_claim("audit of the choices of aim", lambda: audited_choices(Scale(1, 30, 1), seed=83))
GAUSSIAN = check("discrete Gaussian noise follows its law (chi-square)", _noise_is_gaussian)
ALONE = check("a row's codes follow from that row", _rows_are_encoded_alone)

_PEARL = "synthesis"

BUGS: tuple[Bug, ...] = (
    Bug("half the noise of the sums", _PEARL, "noise of the multiplier times the sensitivity", half_noise, PRIVATE),
    Bug(
        "half the noise of the counts of cells",
        _PEARL,
        "noise of the multiplier times the sensitivity",
        half_noise,
        MARGINALS,
    ),
    Bug(
        "the length of one row",
        _PEARL,
        "replacing a row moves sums by 2 A sqrt(k)",
        one_row_moves_the_sums_by_its_own_length,
        PRIVATE,
    ),
    Bug(
        "the length of one row, low order",
        _PEARL,
        "a group moves by at most A^2 reach",
        a_low_order_row_moves_the_sums_by_its_own_length,
        LOW,
    ),
    Bug("means of each class", _PEARL, "all sums are unnormalised", means_of_each_class, PRIVATE),
    Bug("counts of twice the weight", _PEARL, "w = floor(A sqrt(k))", heavy_counts, PRIVATE),
    Bug("counts of twice the weight, low order", _PEARL, "w^2 = (S - 2 sum A^2) / 2", heavy_low_order_counts, LOW),
    Bug(
        "every part at the whole budget",
        _PEARL,
        "distance and embedding share the squared budget",
        every_part_at_the_whole_budget,
        PUBLIC,
    ),
    Bug("a row in two pairs", _PEARL, "a row is in one pair", a_row_in_two_pairs, PUBLIC),
    Bug("one cell a column", _PEARL, "lowers one count and raises one", one_cell_a_column, MARGINALS),
    Bug("half the noise of chosen counts", _PEARL, "noise of scale s is worth 2 / (s^2 - 16)", half_noise, AIM),
    Bug("the tables of aim as one", _PEARL, "2 d for d tables at once", tables_of_aim_as_one, AIM),
    Bug("scores of twice the weight", _PEARL, "the score moves by at most 2 F w", scores_of_twice_the_weight, CHOICE),
    Bug("noise that ends at two scales", _PEARL, "noise of unbounded support", near_noise, GAUSSIAN),
    Bug(
        "geometric noise, not Gaussian",
        _PEARL,
        "kept with probability exp(-(|Y| - scale)^2 / 2 scale^2)",
        no_rejection,
        GAUSSIAN,
    ),
    Bug(
        "bounds taken from the rows",
        _PEARL,
        "a row's integers follow from that row and the schema",
        bounds_from_the_rows,
        ALONE,
    ),
)
