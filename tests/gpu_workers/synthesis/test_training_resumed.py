"""A training that is stopped at any step goes on from its checkpoint and ends as if it had not been."""

import math
from dataclasses import replace

import pytest
import torch
from synthesis_kit import table_of, toy_schema
from tiers import cells

from core.synthesis.pearl_release import Design, PearlRelease, pearl_release
from core.synthesis.pricing import record_budget
from gpu_workers.synthesis import reconstruction
from gpu_workers.synthesis.generator import GeneratorShape
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

SHAPE = GeneratorShape(components=8, bins=8)
PLAN = TrainingPlan(steps=12, enough=0.0, generator_steps=3)


class Kept:
    """A checkpoint in memory that counts what is written."""

    def __init__(self) -> None:
        self.states: list[bytes] = []

    def read(self) -> bytes | None:
        return self.states[-1] if self.states else None

    def write(self, state: bytes) -> None:
        self.states.append(state)


@pytest.fixture(params=cells(Design))
def release(request: pytest.FixtureRequest) -> PearlRelease:
    table = table_of(toy_schema(), [(0, 0, 0), (4096, 1, 1), (2000, 2, 1)] * 50)
    budget = record_budget(1, 1e-5)
    return pearl_release(table, frequencies=10, budget=budget, rows_are_public=True, design=request.param)


def test_a_stopped_training_ends_where_an_unbroken_one_does(
    release: PearlRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconstruction, "_SAVED_SECONDS", 0.0)
    kept = Kept()
    whole = train_generator(release, shape=SHAPE, plan=PLAN, checkpoint=kept)
    assert len(kept.states) == PLAN.steps
    stopped = Kept()
    stopped.states.append(kept.states[6])
    updates: list[tuple[int, int]] = []
    again = train_generator(
        release, shape=SHAPE, plan=PLAN, checkpoint=stopped, progress=lambda *steps: updates.append(steps)
    )
    assert updates == [(step, 12) for step in range(7, 12)]
    for before, after in zip(whole.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(before, after)
    assert again.curve == whole.curve
    assert [step for step, _ in whole.curve] == list(range(1, 13))


def test_a_finished_training_is_not_repeated(release: PearlRelease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruction, "_SAVED_SECONDS", math.inf)
    kept = Kept()
    whole = train_generator(release, shape=SHAPE, plan=PLAN, checkpoint=kept)
    again = train_generator(
        release, shape=SHAPE, plan=PLAN, checkpoint=kept, progress=lambda *_: pytest.fail("a step was repeated")
    )
    assert len(kept.states) == 1
    assert torch.equal(again.class_sizes, whole.class_sizes)
    assert again.curve == whole.curve


def test_training_ends_at_the_objective_that_is_enough(release: PearlRelease) -> None:
    """Nearer to the release than the true table is would be nearer to its noise. The end is in the checkpoint."""
    plan = TrainingPlan(steps=40, steps_min=1, rate=0.1, enough=0.0)
    objectives = [objective for _, objective in train_generator(release, shape=SHAPE, plan=plan).curve]
    plan = replace(plan, enough=(objectives[0] + min(objectives)) / 2)
    kept = Kept()
    curve = train_generator(release, shape=SHAPE, plan=plan, checkpoint=kept).curve
    assert curve[-1][0] < 40
    assert curve[-1][1] <= plan.enough < min(objective for _, objective in curve[:-1])
    again = train_generator(
        release, shape=SHAPE, plan=plan, checkpoint=kept, progress=lambda *_: pytest.fail("training went on")
    )
    assert again.curve == curve


def test_training_does_not_end_before_it_has_begun(release: PearlRelease) -> None:
    """A release that is mostly noise has the true table's objective from the start."""
    plan = TrainingPlan(steps=50, steps_min=20, enough=1e9)
    assert train_generator(release, shape=SHAPE, plan=plan).curve[-1][0] == 20
