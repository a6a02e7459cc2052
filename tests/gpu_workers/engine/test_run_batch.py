"""How a worker runs a batch: what fails alone, and that nothing is drawn twice."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from core.amounts import NANO
from core.errors import GatewayError, InvalidInput, TaskFailed
from core.mechanisms.sentences.release import SentenceMechanism
from core.mechanisms.vectors import pure
from core.mechanisms.vectors.spec import vector_spec
from core.text.policy import MaskPolicy, Sanitised, SanitizeTask
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.handler import run_batch
from gpu_workers.facts import WorkerFacts
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.handlers.tasks import EmbedTask, VectorTask

SECRET = "quizzlethorpe"


class Recorder:
    """A handler of words: one that starts with `unread` cannot be prepared, `undrawn` fails the draw of its batch."""

    def __init__(self) -> None:
        self.prepared: list[list[str]] = []
        self.drawn: list[str] = []

    def warm_up(self) -> WorkerFacts:
        raise NotImplementedError

    def prepare(self, tasks: Sequence[str]) -> Callable[[], list[str]]:
        self.prepared.append(list(tasks))
        if any(task.startswith("unread") for task in tasks):
            raise ValueError(SECRET)

        def draw() -> list[str]:
            self.drawn += tasks
            if "undrawn" in tasks:
                raise InvalidInput(SECRET)
            return [task.upper() for task in tasks if task != "lost"]

        return draw


def test_what_cannot_be_prepared_together_is_prepared_alone() -> None:
    handler = Recorder()
    one, failed, two = run_batch(handler, ["one", "unread", "two"])
    assert (one, two) == ("ONE", "TWO")
    assert isinstance(failed, TaskFailed)
    assert failed.reason == "ValueError"
    assert SECRET not in repr(failed) + repr(vars(failed))
    assert handler.prepared == [["one", "unread", "two"], ["one"], ["unread"], ["two"]]
    assert handler.drawn == ["one", "two"]


def test_a_batch_whose_draw_fails_has_failed() -> None:
    for bad in ["undrawn", "lost"]:
        handler = Recorder()
        failed = run_batch(handler, ["one", bad, "two"])
        assert all(isinstance(each, TaskFailed) for each in failed)
        assert len(failed) == 3
        assert SECRET not in repr(failed)
        assert handler.drawn == ["one", bad, "two"], "once each"


def released(rows: int, dimension: int) -> BlockArray:
    return BlockArray(Block(4 * rows * dimension), "float32", (rows, dimension))


def embed_tasks() -> list[EmbedTask | VectorTask]:
    spec = vector_spec(mechanism="privunit", dimension=8, epsilon=1)
    vectors = released(3, 8)
    vectors.write_rows(np.eye(3, 8, dtype=np.float32), 0)
    texts = vector_spec(mechanism="laplace", dimension=384, epsilon=1)
    return [
        EmbedTask(("One sentence.", "Another one."), None, "sentence_codes", "general", NANO),
        VectorTask(spec, "a", released(3, 8), vectors=vectors),
        VectorTask(texts, "a", released(2, 384), texts=("one text", "another")),
        EmbedTask(("A third one.",), None, "clipped_cosine", "general", NANO),
    ]


def sanitize_tasks() -> list[SanitizeTask]:
    all_words = MaskPolicy(techniques=("all",))
    return [
        SanitizeTask("Write to jo@example.org now.", MaskPolicy(), "surrogate"),
        SanitizeTask("one two three", all_words, "metric_dp", NANO),
        SanitizeTask("one two three", all_words, "metric_dp", NANO, "laplace"),
        SanitizeTask("one two three", all_words, "dp", NANO),
        SanitizeTask("one two three", all_words, "dp", NANO, scope="document"),
        SanitizeTask("Write to jo@example.org now.", MaskPolicy(), "topk", k=3),
    ]


def test_no_handler_draws_before_its_draw(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    """All randomness of a mechanism comes from the operating system."""
    sanitiser = Sanitiser(infill="bundled", fill_slots_max=50)
    for handler, tasks in ((embedder, embed_tasks()), (sanitiser, sanitize_tasks())):
        with monkeypatch.context() as patched:
            patched.setattr("os.urandom", lambda count: pytest.fail("it drew"))
            draw = handler.prepare(tasks)
        assert not [result for result in draw() if isinstance(result, GatewayError)]


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, failing: Callable[..., bool]) -> list[Any]:
    """The calls of a function that draws; those that `failing` names raise after they have drawn."""
    original, calls = getattr(owner, name), []

    def counting(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        drawn = original(*arguments, **more)
        if failing(*arguments):
            raise RuntimeError(SECRET)
        return drawn

    monkeypatch.setattr(owner, name, counting)
    return calls


@pytest.mark.parametrize(
    ("owner", "draw", "failing", "failed_at", "draws"),
    [
        (SentenceMechanism, "release", lambda made, *_: made.name == "sentence_codes", 0, 2),
        (pure, "round_to_grid", lambda *_: True, 1, 1),
    ],
    ids=["sentences", "vectors"],
)
def test_documents_that_fail_in_their_draw_fail_alone_and_for_good(
    embedder: Embedder,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    draw: str,
    failing: Callable[..., bool],
    failed_at: int,
    draws: int,
) -> None:
    drawn = counted(monkeypatch, owner, draw, failing=failing)

    results = run_batch(embedder, embed_tasks())

    failed = [isinstance(result, TaskFailed) for result in results]
    assert failed == [place == failed_at for place in range(4)]
    assert SECRET not in repr(vars(results[failed_at]))
    assert len(drawn) == draws, "one draw each"


def test_words_that_fail_in_their_draw_fail_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    sanitiser = Sanitiser()
    exponential, _ = sanitiser._words.values()
    drawn = counted(monkeypatch, exponential, "release", failing=lambda *_: True)
    plain, failed, noisy = run_batch(sanitiser, sanitize_tasks()[:3])
    assert isinstance(plain, Sanitised)
    assert isinstance(failed, TaskFailed)
    assert isinstance(noisy, Sanitised)
    assert len(drawn) == 1
