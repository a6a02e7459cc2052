"""What engines have in common: a queue for each role, which admits groups and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gpu_workers.engine.protocol import Role, Task
from gpu_workers.engine.task_queue import TaskQueue


class QueuedEngine:
    """The part of `Engine` that the queues of its roles do."""

    def queue(self, role: Role) -> TaskQueue:
        """The queue of a role."""
        raise NotImplementedError

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
        return await self.queue(role).run(
            tasks,
            tenant=tenant,
            timeout_s=timeout_s,
            client_disconnected=client_disconnected,
            isolate_failures=isolate_failures,
        )

    async def wait_for_capacity(self, role: Role, tasks: Sequence[Task], *, tenant: str, timeout_s: float) -> None:
        """See `Engine.wait_for_capacity`."""
        await self.queue(role).wait_for_capacity(tasks, tenant=tenant, timeout_s=timeout_s)

    async def prepare(self, role: Role, tasks: Sequence[Task], *, timeout_s: float) -> None:
        """See `Engine.prepare`. The workers read the files of this machine."""
