"""Black-box privacy audits of the releases of synthesis, on neighbours that are furthest apart.

The real release is run on both tables; what it hands to the noise, and the noise's scale, is then drawn anew for every
run, as the release draws it once. Of the best event, a half-space, the hits on either side bound
mu = sensitivity / standard deviation from below (joint error rate 1e-6, Clopper and Pearson's limits), which must stay
under the mu of the event that is charged. AUDIT_RUNS enlarges the audits.
"""

import dataclasses
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from audit_kit import ERROR_RATE, RUNS
from scipy import stats
from synthesis_kit import table_of, toy_schema

from core.synthesis import marginals_release, pearl_release
from core.synthesis.accounted_noise import noise_scale, noisy
from core.synthesis.encoding import STEPS, EncodedTable
from core.synthesis.features import FeatureMap, public_frequencies
from core.synthesis.low_order import Group
from core.synthesis.mean_distance import public_distance
from core.synthesis.pricing import RecordBudget, record_budget

BUDGET = record_budget(4, 1e-5)
NUMBERS = 24
SCHEMA = toy_schema(numeric=NUMBERS)
NAMES = ["pearl, another row of the class", "pearl, another class", "pearl, n public", "low order", "marginals"]
Release = Callable[[EncodedTable, RecordBudget], object]
Bug = Callable[[pytest.MonkeyPatch], None]


class Case(NamedTuple):
    module: ModuleType
    release: Release
    table: EncodedTable
    neighbour: EncodedTable


def pearl(*, public: bool) -> Release:
    return lambda table, budget: pearl_release.pearl_release(
        table, frequencies=1, budget=budget, rows_are_public=public, design=pearl_release.Design.GAUSSIAN
    )


def low_order(table: EncodedTable, budget: RecordBudget) -> object:
    return pearl_release.pearl_release(table, frequencies=4, budget=budget, rows_are_public=True)


def marginals(table: EncodedTable, budget: RecordBudget) -> object:
    return marginals_release.marginals_release(table, bins=2, budget=budget, rows_are_public=True)


def opposite_rows() -> tuple[list[int], list[int]]:
    """Two rows whose features at the one frequency are nearly opposite."""
    integers = public_frequencies(width=SCHEMA.width, count=1, spread=1 / public_distance(SCHEMA))
    features = FeatureMap(integers, 4096)
    rising = integers[:NUMBERS, 0] > 0
    line = [[*np.where(rising, share, STEPS - share).tolist(), 0] for share in range(0, STEPS + 1, 4)]
    pairs = np.array([features.sums(table_of(SCHEMA, [(*row, 0)]))[0, 0] for row in line])
    products = pairs @ pairs[0]
    assert products.min() < -0.99 * 4096**2
    return line[0], line[int(products.argmin())]


def cases() -> dict[str, Case]:
    near, far = opposite_rows()
    zero, ones = [0] * (NUMBERS + 1), [STEPS] * NUMBERS + [1]
    filler = (*zero, 0)
    same = table_of(SCHEMA, [filler, (*near, 1)]), table_of(SCHEMA, [filler, (*far, 1)])
    classes = table_of(SCHEMA, [filler, filler]), table_of(SCHEMA, [filler, (*ones, 1)])
    narrow = toy_schema(numeric=2)
    columns = table_of(narrow, [(0, 0, 0, 0)] * 2), table_of(narrow, [(0, 0, 0, 0), (STEPS, STEPS, 1, 1)])
    few = table_of(toy_schema(), [(0, 0, 0)] * 2), table_of(toy_schema(), [(0, 0, 0), (STEPS, 1, 1)])
    found = (
        Case(pearl_release, pearl(public=False), *same),
        Case(pearl_release, pearl(public=False), *classes),
        Case(pearl_release, pearl(public=True), *classes),
        Case(pearl_release, low_order, *few),
        Case(marginals_release, marginals, *columns),
    )
    return dict(zip(NAMES, found, strict=True))


