"""The tagger inside a sanitise worker: what it refuses to serve, and that a failure holds no text."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_models import checkpoint
from transformers import AutoModelForTokenClassification

from core.errors import InvalidInput, RecogniserFailed
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.handler import CanaryMissed
from gpu_workers.handlers.entity_tagger import NameFinder
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models.sources import TAGGER_BUNDLED

NAMES = MaskPolicy(entities=("PERSON", "LOCATION"))
SECRET = "Maria Keller"


@pytest.fixture(scope="module")
def sanitiser() -> Sanitiser:
    return Sanitiser(tagger=TAGGER_BUNDLED)


@pytest.mark.slow("installation")
def test_the_bundled_models_need_no_transformers_and_patterns_no_torch() -> None:
    """Every gateway's start would wait for them."""
    code = (
        "import sys; from gpu_workers.handlers.options import WorkerOptions; "
        "from gpu_workers.engine.protocol import Role; from gpu_workers.handlers.preload import make_handler; "
        "make_handler(Role.SANITIZE, WorkerOptions(tagger='off', infill='off')).warm_up(); "
        "assert 'torch' not in sys.modules; "
        "make_handler(Role.SANITIZE, WorkerOptions(tagger='bundled', infill='off')).warm_up(); "
        "make_handler(Role.FILL, WorkerOptions(tagger='off', infill='bundled')).warm_up(); "
        "assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_roberta_checkpoint_is_served_by_its_folder(tmp_path: Path) -> None:
    worker = Sanitiser(tagger=str(checkpoint(tmp_path, "roberta", AutoModelForTokenClassification, teach=True)))
    facts = worker.warm_up()
    (answer,) = worker.run([SanitizeTask("the parcel that alice sent to lima", NAMES)])
    assert answer.text == "the parcel that [PERSON] sent to [LOCATION]"
    assert facts.as_json()["tagger"] == {"name": tmp_path.name, "types": ["LOCATION", "PERSON"], "device": "cpu"}
    assert "ORGANIZATION" not in facts.entities


def test_a_checkpoint_that_gives_no_numbers_does_not_become_ready(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "bert", AutoModelForTokenClassification)
    model = AutoModelForTokenClassification.from_pretrained(path)
    model.classifier.bias.data[:] = float("nan")
    model.save_pretrained(path)
    with pytest.raises(RuntimeError, match="not finite"):
        Sanitiser(tagger=str(path)).warm_up()


def test_a_bundled_tagger_that_misses_names_does_not_become_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = NameFinder(TAGGER_BUNDLED, device="cpu")
    finder.check()
    monkeypatch.setattr("gpu_workers.models.tagger.TAGGED_SCORE_MIN", 1.1)
    with pytest.raises(CanaryMissed):
        finder.check()


@pytest.mark.parametrize("later", [False, True])
def test_a_failure_takes_no_neighbours_along_and_says_nothing(
    sanitiser: Sanitiser, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    """At once, as of the tokeniser, or `later`, as of the network."""
    tagger = sanitiser._names._tagger  # type: ignore[union-attr]
    begin = tagger.begin

    def fail(documents: list[str], between: Callable[[], object] = bool) -> object:
        def raises() -> object:
            raise ValueError(documents)

        if any(SECRET in text for text in documents):
            return raises if later else raises()
        return begin(documents, between)

    monkeypatch.setattr(tagger, "begin", fail)
    texts = ("Tom O'Brien left.", f"{SECRET} left.", "Nobody left Lisbon.")
    first, second, third = sanitiser.run([SanitizeTask(text, NAMES) for text in texts])

    assert first.text == "[PERSON] left."
    assert third.text == "Nobody left [LOCATION]."
    assert isinstance(second, RecogniserFailed)
    assert second.__traceback__ is second.__context__ is second.__cause__ is None
    assert SECRET not in repr(second) + repr(vars(second))


def test_only_documents_that_ask_for_names_are_read(sanitiser: Sanitiser, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = sanitiser._names._tagger  # type: ignore[union-attr]
    read: list[str] = []
    begin = tagger.begin
    monkeypatch.setattr(tagger, "begin", lambda documents, between: read.extend(documents) or begin(documents, between))
    everything = MaskPolicy(techniques=("entity", "all"), entities=("PERSON",))
    sanitiser.run(
        [
            SanitizeTask("one", MaskPolicy(techniques=("vocabulary",))),
            SanitizeTask("two", MaskPolicy(entities=("URL",))),
            SanitizeTask("thr\u200bee", NAMES),
            SanitizeTask("four", everything, "metric_dp", 10**9),
        ]
    )

    assert read == ["three"]


def test_a_worker_without_a_tagger_refuses_names_that_reach_it() -> None:
    (answer,) = Sanitiser().run([SanitizeTask(f"{SECRET} left.", NAMES)])
    assert isinstance(answer, RecogniserFailed)
    assert not isinstance(answer, InvalidInput)
    assert SECRET not in repr(vars(answer))
