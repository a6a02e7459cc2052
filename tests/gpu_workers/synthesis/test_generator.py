"""A generator learns what was released, and samples rows of the schema."""

import numpy as np
import pytest
from synthesis_kit import toy_schema
from tiers import cells

from core.synthesis.encoding import EncodedTable
from core.synthesis.pearl_release import Design, PearlRelease, pearl_release
from core.synthesis.pricing import record_budget
from gpu_workers.synthesis.generator import Generator, GeneratorShape
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

SHAPE = GeneratorShape(components=32, bins=32)
PLAN = TrainingPlan(steps=150, rate=0.1)


def two_groups(rows: int) -> EncodedTable:
    """Class `yes`, a quarter: high and blue. The rest: low, half red and half green."""
    draw = np.random.default_rng(0)
    yes = draw.random(rows) < 0.25
    numbers = np.where(yes, draw.integers(3_200, 3_900, rows), draw.integers(200, 900, rows))
    colours = np.where(yes, 2, draw.integers(0, 2, rows))
    return EncodedTable(toy_schema(), np.column_stack([numbers, colours]).astype(np.int16), yes.astype(np.int16))


@pytest.fixture(scope="module", params=cells(Design))
def release(request: pytest.FixtureRequest) -> PearlRelease:
    budget = record_budget(2, 1e-5)
    return pearl_release(two_groups(5_000), frequencies=200, budget=budget, rows_are_public=True, design=request.param)


@pytest.fixture(scope="module")
def generator(release: PearlRelease) -> Generator:
    return train_generator(release, shape=SHAPE, plan=PLAN)


def test_sampled_rows_are_like_the_private_ones(generator: Generator) -> None:
    drawn = generator.sample(20_000)
    assert drawn.labels.mean() == pytest.approx(0.25, abs=0.03)
    yes = drawn.labels == 1
    assert (drawn.codes[yes, 1] == 2).mean() > 0.95
    assert (drawn.codes[~yes, 1] != 2).mean() > 0.95
    assert {0, 1} <= set(drawn.codes[~yes, 1].tolist())
    assert drawn.codes[yes, 0].mean() == pytest.approx(3_550, abs=300)
    assert drawn.codes[~yes, 0].mean() == pytest.approx(550, abs=300)


@pytest.mark.slow("statistics")
def test_two_columns_go_together_as_they_did(generator: Generator, release: PearlRelease) -> None:
    """Of the rest, red is in the lower half and green in the upper one."""
    draw = np.random.default_rng(1)
    high = draw.random(5_000) < 0.5
    codes = np.column_stack([np.where(high, 3_000, 1_000), np.where(high, 1, 0)]).astype(np.int16)
    table = EncodedTable(toy_schema(), codes, np.zeros(5_000, dtype=np.int16))
    budget = record_budget(2, 1e-5)
    release = pearl_release(table, frequencies=200, budget=budget, rows_are_public=True, design=release.design)
    drawn = train_generator(release, shape=SHAPE, plan=PLAN).sample(4_000)
    assert ((drawn.codes[:, 0] > 2_000) == (drawn.codes[:, 1] == 1)).mean() > 0.9


def test_a_release_of_noise_alone_still_gives_rows() -> None:
    schema = toy_schema(labelled=False)
    table = EncodedTable(schema, np.zeros((2, 2), dtype=np.int16), np.zeros(2, dtype=np.int16))
    release = pearl_release(table, frequencies=20, budget=record_budget("0.1", 1e-6), rows_are_public=False)
    drawn = train_generator(release, shape=SHAPE, plan=TrainingPlan(steps=5)).sample(10)
    assert len(drawn) == 10
