"""What a worker of any engine runs: a handler of a role, and the one way to run a batch by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.errors import GatewayError, Started, TaskFailed
from core.guarded import guarded
from gpu_workers.facts import WorkerFacts

Draw = Callable[[], Sequence[Any]]


class UnfitDevice(RuntimeError):
    """This device does not compute what a guarantee relies on: the worker must not serve.

    The message is public: `/readyz` and `/models` show it.
    """


class Handler(Protocol):
    """What a role does. Loading happens in `warm_up`, which ends with a canary that must come out right.

    A batch is run in two steps. `prepare` reads, encodes and recognises, and draws nothing: what fails in it may be
    prepared again. It returns the draw, which is called once and gives a result or a `GatewayError` for each task, in
    order. **A task has drawn once its draw has been called**: whatever happens after that, it is never drawn again.
    Work that draws nothing may still be repeated inside a draw, such as a question to a language model.
    """

    def warm_up(self) -> WorkerFacts:
        """Load, check, and return what the worker reports of itself."""
        ...

    def prepare(self, tasks: Sequence[Any]) -> Draw: ...


# Builds a handler in the worker. It may travel to another process, so it is pickled by the name of what it calls.
HandlerFactory = Callable[[], Handler]


def load_failure(error: Exception) -> str:
    """Why a handler could not be loaded, as `/readyz` shows it without a key: another message may name files."""
    return str(error) if isinstance(error, UnfitDevice) else type(error).__name__


def run_batch(handler: Handler, tasks: Sequence[Any]) -> list[Any]:
    """A result, or an error that carries no text, for each task.

    Guarantee: no task is drawn twice. A second draw after a failure would cost a second epsilon wherever the failure
    depends on what was drawn: Pr[released] is then Pr[first draw] + Pr[failure] Pr[second draw], and each factor moves
    by e^epsilon. Tasks that cannot be prepared together are prepared one by one, so that a document that fails does not
    fail the others; what fails in a draw has failed.
    """
    draw = guarded(handler.prepare, tasks)
    if isinstance(draw, GatewayError):
        return [draw] if len(tasks) == 1 else [result for task in tasks for result in run_batch(handler, [task])]
    results = guarded(draw)
    if isinstance(results, GatewayError):  # it belongs to some task, but does not say which
        return [results if isinstance(results, Started) else TaskFailed(reason="draw")] * len(tasks)
    return list(results) if len(results) == len(tasks) else [TaskFailed(reason="result-count")] * len(tasks)
