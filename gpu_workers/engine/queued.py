"""What engines have in common: a queue for each role, which admits groups and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import WorkerCold
from gpu_workers.engine.protocol import NOT_SERVED, Role, Task
from gpu_workers.engine.task_queue import TaskQueue


class QueuedEngine:
    """The part of `Engine` that the queues of its roles do."""

    def __init__(self, queues: Mapping[Role, TaskQueue]) -> None:
        self._queues = queues

    @property
    def roles(self) -> Sequence[Role]:
        """See `Engine.roles`."""
        return tuple(self._queues)

    async def run(
        self,
        role: Role,
        tasks: Sequence[Task],
        *,
        tenant: str,
        timeout_s: float,
        client_disconnected: asyncio.Event,
        isolate_failures: bool = False,
    ) -> list[Any]:
        """See `Engine.run`."""
        return await self._queue(role).run(
            tasks,
            tenant=tenant,
            timeout_s=timeout_s,
            client_disconnected=client_disconnected,
            isolate_failures=isolate_failures,
        )

    async def wait_for_capacity(self, role: Role, tasks: Sequence[Task], *, tenant: str, timeout_s: float) -> None:
        """See `Engine.wait_for_capacity`."""
        await self._queue(role).wait_for_capacity(tasks, tenant=tenant, timeout_s=timeout_s)

    def _queue(self, role: Role) -> TaskQueue:
        if role not in self._queues:
            raise WorkerCold(NOT_SERVED)
        return self._queues[role]
