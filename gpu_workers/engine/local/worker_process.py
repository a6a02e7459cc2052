"""The gateway's side of a worker process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from gpu_workers.child_process import ChildProcess
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.messages import Batch
from gpu_workers.engine.local.shared_memory import send_blocks
from gpu_workers.engine.protocol import Role


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
