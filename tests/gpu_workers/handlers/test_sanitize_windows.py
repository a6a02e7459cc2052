"""Long documents: their windows as tasks of the engine, and the same answer as from one task."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from inline_engine import InlineEngine

from core.errors import RecogniserFailed
from core.text import mask_entity
from core.text.policy import DP, METRIC_DP, PRICED_FILLS, TOP_1, MaskPolicy, Sanitised
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.facts import WorkerFacts
from gpu_workers.handlers import sanitize_tasks
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.sanitize_tasks import DocumentTask, WindowTask

SECRET = "jo.doe@corp.internal"
EMAIL = MaskPolicy(entities=("EMAIL_ADDRESS",))
LONG = f"nothing happened {SECRET} then " * 2_000
SHORT = DocumentTask("Write to jo@example.org", EMAIL)


class Recording:
    """The handler of the sanitise role. Keeps the payloads of each batch. Text with `poison` fails recognition."""

    def __init__(self) -> None:
        self._handler = Sanitiser()
        self.batches: list[list[Any]] = []

    def warm_up(self) -> WorkerFacts:
        return self._handler.warm_up()

    def prepare(self, tasks: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        self.batches.append(list(tasks))
        return self._handler.prepare(tasks)


def run(*groups: tuple[str, DocumentTask]) -> tuple[list[Any], list[list[Any]]]:
    """Submit each task for its tenant, in order. Return the results, errors included, and the batches."""
    handler = Recording()

    async def main() -> list[Any]:
        engine = InlineEngine({Role.SANITIZE: lambda: handler})
        await engine.start()
        try:
            return await asyncio.gather(
                *(
                    engine.run(
                        Role.SANITIZE,
                        [Task(task, task.weight)],
                        tenant=tenant,
                        timeout_s=600,
                        client_disconnected=asyncio.Event(),
                    )
                    for tenant, task in groups
                ),
                return_exceptions=True,
            )
        finally:
            await engine.stop()

    return asyncio.run(main()), handler.batches


def test_a_document_in_pieces_is_masked_as_in_one_task() -> None:
    ((answer,),), batches = run(("a", DocumentTask(LONG, EMAIL)))
    (whole,) = Sanitiser().run([DocumentTask(LONG, EMAIL)])

    assert sum(isinstance(task, WindowTask) for batch in batches for task in batch) > 3
    assert isinstance(answer, Sanitised)
    assert answer == whole
    assert SECRET not in answer.text
    assert answer.text.count("[EMAIL_ADDRESS]") == 2_000


def test_a_short_document_of_another_tenant_runs_between_windows() -> None:
    (_, (short,)), batches = run(("a", DocumentTask(LONG, EMAIL)), ("b", SHORT))

    assert isinstance(short, Sanitised)
    place = next(number for number, batch in enumerate(batches) if SHORT in batch)
    assert any(isinstance(task, WindowTask) for batch in batches[place + 1 :] for task in batch)


def test_a_window_that_fails_fails_its_document_alone_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(text: str) -> Any:
        if "poison" in text:
            raise ValueError(text)
        yield from ()

    table = {**mask_entity.recognisers(), "URL": (mask_entity.Recogniser("URL", scan),)}
    monkeypatch.setattr("gpu_workers.handlers.sanitiser.CANARY_VALUES", {})
    monkeypatch.setattr(mask_entity, "recognisers", lambda: table)
    policy = MaskPolicy(entities=("URL",))
    (failed, (short,)), _ = run(("a", DocumentTask(LONG + "poison", policy)), ("b", SHORT))

    assert isinstance(failed, RecogniserFailed)
    assert SECRET.encode() not in pickle.dumps(failed)
    assert isinstance(short, Sanitised)


@pytest.mark.parametrize(
    "task",
    [
        DocumentTask("word " * 800, EMAIL),
        DocumentTask(LONG, MaskPolicy(techniques=("allow_list",))),
    ],
)
def test_a_document_of_one_window_or_without_recognisers_is_not_cut(task: DocumentTask) -> None:
    assert task.pieces(512) is None


def test_no_windows_are_read_where_every_word_is_drawn() -> None:
    task = DocumentTask(LONG, MaskPolicy(techniques=("all", "entity")), METRIC_DP, 10**9)
    assert [piece.payload for piece in task.pieces(512).tasks] == [replace(task, places_max=512)]


@pytest.mark.parametrize("fill", [METRIC_DP, TOP_1, DP])
def test_the_task_that_follows_has_the_whole_text_and_the_fill(fill: str) -> None:
    task = DocumentTask(LONG, EMAIL, fill, None if fill == TOP_1 else 10**9)
    pieces = task.pieces(512)
    assert pieces is not None
    finds = Sanitiser().run([piece.payload for piece in pieces.tasks])
    rest = pieces.join(finds)

    assert isinstance(rest, Task)
    assert (rest.payload.text, rest.payload.fill, rest.payload.epsilon_nano) == (LONG, fill, task.epsilon_nano)
    again = rest.payload.pieces(512)
    (first,) = again.tasks
    assert first.payload == replace(rest.payload, places_max=512 if fill == METRIC_DP else 10)
    assert first.payload.pieces(512) is None
    assert rest.weight < task.weight
    assert SECRET not in repr(rest) + repr(pieces.tasks)


def test_finds_of_another_document_are_not_used() -> None:
    pieces = DocumentTask(LONG, EMAIL).pieces(512)
    assert pieces is not None
    rest = pieces.join(Sanitiser().run([piece.payload for piece in pieces.tasks])[1:])
    assert isinstance(rest, Task)
    (answer,) = Sanitiser().run([rest.payload])
    assert isinstance(answer, RecogniserFailed)


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
    assert pieces is not None
    last = pieces.join([None] * len(pieces.tasks))
    assert isinstance(last, Task)
    assert last.weight < sum(piece.weight for piece in pieces.tasks)
    assert pickle.loads(pickle.dumps(task)) == task
    assert len(pickle.dumps(task)) < 2 * len(LONG)


@pytest.mark.parametrize(
    ("fill", "text", "read", "suspended", "drawn"),
    [
        ("surrogate", LONG, True, True, True),
        ("class_marker", LONG, True, True, True),
        (METRIC_DP, LONG, True, True, False),
        (DP, LONG, True, False, False),
        (TOP_1, LONG, True, False, False),
        ("surrogate", LONG, False, False, False),
        ("surrogate", "short", True, False, False),
    ],
)
def test_long_work_on_text_alone_is_suspended_for_others(
    fill: str, text: str, read: bool, suspended: bool, drawn: bool
) -> None:
    """Not where a model runs, and no draw with a price is interrupted."""
    epsilon = 10**9 if fill in PRICED_FILLS else None
    task = DocumentTask(text, EMAIL, fill, epsilon, finds=() if read else None)
    assert (task.interruptible, task.interruptible_draw) == (suspended, drawn)
