"""Long documents: their windows as tasks of the engine, and the same answer as from one task."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from pieces_kit import run_batches

from core.errors import RecogniserFailed
from core.text import mask_entity
from core.text.policy import DP, METRIC_DP, PRICED_FILLS, TOP_1, MaskPolicy, Sanitised
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers import sanitize_tasks
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.sanitize_tasks import DocumentTask, WindowTask

SECRET = "jo.doe@corp.internal"
EMAIL = MaskPolicy(entities=("EMAIL_ADDRESS",))
LONG = f"nothing happened {SECRET} then " * 2_000
SHORT = DocumentTask("Write to jo@example.org", EMAIL)


def run(*groups: tuple[str, DocumentTask]) -> tuple[list[Any], list[list[Any]]]:
    return run_batches(Role.SANITIZE, Sanitiser(), *((tenant, [task]) for tenant, task in groups), isolate=False)


def test_a_document_in_pieces_is_masked_as_in_one_task() -> None:
    ((answer,),), batches = run(("a", DocumentTask(LONG, EMAIL)))
    (whole,) = Sanitiser().run([DocumentTask(LONG, EMAIL)])
    assert sum(isinstance(task, WindowTask) for batch in batches for task in batch) > 3
    assert answer == whole
    assert SECRET not in answer.text
    assert answer.text.count("[EMAIL_ADDRESS]") == 2_000


def test_a_window_that_fails_fails_its_document_alone_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(text: str) -> Any:
        if "poison" in text:
            raise ValueError(text)
        yield from ()

    table = {**mask_entity.recognisers(), "URL": (mask_entity.Recogniser("URL", scan),)}
    monkeypatch.setattr(mask_entity, "recognisers", lambda: table)
    policy = MaskPolicy(entities=("URL",))
    (failed, (short,)), _ = run(("a", DocumentTask(LONG + "poison", policy)), ("b", SHORT))

    assert isinstance(failed, RecogniserFailed)
    assert failed.entity == "URL"
    assert SECRET.encode() not in pickle.dumps(failed)
    assert isinstance(short, Sanitised)


def test_the_task_that_follows_has_the_whole_text_and_the_fill() -> None:
    for fill in [METRIC_DP, TOP_1, DP]:
        task = DocumentTask(LONG, EMAIL, fill, None if fill == TOP_1 else 10**9)
        pieces = task.pieces(512)
        finds = Sanitiser().run([piece.payload for piece in pieces.tasks])
        rest = pieces.join(finds)
        assert (rest.payload.text, rest.payload.fill, rest.payload.epsilon_nano) == (LONG, fill, task.epsilon_nano)
        again = rest.payload.pieces(512)
        (first,) = again.tasks
        assert first.payload == replace(rest.payload, places_max=512 if fill == METRIC_DP else 10)
        assert first.payload.pieces(512) is None
        assert rest.weight < task.weight
        assert SECRET not in repr(rest) + repr(pieces.tasks)


def test_invisible_characters_are_removed_before_the_text_is_cut() -> None:
    hidden = LONG.replace("doe", "d\u200boe")
    ((answer,),), _ = run(("a", DocumentTask(hidden, EMAIL)))
    assert answer.text.count("[EMAIL_ADDRESS]") == 2_000
    assert "corp" not in answer.text


def test_windows_are_cut_where_the_weight_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The front end asks in a thread. The event loop, which divides the task, must not read a megabyte."""
    task = DocumentTask(LONG, EMAIL, "class_marker")
    assert task.weight
    for name in ("windows", "visible", "estimated_pieces"):
        monkeypatch.setattr(sanitize_tasks, name, lambda *_: pytest.fail("it read the text"))
    pieces = task.pieces(512)
    last = pieces.join([None] * len(pieces.tasks))
    assert last.weight < sum(piece.weight for piece in pieces.tasks)
    assert pickle.loads(pickle.dumps(task)) == task
    assert len(pickle.dumps(task)) < 2 * len(LONG)


def test_long_work_on_text_alone_is_suspended_for_others() -> None:
    """Not where a model runs, and no draw with a price is interrupted."""
    for fill, text, read, suspended, drawn in [
        ("surrogate", LONG, True, True, True), ("class_marker", LONG, True, True, True),
        (METRIC_DP, LONG, True, True, False), (DP, LONG, True, False, False), (TOP_1, LONG, True, False, False),
        ("surrogate", LONG, False, False, False), ("surrogate", "short", True, False, False),
    ]:  # fmt: skip
        epsilon = 10**9 if fill in PRICED_FILLS else None
        task = DocumentTask(text, EMAIL, fill, epsilon, finds=() if read else None)
        assert (task.interruptible, task.interruptible_draw) == (suspended, drawn)
