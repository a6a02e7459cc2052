"""The training loop: it makes as many steps as were accounted, reports no step before it is kept, and writes a file."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from finetune_kit import CPU, LABELS, Killed, Memory, StepsTaken, checkpoint, labels, texts, tiny
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiers import cells

from core.finetune.inputs import Hyperparameters, Split
from core.finetune.plan import PrivacyPlan, Sampling, by_every_accountant, plan_training, replace_one_epsilon
from gpu_workers.finetune.artifact import classifier_card, load_classifier, save_classifier
from gpu_workers.finetune.classifier import Rows, measure, probabilities
from gpu_workers.finetune.gradients import Method
from gpu_workers.finetune.training import FineTuned, PrivateTraining, Progress, Task, fine_tune

ROWS, STEPS = 64, 9
PRIVATE, PUBLIC = Split(texts(ROWS), labels(ROWS)), Split(texts(32), labels(32))


@pytest.fixture(scope="module")
def plan() -> PrivacyPlan:
    return plan_training(epsilon=50.0, delta=1e-3, rows=ROWS, batch=16, steps=STEPS)


def run(
    folder: Path,
    plan: PrivacyPlan,
    *,
    method: Method = Method.LORA,
    memory: Memory | None = None,
    reports: list[Progress] | None = None,
    private: Split = PRIVATE,
    rate: float | None = None,
) -> FineTuned:
    task = Task(labels=LABELS, pairs=False, method=method, hyperparameters=Hyperparameters(3, 40, rate))
    reports = [] if reports is None else reports
    return fine_tune(
        private, PUBLIC, task, plan, base_path=checkpoint(folder, "bert"), device=CPU, checkpoint=memory or Memory(),
        report=reports.append,
    )  # fmt: skip


@pytest.mark.parametrize("method", cells(Method))
def test_every_tensor_moves_and_all_steps_are_made(
    folder: Path, plan: PrivacyPlan, method: Method, steps_taken: StepsTaken
) -> None:
    before = {name: tensor.detach().clone() for name, tensor in _untrained(folder, method).items()}
    memory = Memory()
    kept: list[int] = []

    class Ordered(list[Progress]):
        def append(self, progress: Progress) -> None:
            kept.append(int(torch.load(io.BytesIO(memory.state), weights_only=True)["step"]))
            super().append(progress)

    reports = Ordered()

    made = run(folder, plan, method=method, memory=memory, reports=reports)

    assert steps_taken.count == len(memory.writes) == STEPS
    assert kept == [progress.step for progress in reports], "no step is reported before it is kept"
    assert before.keys() == made.tensors.keys()
    assert any("lora" in name for name in before) is (method is Method.LORA)
    for name, tensor in made.tensors.items():
        assert bool(tensor.isfinite().all())
        assert not torch.equal(tensor, before[name]), name
    assert reports[-1].step == reports[-1].steps == STEPS
    assert reports[-1].metrics == made.metrics


def _untrained(folder: Path, method: Method) -> dict[str, torch.Tensor]:
    return dict(tiny(checkpoint(folder, "bert"), method, stirred=False).trained.optimised)


@pytest.fixture(scope="module")
def allocated(plan: PrivacyPlan) -> PrivacyPlan:
    return replace(plan, batch=8, steps=24, sampling=Sampling.RANDOM_ALLOCATION)


@pytest.fixture
def read_rows(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The rows of each step that was begun."""
    found: list[list[int]] = []
    inner = Rows.batches

    def batches(rows: Rows, chosen: np.ndarray, *, pieces_max: int) -> object:
        if len(rows) == ROWS:  # not the public ones
            found.append(chosen.tolist())
        return inner(rows, chosen, pieces_max=pieces_max)

    monkeypatch.setattr(Rows, "batches", batches)
    return found


@pytest.mark.parametrize("die_at", cells([9, None, 1, 5, 7, 8, 13, 23], kind="crash"))
def test_random_allocation_reads_each_row_once_an_epoch_through_a_crash(
    folder: Path, allocated: PrivacyPlan, steps_taken: StepsTaken, read_rows: list[list[int]], die_at: int | None
) -> None:
    memory, reports = Memory(), list[Progress]()
    steps_taken.die_at = die_at
    if die_at is not None:
        with pytest.raises(Killed):
            run(folder, allocated, memory=memory, reports=reports)
        # what no checkpoint holds is read again
        kept = reports[-1].step if reports else 0
        del read_rows[kept:]
        steps_taken.die_at = None
    run(folder, allocated, memory=memory, reports=reports)

    assert reports[-1].step == len(read_rows) == 24
    epochs = [sorted(row for rows in read_rows[start : start + 8] for row in rows) for start in (0, 8, 16)]
    assert epochs == [list(range(ROWS))] * 3
    assert read_rows[:8] != read_rows[8:16] != read_rows[16:]


@pytest.fixture(scope="module")
def finished(folder: Path, plan: PrivacyPlan) -> tuple[FineTuned, Memory]:
    """A training, and its last checkpoint."""
    memory = Memory()
    return run(folder, plan, memory=memory), memory


def test_a_checkpoint_of_another_plan_is_refused(
    folder: Path, plan: PrivacyPlan, finished: tuple[FineTuned, Memory]
) -> None:
    _, memory = finished
    for other in (
        replace(plan, noise_multiplier=plan.noise_multiplier / 2),
        replace(plan, steps=STEPS + 10),
        replace(plan, sampling=Sampling.RANDOM_ALLOCATION),
    ):
        with pytest.raises(ValueError, match="another plan"):
            run(folder, other, memory=memory)


