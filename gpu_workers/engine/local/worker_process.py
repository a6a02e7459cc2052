"""The gateway's side of a worker process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from gpu_workers.child_process import ChildProcess
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.messages import Batch
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.shared_memory import send_blocks

_DELAY_S_MAX = 10.0
_DOUBLINGS_MAX = 10  # of the delay; more exceed the largest float after some hours


class WorkerProcess(ChildProcess):
    """Accepts batches and answers each one with `Done`."""

    def __init__(
        self,
        role: Role,
        factory: HandlerFactory,
        *,
        on_message: Callable[[WorkerProcess, Any], None],
        on_death: Callable[[WorkerProcess], None],
        preload: Sequence[str] = (),
    ) -> None:
        super().__init__(
            "gpu_workers.engine.local.worker",
            role.value,
            first=factory,
            on_message=lambda message: on_message(self, message),
            on_death=lambda: on_death(self),
            preload=preload,
        )

    def send(self, message: Batch) -> None:
        super().send(message)

    def _transmit(self, connection: Connection, message: Any) -> None:
        super()._transmit(connection, message)
        if isinstance(message, Batch):
            send_blocks(connection, message.blocks, self.pid or 0)


async def start_again(launch: Callable[[], None], deaths: int) -> None:
    """Launch a worker that has died `deaths` times in a row, after a delay that grows with them. Repeats a launch that
    fails because there is no file descriptor or no thread left."""
    while True:
        if deaths > 1:
            await asyncio.sleep(min(_DELAY_S_MAX, 0.25 * 2 ** min(deaths, _DOUBLINGS_MAX)))
        try:
            return launch()
        except (OSError, RuntimeError):
            deaths += 1
