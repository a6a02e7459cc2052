"""Progress bars of jobs and of the command, by `rich` where it is installed, else none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from privacy_gateway_client.answers import Job


class Progress(Protocol):
    """Takes each state of a job. A method `close`, if there is one, is called at the end."""

    def __call__(self, state: Job, /) -> None: ...


def no_progress() -> Progress:
    return _nothing


def bar() -> Progress:
    """A bar on standard error."""
    meter = Meter(100)

    def show(state: Job) -> None:
        meter.show(round(100 * state.progress), state.stage or state.status)

    show.close = meter.close  # type: ignore[attr-defined]
    return show


class Meter:
    """A bar of `total` steps; silent without `rich`."""

    def __init__(self, total: int) -> None:
        self._total = total
        made: tuple[Callable[..., None], Callable[..., None]] = _rich(total) or (_nothing, _nothing)
        self._show, self._close = made

    def show(self, done: int, text: str = "") -> None:
        self._show(done, text)

    def close(self) -> None:
        self._close()


def _nothing(*_: Any) -> None:
    pass


def _rich(total: int) -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return None
    bars = Bars(console=Console(stderr=True), transient=True)
    task = bars.add_task("", total=total)
    bars.start()
    return lambda done, text: bars.update(task, completed=done, description=text), bars.stop
