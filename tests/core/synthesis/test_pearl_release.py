"""The sensitivities of PEARL's release by brute force, and that what is released is what it says."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from synthesis_kit import table_of, toy_schema

from core.accounting.events import Adjacency, Guarantee, Unit
from core.accounting.exact import delta_of_gaussian
from core.errors import InvalidInput, OutOfRange
from core.mechanisms.samplers.discrete_noise import GAUSSIAN_SCALE_MAX
from core.synthesis import pearl_release as module
from core.synthesis.columns import STEPS
from core.synthesis.encoding import EncodedTable, unit_vectors
from core.synthesis.frequencies import FeatureMap, public_frequencies
from core.synthesis.pearl_release import (
    PEARL,
    Design,
    distance_bound,
    distance_sum,
    embedded,
    embedding_plan,
    mean_distance,
    pairs,
    pearl_release,
)
from core.synthesis.pricing import noise_scale, record_budget

SCHEMA = toy_schema()
EVERY_ROW = list(itertools.product(range(0, STEPS + 1, STEPS // 4), range(3), range(2)))
FREQUENCIES = 2


def features_of(count: int, amplitude: int) -> FeatureMap:
    # high enough that opposite values are among those of EVERY_ROW
    return FeatureMap(public_frequencies(width=SCHEMA.width, count=count, spread=8.0), amplitude)


def random_table(rows: int) -> EncodedTable:
    draw = np.random.default_rng(0)
    codes = np.column_stack([draw.integers(0, STEPS + 1, rows), draw.integers(0, 3, rows)]).astype(np.int16)
    return EncodedTable(SCHEMA, codes, draw.integers(0, 2, rows).astype(np.int16))


def squared_moves(count: int) -> list[int]:
    """Squared l2 distances between the exact integers of all pairs of tables that differ in one row."""
    plan = embedding_plan(count, 4.0)
    features = features_of(count, plan.amplitude)
    others = [(STEPS // 3, 1, 0), (7, 2, 1)]
    values = [embedded(table_of(SCHEMA, [*others, row]), features, weight=plan.weight) for row in EVERY_ROW]
    return [int(((a - b) ** 2).sum()) for a, b in itertools.combinations(values, 2)]


def test_no_replaced_row_moves_the_embedding_by_more_than_its_sensitivity() -> None:
    for count in [1, 2, 5]:
        claimed = embedding_plan(count, 4.0).squared_sensitivity
        moves = squared_moves(count)
        assert max(moves) <= claimed
        assert max(moves) >= 0.99 * claimed


def test_a_row_that_is_added_moves_it_by_half_of_that_squared() -> None:
    plan = embedding_plan(FREQUENCIES, 4.0)
    features = features_of(FREQUENCIES, plan.amplitude)
    fewer = embedded(table_of(SCHEMA, EVERY_ROW[:2]), features, weight=plan.weight)
    for row in EVERY_ROW:
        more = embedded(table_of(SCHEMA, [*EVERY_ROW[:2], row]), features, weight=plan.weight)
        assert ((more - fewer) ** 2).sum() <= plan.squared_sensitivity / 2


def test_a_row_adds_the_same_whatever_its_company(monkeypatch: pytest.MonkeyPatch) -> None:
    table = random_table(200)
    features = features_of(33, 4096)
    together = features.sums(table)
    alone = sum(features.sums(EncodedTable(SCHEMA, table.codes[[i]], table.labels[[i]])) for i in range(200))
    assert np.array_equal(together, alone)
    monkeypatch.setattr("core.synthesis.frequencies._BLOCK_NUMBERS", 33 * 7)
    assert np.array_equal(features.sums(table), together)


def test_the_integers_are_the_characteristic_function() -> None:
    table = random_table(50)
    features = features_of(40, 4096)
    angles = unit_vectors(SCHEMA, table.codes) / STEPS @ features.frequencies.T
    for label in (0, 1):
        mine = angles[table.labels == label]
        expected = np.stack([np.cos(mine), np.sin(mine)], axis=2).sum(axis=0)
        assert np.abs(features.sums(table)[label] / 4096 - expected).max() <= 5e-4 * len(mine)


def test_frequencies_are_public_constants_of_the_spread_and_small_enough_for_exact_sums() -> None:
    one, again = (features_of(4000, 16).frequencies for _ in range(2))
    assert np.array_equal(one, again)
    assert one.std() == pytest.approx(8.0, rel=0.03)
    with pytest.raises(ValueError, match="too high"):
        FeatureMap(np.full((1_000, 1), 1 << 40), 16)


def test_no_replaced_row_moves_the_distances_by_more_than_one_pair_which_is_reached() -> None:
    for rows in (2, 3, 4):
        others = EVERY_ROW[: rows - 1]
        for place in range(rows):
            sums = [distance_sum(table_of(SCHEMA, [*others[:place], row, *others[place:]])) for row in EVERY_ROW]
            assert max(sums) - min(sums) <= distance_bound(SCHEMA)
    assert distance_sum(table_of(SCHEMA, [(0, 0, 0), (STEPS, 1, 0)])) >= distance_bound(SCHEMA) - 1


def test_the_pairs_mean_is_near_the_mean_of_all_pairs() -> None:
    """Sorted rows, too: the pairs are shuffled."""
    table = random_table(4_000)
    order = np.argsort(table.codes[:, 0])
    ordered = EncodedTable(SCHEMA, table.codes[order], table.labels[order])
    points = unit_vectors(SCHEMA, table.codes) / STEPS
    every = np.linalg.norm(points[:, None, :] - points[None, :500, :], axis=2).mean()
    assert mean_distance(distance_sum(ordered), rows=4_000, schema=SCHEMA) == pytest.approx(every, rel=0.05)


def test_a_noisy_distance_stays_in_its_range() -> None:
    for released in [-(10**9), 10**9]:
        diameter = math.sqrt(SCHEMA.squared_diameter)
        assert diameter / 64 <= mean_distance(released, rows=10, schema=SCHEMA) <= diameter
        assert pairs(7) == 3


def test_the_noise_is_no_narrower_than_its_multiplier() -> None:
    for multiplier in [0.2, 3.73, 250.0]:
        for count in [1, 1_000, 10_000]:
            plan = embedding_plan(count, multiplier)
            needed = Fraction(multiplier) ** 2 * plan.squared_sensitivity
            assert plan.scale**2 - 16 >= needed > (plan.scale - 1) ** 2 - 16 - 1
            assert plan.squared_sensitivity == 4 * count * plan.amplitude**2
            assert plan.weight**2 <= count * plan.amplitude**2
            assert plan.scale <= GAUSSIAN_SCALE_MAX


def test_the_event_is_one_gaussian_of_the_whole_budget() -> None:
    budget = record_budget("1", "1e-5")
    event = budget.event(PEARL)
    assert (event.epsilon_nano, event.delta_femto) == (10**9, 10**10)
    assert (event.kind, event.unit, event.adjacency) == ("gaussian", Unit.RECORD, Adjacency.REPLACE_ONE)
    assert (event.mechanism, event.guarantee) == ("pearl", Guarantee.APPROX_DP)
    assert event.noise_multiplier == pytest.approx(3.7306, abs=1e-3)
    assert delta_of_gaussian(1.0, 1 / budget.noise_multiplier) <= 1e-5


def test_a_budget_that_is_none_or_cannot_be_calibrated_is_refused() -> None:
    for epsilon, delta, field in [("x", 1e-5, "epsilon"), (1, -1, "delta"), (-1, 1e-5, "epsilon")]:
        with pytest.raises(InvalidInput) as refused:
            record_budget(epsilon, delta)  # type: ignore[arg-type]
        assert refused.value.field == field
    for epsilon, delta in [(0, 1e-5), (1, 0), (1, 1)]:
        with pytest.raises(OutOfRange):
            record_budget(epsilon, delta)


def spied(monkeypatch: pytest.MonkeyPatch, *, public: bool, design: Design) -> list[tuple[float, int]]:
    """(multiplier, squared sensitivity) of every Gaussian release of one call."""
    seen: list[tuple[float, int]] = []

    def spy(noise_multiplier: float, *, squared_sensitivity: int) -> int:
        seen.append((noise_multiplier, squared_sensitivity))
        return noise_scale(noise_multiplier, squared_sensitivity=squared_sensitivity)

    monkeypatch.setattr(module, "noise_scale", spy)
    budget = record_budget(1, 1e-5)
    pearl_release(random_table(50), frequencies=3, budget=budget, rows_are_public=public, design=design)
    return seen


@pytest.mark.parametrize("design", Design)
@pytest.mark.parametrize("public", [True, False])
def test_the_parts_together_are_the_budget(public: bool, design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = spied(monkeypatch, public=public, design=design)
    assert len(parts) == (2 if public and design is Design.GAUSSIAN else 1)
    total = sum(1 / multiplier**2 for multiplier, _ in parts)
    assert total == pytest.approx(record_budget(1, 1e-5).noise_multiplier ** -2, rel=1e-9)


def test_a_table_without_label_is_one_class() -> None:
    schema = toy_schema(labelled=False)
    table = table_of(schema, [(0, 1, 0)] * 100)
    release = pearl_release(table, frequencies=5, budget=record_budget(50, 1e-5), rows_are_public=False)
    assert release.sums.shape == (1, 5, 2)
    assert release.counts[0] == pytest.approx(100, abs=20)


def test_a_budget_too_small_for_the_sampler_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "noisy", lambda *_, **__: pytest.fail("noise was drawn"))
    budget = record_budget("0.001", 1e-5)
    with pytest.raises(OutOfRange):
        pearl_release(random_table(5), frequencies=10_000, budget=budget, rows_are_public=True, design=Design.GAUSSIAN)
