"""The fine-tuning job without a gateway: no private step before its charge, and as many steps as were charged."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from finetune_kit import LABELS, Killed, StepsTaken, checkpoint, labelled
from job_kit import budget, training_order
from tiers import cells

from core.accounting.events import Adjacency, Unit
from core.amounts import epsilon_of
from core.errors import BadCorpus, JobFailed, JobFilesLost
from core.finetune.inputs import Hyperparameters, RowTerms, read_splits
from core.finetune.plan import budget_of, replace_one_epsilon
from core.state.jobs import METRICS
from gpu_workers.finetune import job as finetune_job
from gpu_workers.finetune.artifact import load_classifier
from gpu_workers.jobs.protocol import INPUT, JobOrder

ROWS, STEPS = 48, 21
PLAN = {"epsilon": 50.0, "delta": 1e-3, "rows": ROWS, "batch": 8, "steps": STEPS}


class World(StepsTaken):
    """The ledger's side of a charge, the steps that are made, and the reported progress."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.charges = 0
        self.reachable = True
        self.reports: list[tuple[str, dict[str, float]]] = []
        self.fractions: list[float] = []
        self.paid_at_step: list[int] = []

    def on_step(self) -> None:
        self.paid_at_step.append(self.charges)

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


@pytest.fixture
def encoder(folder: Path) -> Path:
    return checkpoint(folder, "bert")


@pytest.fixture
def order(tmp_path: Path, encoder: Path) -> JobOrder:
    return training_order(tmp_path / "job", encoder, [*labelled(ROWS), *labelled(10, split="public")], PLAN)


@pytest.mark.parametrize("method", cells(["lora", "rgp", "full"]))
def test_every_step_comes_after_the_charge_and_each_report_is_public(
    order: JobOrder, world: World, encoder: Path, method: str
) -> None:
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
    reported = [metrics for stage, metrics in world.reports if stage == "training" and metrics]
    assert reported[-1]["step"] == reported[-1]["steps"] == STEPS
    assert all(metrics.keys() <= METRICS for metrics in reported), "a job that reports others ends its attempt"
    assert reported[-1].keys() >= {"step", "steps", "public_accuracy"}
    assert reported[-1]["public_accuracy"] == result["metrics"]["accuracy"]
    assert result["metrics"]["rows"] == 10
    sealed = order.folder / "training"
    sealed.write_bytes(sealed.read_bytes()[:-3])
    with pytest.raises(JobFilesLost):  # a checkpoint that was tampered with
        world.run(order)
    assert world.count == STEPS


def test_the_encoders_part_moves_at_the_requested_rate_and_the_artifact_shows_it(
    order: JobOrder, world: World, encoder: Path
) -> None:
    used = Hyperparameters(rank=5, pieces_max=20, learning_rate=1e-9)
    result = world.run(replace(order, spec=replace(order.spec, hyperparameters=used)))
    path = Path(order.spec.targets[0])
    info, _, model = load_classifier(path, encoder)
    assert info.hyperparameters == used
    assert asdict(used).items() <= result.items()
    card = path.with_suffix(".md").read_text()
    for name in ("rank", "pieces_max", "learning_rate", "weight_decay"):
        assert f"| {name.replace('_', ' ')} | {getattr(used, name):g} |" in card
    assert "| class weights | balanced |" in card
    moved = [float(tensor.detach().abs().max()) for name, tensor in model.named_parameters() if "lora_B" in name]
    assert 0 < max(moved) < 1e-7, "these start at zero"
    assert float(model.head.weight.detach().abs().max()) > 1e-3


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


@pytest.mark.parametrize("method", cells(["lora", "rgp", "full"]))
def test_killed_it_goes_on_with_the_same_number_of_steps(order: JobOrder, world: World, method: str) -> None:
    order = replace(order, spec=replace(order.spec, method=method))
    world.die_at = 9  # a checkpoint each second step: 8 are kept
    with pytest.raises(Killed):
        world.run(order)
    assert max(metrics.get("step", 0) for _, metrics in world.reports) == 8
    assert not Path(order.spec.targets[0]).exists()
    world.die_at = None
    result = world.run(order)
    assert (world.count, result["steps"]) == (9 + STEPS - 8, STEPS)
    steps = [metrics["step"] for _, metrics in world.reports if metrics]
    assert steps == sorted(set(steps)), "no step is reported twice"
    assert (order.folder / INPUT).exists(), "the end of the job removes its folder"


