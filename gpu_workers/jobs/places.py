"""Where the process of a job runs: on this machine, or on a job runner elsewhere (`gpu_workers.job_runners`).

Guarantee: whoever holds a place may start the process of one attempt there at once, and a place runs one process at a
time. The gateway keeps everything else of a job: its lease, its charge, its files in the store and its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_workers.child_process import ChildProcess
from gpu_workers.jobs.messages import JobOrder

MODULE = "gpu_workers.jobs.process"
PRELOAD = ("torch",)  # of a fork server: every kind of job uses it


@dataclass(frozen=True)
class Displaced:
    """The place was given up in order, or before the process was started. The next attempt continues from the
    checkpoint, and this one does not count."""


@dataclass(frozen=True)
class FilesChanged:
    """The process has changed files on another machine. `apply` makes the job's folder that of their moment. It reads
    and writes the disk: call it in a thread, before anything is done with the message that follows, and while nobody
    reads the folder. Raises OSError."""

    apply: Callable[[], None]


class Process(Protocol):
    """A process that runs a job."""

    def send(self, message: Any) -> None:
        """Send a message, `Charged`. One for a process that has ended is dropped."""

    def kill(self) -> None:
        """End the process at once."""

    async def stop(self) -> None:
        """Return when the process has ended on this machine, or the place elsewhere is given up."""


class Place(Protocol):
    """`stays`: whether another process may be started after one has died."""

    @property
    def stays(self) -> bool: ...

    def start(
        self, order: JobOrder, *, seconds_max: float, on_message: Callable[[Any], None], on_death: Callable[[], None]
    ) -> Process:
        """Start a process. `on_message` gets what it sends, `FilesChanged` and `Displaced`; no call follows `on_death`.

        `seconds_max`: what a place elsewhere limits the process to. The caller limits it, too.
        """
        ...

    def release(self) -> None:
        """Give the place up. Safe to repeat, and after the process has ended."""


class Places(Protocol):
    """`stage`: what `/readyz` shows; None where places need no showing."""

    @property
    def stage(self) -> str | None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def take(self) -> Place:
        """Wait for a place. If this is cancelled, none is taken."""
        ...


class LocalPlace:
    """A place on this machine."""

    stays = True

    def start(
        self,
        order: JobOrder,
        *,
        seconds_max: float,  # noqa: ARG002 - the caller ends the process
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
    ) -> ChildProcess:
        return ChildProcess(MODULE, first=order, on_message=on_message, on_death=on_death, preload=PRELOAD)

    def release(self) -> None:
        """It is free when the caller's process has ended."""


class LocalPlaces:
    """As many places as the caller takes at once."""

    stage = None

    async def start(self) -> None:
        """Nothing is to be started."""

    async def stop(self) -> None:
        """Nothing was started."""

    async def take(self) -> LocalPlace:
        return LocalPlace()
