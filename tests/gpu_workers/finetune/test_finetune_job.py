"""The fine-tuning job without a gateway: no private step before its charge, and as many steps as were charged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from finetune_kit import LABELS, checkpoint, labelled
from job_order_kit import training_order
from tiers import cells

from core.accounting.events import Adjacency, Unit
from core.amounts import epsilon_of
from core.finetune.hyperparameters import Hyperparameters
from core.finetune.plan import replace_one_epsilon
from core.finetune.pricing import budget_of, training_budget
from core.finetune.rows import RowTerms, read_splits
from core.job_errors import BadCorpus, JobFailed, JobFilesLost
from gpu_workers.finetune import job as finetune_job
from gpu_workers.finetune.artifact import load_classifier
from gpu_workers.finetune.gradients import PrivateGradient
from gpu_workers.jobs.messages import INPUT, JobOrder
from gpu_workers.models.tensor_file import read_tensors, write_tensors

ROWS, STEPS = 48, 21
PLAN = {"epsilon": 50.0, "delta": 1e-3, "rows": ROWS, "batch": 8, "steps": STEPS}


class Killed(Exception):
    """Stands for the death of the process."""


class World:
    """The ledger's side of a charge, the steps that are made, and the reported progress."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.charges, self.steps = 0, 0
        self.reachable = True
        self.die_at: int | None = None
        self.reports: list[tuple[str, dict[str, float]]] = []
        self.fractions: list[float] = []
        self.paid_at_step: list[int] = []
        inner = PrivateGradient.step

        def step(gradient: PrivateGradient, batches: Any) -> Any:
            if self.steps == self.die_at:
                raise Killed
            self.steps += 1
            self.paid_at_step.append(self.charges)
            return inner(gradient, batches)

        monkeypatch.setattr(PrivateGradient, "step", step)

    def charge(self) -> None:
        self.charges += 1
        if not self.reachable:
            raise Killed

    def report(self, stage: str, fraction: float, metrics: Any = None, /) -> None:
        self.reports.append((stage, dict(metrics or {})))
        self.fractions.append(fraction)

    def run(self, order: JobOrder) -> dict[str, Any]:
        return finetune_job.run(order, self.report, self.charge)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("encoders"), "bert")


@pytest.fixture
def order(tmp_path: Path, encoder: Path) -> JobOrder:
    return training_order(tmp_path / "job", encoder, [*labelled(ROWS), *labelled(10, split="public")], PLAN)


@pytest.mark.parametrize("method", cells(["lora", "rgp", "full"]))
def test_every_step_comes_after_the_charge(order: JobOrder, world: World, encoder: Path, method: str) -> None:
    order = replace(order, spec=replace(order.spec, method=method))
    result = world.run(order)
    assert world.paid_at_step == [1] * STEPS
    info, _, _ = load_classifier(Path(order.spec.targets[0]), encoder)
    assert (info.method, info.steps, info.labels) == (method, STEPS, LABELS)
    assert result["privacy"]["epsilon"] > result["certificate"]["epsilon"] > 49
    assert {line["name"] for line in result["accountants"]} >= {"pld", "rdp", "edgeworth"}
    card = Path(order.spec.targets[0]).with_suffix(".md").read_text()
    assert "Classifier `towns`" in card
    assert "add-remove" in card


def test_the_encoders_part_moves_at_the_requested_rate(order: JobOrder, world: World, encoder: Path) -> None:
    world.run(
        replace(
            order, spec=replace(order.spec, hyperparameters=Hyperparameters(rank=5, pieces_max=20, learning_rate=1e-9))
        )
    )
    info, _, model = load_classifier(Path(order.spec.targets[0]), encoder)
    assert info.hyperparameters == Hyperparameters(rank=5, pieces_max=20, learning_rate=1e-9)
    moved = [float(tensor.detach().abs().max()) for name, tensor in model.named_parameters() if "lora_B" in name]
    assert 0 < max(moved) < 1e-7, "these start at zero"
    assert float(model.head.weight.detach().abs().max()) > 1e-3


def test_reports_hold_steps_and_public_metrics(order: JobOrder, world: World) -> None:
    result = world.run(order)
    reported = [metrics for stage, metrics in world.reports if stage == "training" and metrics]
    assert reported[-1]["step"] == reported[-1]["steps"] == STEPS
    allowed = {"step", "steps", "public_rows", "public_accuracy", "public_macro_f1"}
    assert all(metrics.keys() <= allowed for metrics in reported)
    assert reported[-1]["public_accuracy"] == result["metrics"]["accuracy"]
    assert result["metrics"]["rows"] == 10