def test_a_finished_training_makes_no_step_more(
    folder: Path, plan: PrivacyPlan, finished: tuple[FineTuned, Memory], steps_taken: StepsTaken
) -> None:
    first, memory = finished
    again = run(folder, plan, memory=memory)
    assert steps_taken.count == 0
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in first.tensors.items())


@pytest.mark.slow("training")
def test_it_learns_where_the_noise_lets_it(folder: Path, plan: PrivacyPlan) -> None:
    quiet = replace(plan, noise_multiplier=0.05, batch=ROWS, steps=40)
    made = run(folder, quiet, method=Method.FULL, rate=1e-2)
    assert made.metrics.accuracy > 0.9


@pytest.mark.parametrize("method", cells(Method))
def test_weight_decay_shrinks_the_weights_by_the_rate_whatever_the_rows_are(
    folder: Path, plan: PrivacyPlan, method: Method
) -> None:
    small = tiny(checkpoint(folder, "bert"), method, count=ROWS)
    decay = Hyperparameters(learning_rate=1e-2, weight_decay=0.5)
    training = PrivateTraining(small.model, small.trained, plan, Memory(), hyperparameters=decay, head_rate=2e-2)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in small.trained.own.items()}
    training._gradient.step = lambda batches: zeros  # type: ignore[method-assign]
    before = {name: tensor.detach().clone() for name, tensor in small.trained.optimised.items()}

    training.run(small.rows, None, lambda _: None)

    for name, tensor in small.trained.optimised.items():
        rate = 2e-2 if name.startswith("head.") and method is not Method.HEAD else 1e-2
        kept = math.prod(1 - 0.5 * rate * training._schedule.factor(step) for step in range(STEPS))
        assert torch.allclose(tensor, kept * before[name], rtol=1e-5, atol=1e-9), name


def test_no_step_is_made_with_another_number_of_rows_than_was_accounted(
    folder: Path, plan: PrivacyPlan, steps_taken: StepsTaken
) -> None:
    with pytest.raises(ValueError, match="the plan declares"):
        run(folder, plan, private=Split(texts(ROWS - 1), labels(ROWS - 1)))
    assert steps_taken.count == 0


@pytest.mark.parametrize("method", cells(Method))
def test_the_file_is_the_classifier(folder: Path, plan: PrivacyPlan, method: Method, tmp_path: Path) -> None:
    made = run(folder, plan, method=method, rate=5e-3)
    path = tmp_path / "classifier.safetensors"
    save_classifier(path, made.info, made.tensors)
    info, base, model = load_classifier(path, checkpoint(folder, "bert"))
    assert info == made.info
    assert info.epsilon == plan.certificate.epsilon
    rows = Rows(base, PUBLIC.texts, [LABELS.index(label) for label in PUBLIC.labels], device=CPU)
    assert measure(model, rows) == made.metrics
    assert not torch.allclose(probabilities(model, rows), torch.tensor(0.5))


def test_a_file_that_is_not_one_is_refused(folder: Path, finished: tuple[FineTuned, Memory], tmp_path: Path) -> None:
    path, good = tmp_path / "classifier.safetensors", checkpoint(folder, "bert")
    with pytest.raises(ValueError, match="readable"):
        load_classifier(path, good)
    made, _ = finished
    save_classifier(path, made.info, made.tensors)
    with pytest.raises(ValueError, match="another encoder"):
        load_classifier(path, checkpoint(folder, "roberta"))
    with safe_open(path, framework="pt") as stream:
        metadata = stream.metadata()
    tensors = load_file(path)
    save_file({**tensors, "head.bias": torch.tensor([torch.nan, 0.0])}, path, metadata=metadata)
    with pytest.raises(ValueError, match="finite"):
        load_classifier(path, good)
    save_file({**tensors, "head.bias": torch.zeros(3)}, path, metadata=metadata)
    with pytest.raises(ValueError, match="do not match"):
        load_classifier(path, good)
    save_file(tensors, path, metadata={**metadata, "info": json.dumps({"method": "lora"})})
    with pytest.raises(ValueError, match="metadata"):
        load_classifier(path, good)


def test_the_card_shows_the_certificate_and_every_accountant(
    plan: PrivacyPlan, finished: tuple[FineTuned, Memory]
) -> None:
    made, _ = finished
    card = classifier_card(
        "mine", made.info, by_every_accountant(plan), replace_one=replace_one_epsilon(plan), metrics=made.metrics
    )
    certified = [line for line in card.splitlines() if "(the certificate)" in line]
    assert len(certified) == 1
    assert "| bound |" in certified[0]
    for name in ("rdp", "basic", "edgeworth, order 1", "add-remove", made.info.base_fingerprint):
        assert name in card
    assert float(card.split("**(")[1].split(",")[0]) >= plan.certificate.epsilon
    assert "Poisson sampled, 16 rows expected" in card


def test_the_card_says_how_rows_were_allocated(allocated: PrivacyPlan, finished: tuple[FineTuned, Memory]) -> None:
    info = replace(finished[0].info, sampling=allocated.sampling, batch=allocated.batch, steps=allocated.steps)
    card = classifier_card("mine", info, by_every_accountant(allocated), replace_one=60.0, metrics=None)
    assert "| steps | 24, random allocation: each row in one of the 8 steps of each epoch |" in card
    assert "| pld (the certificate) | bound |" in card
