"""Progress bars of jobs and of the command, by `rich` where it is installed, else none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from privacy_gateway_client.answers import Job

# Takes each state of a job. A method `close`, if there is one, is called at the end.
Progress: TypeAlias = Callable[[Job], None]


def bar() -> Progress:
    """A bar on standard error."""
    draw, close = meter(100)

    def show(state: Job) -> None:
        draw(round(100 * state.progress), state.stage or state.status)

    show.close = close  # type: ignore[attr-defined]
    return show


def meter(total: int) -> tuple[Callable[[int, str], None], Callable[[], None]]:
    """How a bar of `total` steps is drawn and closed; silent without `rich`."""
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return silent, silent
    bars = Bars(console=Console(stderr=True), transient=True)
    task = bars.add_task("", total=total)
    bars.start()
    return lambda done, text: bars.update(task, completed=done, description=text), bars.stop


def silent(*_: Any) -> None:
    pass