def test_without_the_ledger_no_step_is_made(order: JobOrder, world: World) -> None:
    world.reachable = False
    with pytest.raises(Killed):
        world.run(order)
    assert (world.count, list(Path(order.spec.targets[0]).parent.glob("*"))) == (0, [])
    assert not (order.folder / "training").exists()


def test_an_encoder_that_cannot_be_trained_so_costs_nothing(order: JobOrder, world: World, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(JobFailed) as failed:
        world.run(replace(order, spec=replace(order.spec, model_path=str(empty))))
    assert (failed.value.reason, world.charges) == ("unusable-model", 0)


def test_what_is_charged_is_the_certificate_for_replacing_one_row() -> None:
    charged = budget(**PLAN)
    event = charged.event
    assert (event.kind, event.unit, event.adjacency) == ("approximate", Unit.RECORD, Adjacency.REPLACE_ONE)
    assert epsilon_of(event.epsilon_nano) >= replace_one_epsilon(charged.plan) > charged.plan.certificate.epsilon
    assert event.delta_femto == 10**12
    assert budget_of(orjson.loads(orjson.dumps(charged.stored()))) == charged


ROW = {"text": "a", "label": "home"}
OTHER = {"text": "b", "label": "away"}


def test_bad_rows_are_reported_by_line() -> None:
    terms = RowTerms(labels=LABELS, pairs=False, rows=3, public_rows_max=2, text_chars_max=30)
    for rows, reason, line, count in [
        ([ROW, OTHER], "wrong-count", None, 2), ([ROW, OTHER, ROW, ROW], "wrong-count", 4, None),
        ([ROW, ROW, ROW], "one-class", None, 3), ([ROW, OTHER, ROW, ROW | {"split": "public"}], "one-class", None, 1),
        ([ROW, {"text": "a", "label": "walrus"}], "unknown-label", 2, None),
        ([ROW, {"text": "a" * 31, "label": "home"}], "document-too-long", 2, 30),
        ([ROW, {"text": "a"}], "wrong-row", 2, None), ([ROW, {"text": 3, "label": "home"}], "wrong-row", 2, None),
        ([ROW, ROW | {"text_pair": "walrus"}], "wrong-row", 2, None),
        ([ROW, ROW | {"split": "walrus"}], "wrong-row", 2, None), ([ROW, ["walrus"]], "wrong-row", 2, None),
        ([ROW | {"split": "public"}] * 3, "too-many-rows", 3, None),
    ]:  # fmt: skip
        with pytest.raises(BadCorpus) as refused:
            read_splits(enumerate(rows, start=1), terms)
        assert (refused.value.reason, refused.value.line, refused.value.count) == (reason, line, count)
        assert "walrus" not in (refused.value.detail or "")


def test_all_faults_of_a_file_are_named_with_their_lines_and_no_value() -> None:
    terms = RowTerms(labels=LABELS, pairs=False, rows=500, public_rows_max=2, text_chars_max=30)
    wrong = [{"text": "a", "label": "walrus"}, {"walrus": 1}, {"text": "walrus" * 9, "label": "home"}, ["walrus"]]
    for sent, said in [
        (wrong,
         "4 rows cannot be used: unknown-label in line 1; wrong-row in lines 2, 4; document-too-long in line 3."),
        ([ROW, *wrong[:1] * 2, BadCorpus(reason="malformed-json", line=4)],
         "3 rows cannot be used: unknown-label in lines 2, 3; malformed-json in line 4."),
        (wrong[:1], "A row's label is not among the declared labels."),
        (wrong[1:2] * 100_000, "and 99980 more."),
    ]:  # fmt: skip
        with pytest.raises(BadCorpus) as refused:
            read_splits(enumerate(sent, start=1), terms)
        assert refused.value.detail.endswith(said), refused.value.detail
        assert len(refused.value.detail) < 300
        assert "walrus" not in refused.value.detail


def test_labels_are_texts_or_whole_numbers() -> None:
    terms = RowTerms(labels=("0", "1"), pairs=False, rows=4, public_rows_max=2, text_chars_max=30)
    rows = [{"text": "a", "label": label} for label in (0, 1, "0", "1")]
    private, public = read_splits(enumerate(rows, start=1), terms)
    assert (private.labels, public) == (["0", "1", "0", "1"], None)
    for label in (True, 1.0, None, [1], {"a": 1}):
        with pytest.raises(BadCorpus) as refused:
            read_splits(enumerate([{"text": "a", "label": label}], start=1), terms)
        assert refused.value.reason == "wrong-row", label
