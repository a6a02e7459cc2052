"""Own recognisers in a worker: read once from an encrypted file, in every window, and never skipped."""

import pickle
from pathlib import Path

import pytest
from recogniser_kit import stored

from core.errors import RecogniserBroken
from core.text.own_recognisers.definition import Definition, OwnReference, RecogniserFile
from core.text.policy import METRIC_DP, MaskPolicy, Sanitised
from gpu_workers.engine import handler
from gpu_workers.handlers.own_finder import DraftTask
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.sanitize_tasks import DocumentTask, WindowTask

CODES = Definition("PROJECT_CODE", patterns=(r"PX-\d{4}",), deny=("Blue Fälcon",))
TEXT = "PX-1234 is blue fälcon. "
MASKED = "[PROJECT_CODE] is [PROJECT_CODE]. "


def policy(*own: OwnReference) -> MaskPolicy:
    return MaskPolicy(entities=("PROJECT_CODE",), own=own)


@pytest.fixture(scope="module")
def sanitiser() -> Sanitiser:
    return Sanitiser(recognisers_loaded_max=2)


def masked(sanitiser: Sanitiser, text: str, *own: OwnReference) -> object:
    (result,) = sanitiser.run([DocumentTask(text, policy(*own))])
    return result.text if isinstance(result, Sanitised) else result


def test_a_recogniser_is_read_at_its_first_use_and_kept(sanitiser: Sanitiser, tmp_path: Path) -> None:
    own = stored(tmp_path, CODES)
    assert masked(sanitiser, TEXT, own) == MASKED
    Path(own.file.path).unlink()
    assert masked(sanitiser, TEXT, own) == MASKED


def test_a_file_that_cannot_be_used_is_an_error(sanitiser: Sanitiser, tmp_path: Path) -> None:
    own = stored(tmp_path, CODES)
    other = stored(tmp_path, CODES, "other")
    wrong_key = RecogniserFile(own.file.path, "1", other.file.key, own.file.label)
    wrong_name = RecogniserFile(own.file.path, "2", own.file.key, "other")
    missing = RecogniserFile(str(tmp_path / "missing"), "3", own.file.key, own.file.label)
    for file in (wrong_key, wrong_name, missing):
        result = masked(sanitiser, TEXT, other, OwnReference("codes", "PROJECT_CODE", file))
        assert isinstance(result, RecogniserBroken)


def test_a_task_is_small_whatever_the_number_of_terms(sanitiser: Sanitiser, tmp_path: Path) -> None:
    large = Definition("PROJECT_CODE", deny=tuple(f"Customer {number}" for number in range(100_000)))
    own = stored(tmp_path, large)
    assert len(pickle.dumps(WindowTask("text", policy(own)))) < 2_000
    assert "key" not in repr(policy(own).own[0].file)
    assert masked(sanitiser, "customer 99999, customer 100000", own) == "[PROJECT_CODE], customer 100000"


def test_other_batches_may_run_between_two_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker reads another tenant's document in the middle, which changes nothing."""
    own = stored(tmp_path, Definition("PROJECT_CODE", patterns=(r"PX-\d{4}", r"QX-\d{4}")))
    sanitiser = Sanitiser(recognisers_loaded_max=1)
    other = stored(tmp_path, CODES, "other")
    between: list[object] = []

    def run_other() -> None:
        monkeypatch.setattr(handler, "_pause", bool)
        between.append(masked(sanitiser, TEXT, other))
        monkeypatch.setattr(handler, "_pause", run_other)

    monkeypatch.setattr(handler, "_pause", run_other)
    assert masked(sanitiser, "PX-1234, QX-5678", own) == "[PROJECT_CODE], [PROJECT_CODE]"
    assert between == [MASKED, MASKED]


def test_priced_fills_and_other_documents_of_a_batch(sanitiser: Sanitiser, tmp_path: Path) -> None:
    own = stored(tmp_path, CODES)
    priced = DocumentTask(TEXT, policy(own), METRIC_DP, 10**9)
    plain = DocumentTask(TEXT, MaskPolicy(entities=("EMAIL_ADDRESS",)))
    draft = DraftTask(TEXT, CODES.packed(), 0.4, 100)
    results = sanitiser.run([priced, plain, draft])
    assert len(results[0].spans) == 2
    assert results[1].text == TEXT
    assert [(find.start, find.end) for find in results[2].finds] == [(0, 7), (11, 22)]
