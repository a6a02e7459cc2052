"""How an attempt at a job runs: as a process of this machine (`ChildProcess`), or by other means.

Guarantee of every `JobProcess`: it changes nothing of the job any more once `stop` has returned.
"""

from collections.abc import Callable
from typing import Any, Protocol

from core.state.jobs import JobRecord
from gpu_workers.jobs.protocol import JobOrder


class JobProcess(Protocol):
    """One attempt that runs. It sends the messages of `gpu_workers.jobs.protocol`."""

    def send(self, message: Any) -> None:
        """Send it an answer: `Held` or `Charged`."""

    def kill(self) -> None:
        """End it."""

    async def stop(self) -> None:
        """Wait until it has ended."""


class StartJob(Protocol):
    """Starts one attempt. `on_message` and `on_death` are called on the event loop."""

    def __call__(
        self, order: JobOrder, *, job: JobRecord, on_message: Callable[[Any], None], on_death: Callable[[], None]
    ) -> JobProcess: ...