def test_every_report_is_a_function_of_the_plan(encoder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a public split, what is reported is the same for two trainings whose rows differ in length."""
    worlds = []
    for number, length in enumerate((1, 3)):
        rows = labelled(ROWS)
        rows[0]["text"] = "far " * length
        worlds.append(World(monkeypatch))
        worlds[-1].run(training_order(tmp_path / str(number), encoder, rows, PLAN))
    first, second = worlds
    assert (first.reports, first.fractions) == (second.reports, second.fractions)


def test_killed_it_goes_on_with_the_same_number_of_steps(order: JobOrder, world: World) -> None:
    world.die_at = 9  # a checkpoint each second step: 8 are kept
    with pytest.raises(Killed):
        world.run(order)
    assert max(metrics.get("step", 0) for _, metrics in world.reports) == 8
    assert not Path(order.spec.targets[0]).exists()
    world.die_at = None
    result = world.run(order)
    assert (world.steps, result["steps"]) == (9 + STEPS - 8, STEPS)
    steps = [metrics["step"] for _, metrics in world.reports if metrics]
    assert steps == sorted(set(steps)), "no step is reported twice"
    assert (order.folder / INPUT).exists(), "the end of the job removes its folder"


def test_without_the_ledger_no_step_is_made(order: JobOrder, world: World) -> None:
    world.reachable = False
    with pytest.raises(Killed):
        world.run(order)
    assert (world.steps, list(Path(order.spec.targets[0]).parent.glob("*"))) == (0, [])
    assert not (order.folder / "training").exists()


def test_a_checkpoint_that_was_tampered_with_is_refused(order: JobOrder, world: World) -> None:
    world.run(order)
    sealed = order.folder / "training"
    sealed.write_bytes(sealed.read_bytes()[:-3])
    with pytest.raises(JobFilesLost):
        world.run(order)
    assert world.steps == STEPS


def test_an_encoder_that_cannot_be_trained_so_costs_nothing(order: JobOrder, world: World, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(JobFailed) as failed:
        world.run(replace(order, spec=replace(order.spec, model_path=str(empty))))
    assert (failed.value.reason, world.charges) == ("unusable-model", 0)


def test_what_is_charged_is_the_certificate_for_replacing_one_row() -> None:
    budget = training_budget(**PLAN)
    event = budget.event
    assert (event.kind, event.unit, event.adjacency) == ("approximate", Unit.RECORD, Adjacency.REPLACE_ONE)
    assert epsilon_of(event.epsilon_nano) >= replace_one_epsilon(budget.plan) > budget.plan.certificate.epsilon
    assert event.delta_femto == 10**12
    assert budget_of(orjson.loads(orjson.dumps(budget.stored()))) == budget


ROW = {"text": "a", "label": "home"}
OTHER = {"text": "b", "label": "away"}


@pytest.mark.parametrize(
    ("rows", "reason", "line", "count"),
    [
        ([ROW, OTHER], "wrong-count", None, 2),
        ([ROW, OTHER, ROW, ROW], "wrong-count", 4, None),
        ([ROW, ROW, ROW], "one-class", None, 3),
        ([ROW, OTHER, ROW, ROW | {"split": "public"}], "one-class", None, 1),
        ([ROW, {"text": "a", "label": "walrus"}], "unknown-label", 2, None),
        ([ROW, {"text": "a" * 31, "label": "home"}], "document-too-long", 2, 30),
        ([ROW, {"text": "a"}], "wrong-row", 2, None),
        ([ROW, {"text": 3, "label": "home"}], "wrong-row", 2, None),
        ([ROW, ROW | {"text_pair": "walrus"}], "wrong-row", 2, None),
        ([ROW, ROW | {"split": "walrus"}], "wrong-row", 2, None),
        ([ROW, ["walrus"]], "wrong-row", 2, None),
        ([ROW | {"split": "public"}] * 3, "too-many-rows", 3, None),
    ],
)
def test_bad_rows_are_reported_by_line(rows: list[Any], reason: str, line: int | None, count: int | None) -> None:
    terms = RowTerms(labels=LABELS, pairs=False, rows=3, public_rows_max=2, text_chars_max=30)

    def numbered() -> Iterator[tuple[int, Any]]:
        yield from enumerate(rows, start=1)

    with pytest.raises(BadCorpus) as refused:
        read_splits(numbered(), terms)
    assert (refused.value.reason, refused.value.line, refused.value.count) == (reason, line, count)
    assert "walrus" not in (refused.value.detail or "")


def test_an_artifact_shows_the_hyperparameters_that_were_used(order: JobOrder, world: World, encoder: Path) -> None:
    result = world.run(replace(order, spec=replace(order.spec, method="full")))
    used = Hyperparameters(rank=0, learning_rate=2e-4)
    path = Path(order.spec.targets[0])
    info, _, _ = load_classifier(path, encoder)
    assert info.hyperparameters == used
    assert asdict(used).items() <= result.items()
    card = path.with_suffix(".md").read_text()
    for name, value in asdict(used).items():
        assert f"| {name.replace('_', ' ')} | {value:g} |" in card


def test_a_file_from_before_a_hyperparameter_existed_still_loads(order: JobOrder, world: World, encoder: Path) -> None:
    world.run(order)
    path = Path(order.spec.targets[0])
    kind, facts, arrays = read_tensors(path)
    del facts["learning_rate"]
    write_tensors(path, kind, facts, arrays)
    info, _, _ = load_classifier(path, encoder)
    assert info.hyperparameters == Hyperparameters(rank=3)