def mu_lower(case: Case) -> float:
    """A lower bound of mu between the case's tables, but with probability 1e-6."""
    exact = [noised(case, table, fixed=case.table) for table in (case.table, case.neighbour)]
    gains = [np.zeros(RUNS), np.zeros(RUNS)]
    middle = 0.0
    for (before, scale), (after, _) in zip(*exact, strict=True):
        axis = (after - before).ravel()
        moved = axis != 0
        for gain, truth in zip(gains, (before, after), strict=True):
            start = truth.ravel()[moved]
            released = noisy(np.broadcast_to(start, (RUNS, len(start))), scale=scale)
            gain += released @ (axis[moved] / scale**2)
        middle += float(((after + before).ravel()[moved] * axis[moved]).sum()) / 2 / scale**2
    often, seldom = int((gains[1] > middle).sum()), int((gains[0] > middle).sum())
    low = stats.beta.ppf(ERROR_RATE / 2, often, RUNS - often + 1)
    high = stats.beta.ppf(1 - ERROR_RATE / 2, seldom + 1, RUNS - seldom)
    return float(stats.norm.ppf(low) - stats.norm.ppf(high))


def noised(case: Case, table: EncodedTable, *, fixed: EncodedTable) -> list[tuple[np.ndarray, int]]:
    """(exact integers, scale) of every addition of noise of one release.

    A first stage answers with what `fixed` gives it, so that both tables meet the second one with the same frequencies.
    """
    answers: list[np.ndarray] = []
    for current in (fixed, table):
        seen: list[tuple[np.ndarray, int]] = []

        def spy(exact: np.ndarray, *, scale: int, seen: list[tuple[np.ndarray, int]] = seen) -> np.ndarray:
            seen.append((exact, scale))
            if len(answers) < len(seen):
                answers.append(exact)
            return answers[len(seen) - 1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(case.module, "noisy", spy)
            case.release(current, BUDGET)
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_the_empirical_bound_stays_under_the_claim(name: str) -> None:
    bound, claim = mu_lower(cases()[name]), 1 / BUDGET.noise_multiplier
    assert bound <= claim
    assert bound >= 0.85 * claim  # the audit has power: a fifth more would be seen


def half_noise(patch: pytest.MonkeyPatch) -> None:
    def halved(noise_multiplier: float, *, squared_sensitivity: int) -> int:
        return noise_scale(noise_multiplier / 2, squared_sensitivity=squared_sensitivity)

    patch.setattr(pearl_release, "noise_scale", halved)
    patch.setattr(marginals_release, "noise_scale", halved)


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
    """Distances of overlapping pairs; they have most of the budget here, else a tenth more would hardly show."""
    real = pearl_release.distance_sum
    patch.setattr(pearl_release, "DISTANCE_SHARE", 63 / 64)
    patch.setattr(pearl_release, "distance_sum", lambda table: 2 * real(table))


def one_cell_a_column(patch: pytest.MonkeyPatch) -> None:
    """A replaced row counted as one cell a column, not two."""
    patch.setattr(marginals_release, "squared_sensitivity", lambda schema: len(schema.columns))


BUGS: list[tuple[str, Bug]] = [
    ("pearl, another row of the class", half_noise),
    ("pearl, another class", half_noise),
    ("pearl, n public", half_noise),
    ("low order", half_noise),
    ("marginals", half_noise),
    ("pearl, another row of the class", one_row_moves_the_sums_by_its_own_length),
    ("pearl, another class", one_row_moves_the_sums_by_its_own_length),
    ("low order", a_low_order_row_moves_the_sums_by_its_own_length),
    ("pearl, another row of the class", means_of_each_class),
    ("pearl, another class", heavy_counts),
    ("low order", heavy_low_order_counts),
    ("pearl, n public", every_part_at_the_whole_budget),
    ("pearl, n public", a_row_in_two_pairs),
    ("marginals", one_cell_a_column),
]


@pytest.mark.parametrize(("name", "bug"), BUGS)
def test_a_planted_bug_is_caught(name: str, bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases()[name]
    bug(monkeypatch)
    assert mu_lower(case) > 1 / BUDGET.noise_multiplier
