"""The `local` engine: worker processes on this machine, with one worker pool for each role.

A task has started once it was written to a worker's socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_workers.engine.arrays import ARRAY_BYTES_MAX, ArrayPool
from gpu_workers.engine.local.shared_memory import SharedBlock
from gpu_workers.engine.local.worker_pool import WorkerPool, WorkerPoolOptions
from gpu_workers.engine.protocol import Role, RoleStatus, Task


class LocalEngine:
    """`Engine` that uses worker processes on this machine. Its arrays are in memory that it shares with a worker."""

    def __init__(
        self,
        pools: Mapping[Role, WorkerPoolOptions],
        *,
        array_bytes_max: int = ARRAY_BYTES_MAX,
        array_owner_bytes_max: int | None = None,
    ) -> None:
        self._pools = {role: WorkerPool(role, options) for role, options in pools.items()}
        self.arrays = ArrayPool(SharedBlock, bytes_max=array_bytes_max, owner_bytes_max=array_owner_bytes_max)

    @property
    def roles(self) -> Sequence[Role]:
        return tuple(self._pools)

    async def start(self) -> None:
        """Start to load the workers and return at once."""
        for pool in self._pools.values():
            pool.start()

    async def stop(self) -> None:
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))

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
        return await self._pools[role].queue.run(
            tasks,
            tenant=tenant,
            timeout_s=timeout_s,
            client_disconnected=client_disconnected,
            isolate_failures=isolate_failures,
        )

    async def wait_for_capacity(self, role: Role, tasks: Sequence[Task], *, tenant: str, timeout_s: float) -> None:
        await self._pools[role].queue.wait_for_capacity(tasks, tenant=tenant, timeout_s=timeout_s)

    def status(self, role: Role) -> RoleStatus:
        return self._pools[role].status()
