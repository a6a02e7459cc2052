"""The interface of a handler, which a worker runs for a role, and the function that runs a batch with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.errors import GatewayError, Started, TaskFailed
from core.guarded import guarded
from gpu_workers.facts import WorkerFacts

Draw = Callable[[], Sequence[Any]]


class UnfitDevice(RuntimeError):
    """This device does not compute what a guarantee relies on, so the worker must not serve.

    The message is public: `/readyz` and `/models` show it.
    """


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


def run_batch(handler: Handler, tasks: Sequence[Any]) -> list[Any]:
    """Return a result, or an error that carries no text, for each task.

    Guarantee: no task is drawn twice. If a failure depends on the drawn value, a second draw would cost a second
    epsilon: Pr[released] is then Pr[first draw] + Pr[failure] Pr[second draw], and each factor changes by e^epsilon.
    Tasks that cannot be prepared together are prepared one by one, so that a document that fails does not fail the
    others. A task that fails in a draw is not retried.
    """
    draw = guarded(handler.prepare, tasks)
    if isinstance(draw, GatewayError):
        return [draw] if len(tasks) == 1 else [result for task in tasks for result in run_batch(handler, [task])]
    results = guarded(draw)
    if isinstance(results, GatewayError):  # one task caused it, but the error does not say which
        return [results if isinstance(results, Started) else TaskFailed(reason="draw")] * len(tasks)
    return list(results) if len(results) == len(tasks) else [TaskFailed(reason="result-count")] * len(tasks)
