"""The sensitivity of the marginals by brute force, their consistency, and rows drawn from them."""

import itertools

import numpy as np
import pytest
from synthesis_kit import table_of, toy_schema

from core.errors import InvalidInput
from core.synthesis import marginals_release as module
from core.synthesis.columns import STEPS
from core.synthesis.encoding import EncodedTable, decode_rows
from core.synthesis.marginals_release import joint_counts, marginals_release, squared_sensitivity
from core.synthesis.pricing import record_budget

SCHEMA = toy_schema()
EVERY_ROW = list(itertools.product(range(0, STEPS + 1, STEPS // 4), range(3), range(2)))
BINS = 4


def counts_of(rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.concatenate([counts.ravel() for counts in joint_counts(table_of(SCHEMA, rows), bins=BINS)])


def test_a_replaced_row_moves_the_counts_by_the_root_of_twice_the_columns() -> None:
    values = [counts_of([EVERY_ROW[0], row]) for row in EVERY_ROW]
    moves = [int(((a - b) ** 2).sum()) for a, b in itertools.combinations(values, 2)]
    assert max(moves) == squared_sensitivity(SCHEMA) == 4


def test_an_added_row_moves_them_by_half_of_that_squared() -> None:
    fewer = counts_of(EVERY_ROW[:2])
    assert {int(((counts_of([*EVERY_ROW[:2], row]) - fewer) ** 2).sum()) for row in EVERY_ROW} == {2}


def test_every_step_is_in_one_bin() -> None:
    for bins in (1, 3, 256):
        table = table_of(SCHEMA, [(step, 0, 0) for step in range(STEPS + 1)])
        numeric, _ = joint_counts(table, bins=bins)
        assert numeric[0].sum() == STEPS + 1
        assert numeric[0].max() - numeric[0].min() <= 1


def correlated(rows: int) -> EncodedTable:
    """Red is always low and of class 0; class 1 is high."""
    draw = np.random.default_rng(1)
    labels = (draw.random(rows) < 0.3).astype(np.int16)
    numbers = np.where(labels == 1, draw.integers(3_000, STEPS + 1, rows), draw.integers(0, 1_000, rows))
    return EncodedTable(SCHEMA, np.column_stack([numbers, labels * 2]).astype(np.int16), labels)


def test_counts_are_consistent() -> None:
    for public in [True, False]:
        release = marginals_release(correlated(400), bins=BINS, budget=record_budget(1, 1e-5), rows_are_public=public)
        assert release.rows == (400 if public else None)
        for table in release.tables:
            assert table.min() >= 0
            assert np.allclose(table.sum(axis=1), release.classes)
        if public:
            assert release.classes.sum() == pytest.approx(400)


def test_the_noise_is_that_of_the_budget() -> None:
    budget = record_budget(1, 1e-5)
    release = marginals_release(correlated(400), bins=256, budget=budget, rows_are_public=True)
    assert release.noise == pytest.approx(budget.noise_multiplier * 2, rel=1e-2)
    assert release.noise >= budget.noise_multiplier * 2
    assert budget.event(module.MARGINALS).mechanism == "marginals"


def test_sampled_rows_follow_the_table() -> None:
    release = marginals_release(correlated(20_000), bins=8, budget=record_budget(5, 1e-5), rows_are_public=False)
    drawn = release.sample(20_000)
    assert drawn.labels.mean() == pytest.approx(0.3, abs=0.02)
    assert (drawn.codes[:, 1] == drawn.labels * 2).mean() > 0.98
    assert (drawn.codes[drawn.labels == 1, 0] > 2_500).mean() > 0.97
    assert drawn.codes[:, 0].min() >= 0
    assert drawn.codes[:, 0].max() <= STEPS
    assert set(decode_rows(drawn)[0]) == {"n0", "colour", "label"}


def test_a_class_that_nobody_has_is_no_trouble() -> None:
    table = table_of(SCHEMA, [(0, 0, 1)] * 3_000)
    drawn = marginals_release(table, bins=2, budget=record_budget(5, 1e-5), rows_are_public=True).sample(1_000)
    assert drawn.labels.mean() > 0.97


def test_a_tiny_table_still_gives_rows() -> None:
    schema = toy_schema(labelled=False)
    release = marginals_release(
        table_of(schema, [(0, 0, 0), (1, 1, 0)]), bins=2, budget=record_budget("0.1", 1e-6), rows_are_public=False
    )
    assert len(release.sample(5)) == 5


def test_no_rows_are_no_sample() -> None:
    release = marginals_release(correlated(10), bins=2, budget=record_budget(1, 1e-5), rows_are_public=True)
    with pytest.raises(InvalidInput):
        release.sample(0)
