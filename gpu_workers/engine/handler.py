"""The interface of a handler, which a worker runs for a role, and the function that runs a batch with it.

A worker process and its gateway exchange the messages below (`Stage` to `BatchDone`), over a socket that only these two
can access.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import GatewayError, Started, TaskFailed, TooCostly
from core.guarded import guarded
from gpu_workers.engine.arrays import Block, blocks_of
from gpu_workers.facts import WorkerFacts

Draw = Callable[[], Sequence[Any]]


class UnfitDevice(RuntimeError):
    """This device does not compute what a guarantee relies on, so the worker must not serve.

    The message is public: `/readyz` and `/models` show it.
    """


class CanaryMissed(RuntimeError):
    """A handler did not find what was planted for it to find, so the worker must not serve."""


class OutOfTime(BaseException):
    """A worker has cut its own work. No handler catches it, so that none goes on with a text that it has not read."""


class TimeLimit(Protocol):
    """Limits the time of what runs inside its contexts, where it raises OutOfTime."""

    def preparing(self, tasks: Sequence[Any]) -> AbstractContextManager[None]: ...

    def drawing(self, tasks: Sequence[Any]) -> AbstractContextManager[None]: ...


class _NoLimit:
    def preparing(self, tasks: Sequence[Any]) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    drawing = preparing


NO_LIMIT = _NoLimit()
_pause: Callable[[], object] = bool  # does nothing where no worker process has set another one


def pause() -> None:
    """Let the worker run batches of others, and return after them.

    A handler calls this between two steps of a preparation that takes long, on the thread that prepares. It prepares
    other tasks meanwhile, so that they must not change what the rest of this preparation uses.
    """
    _pause()


def set_pause(function: Callable[[], object]) -> None:
    """Set what `pause` calls in this process, which has one worker."""
    global _pause
    _pause = function


class Handler(Protocol):
    """The work of a role. `warm_up` loads the models and ends with a canary that must produce the expected output.

    A batch runs in two steps. `prepare` reads, encodes and recognises, and draws no noise. A failed `prepare` may be
    repeated. It returns the draw, which is called once and returns a result or a `GatewayError` for each task, in
    order. **A task has drawn once its draw has been called**: it is never drawn again, whatever happens later. A draw
    may repeat work that uses no randomness, such as a request to a language model.
    """

    def warm_up(self) -> WorkerFacts:
        """Load the models, check them, and return what the worker reports."""
        ...

    def prepare(self, tasks: Sequence[Any]) -> Draw: ...


# Builds a handler in the worker. The factory may be sent to another process, so it must be picklable.
HandlerFactory = Callable[[], Handler]


def load_failure(error: Exception) -> str:
    """Return why a handler could not be loaded. `/readyz` shows it without a key, and other messages may name files."""
    return str(error) if isinstance(error, UnfitDevice) else type(error).__name__


def run_batch(handler: Handler, tasks: Sequence[Any], limit: TimeLimit = NO_LIMIT) -> list[Any]:
    """Return a result, or an error that carries no text, for each task.

    Guarantee: no task is drawn twice. If a failure depends on the drawn value, a second draw would cost a second
    epsilon: Pr[released] is then Pr[first draw] + Pr[failure] Pr[second draw], and each factor changes by e^epsilon.
    Tasks that cannot be prepared together, or not in time, are prepared one by one, so that a document that fails does
    not fail the others. A task that fails in a draw is not retried.
    """
    draw = _in_time(limit.preparing, handler.prepare, tasks)
    if isinstance(draw, GatewayError):
        if len(tasks) == 1:
            return [draw]
        return [result for task in tasks for result in run_batch(handler, [task], limit)]
    results = _in_time(limit.drawing, lambda _: draw(), tasks)
    if isinstance(results, GatewayError):  # one task caused it, but the error does not say which
        return [results if isinstance(results, Started) else TaskFailed(reason="draw")] * len(tasks)
    return list(results) if len(results) == len(tasks) else [TaskFailed(reason="result-count")] * len(tasks)


def _in_time(
    limit: Callable[[Sequence[Any]], AbstractContextManager[None]],
    work: Callable[[Sequence[Any]], Any],
    tasks: Sequence[Any],
) -> Any:
    """Return the result of `work`, or its error as `guarded` returns it, or that of a task that was cut."""
    try:
        with limit(tasks):
            return guarded(work, tasks)
    except OutOfTime:
        return TooCostly()


@dataclass(frozen=True)
class Stage:
    """A step of loading, which is shown to waiting callers."""

    name: str


@dataclass(frozen=True)
class LoadFailed:
    """The worker exits before it is ready. `reason` is public."""

    reason: str


@dataclass(frozen=True)
class Ready:
    facts: WorkerFacts


@dataclass(frozen=True)
class TaskBatch:
    """`says_begun`: the worker sends `Begun` once it has read the batch."""

    batch_id: int
    payloads: list[Any]
    says_begun: bool = False

    @property
    def blocks(self) -> list[Block]:
        """The shared memory of the payloads, which is sent after the message."""
        return blocks_of(self.payloads)


@dataclass(frozen=True)
class Begun:
    """The worker is about to run the batch. It has drawn nothing of it before it has written this message."""

    batch_id: int


@dataclass(frozen=True)
class BatchDone:
    """`results` holds a result or a `GatewayError` for each payload."""

    batch_id: int
    results: list[Any]
    seconds: float
