"""The `local` engine: worker processes on this machine, with one worker pool for each role.

A task has started once it was written to a worker's socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gpu_workers.engine.arrays import ARRAY_BYTES_MAX, ArrayPool
from gpu_workers.engine.local.worker_pool import WorkerPool, WorkerPoolOptions
from gpu_workers.engine.protocol import Role, RoleStatus
from gpu_workers.engine.queued import QueuedEngine


class LocalEngine(QueuedEngine):
    """`Engine` that uses worker processes on this machine. Its arrays are in memory that it shares with a worker."""

    def __init__(
        self,
        pools: Mapping[Role, WorkerPoolOptions],
        *,
        array_bytes_max: int = ARRAY_BYTES_MAX,
        array_owner_bytes_max: int | None = None,
    ) -> None:
        self._pools = {role: WorkerPool(role, options) for role, options in pools.items()}
        super().__init__({role: pool.queue for role, pool in self._pools.items()})
        self.arrays = ArrayPool(bytes_max=array_bytes_max, owner_bytes_max=array_owner_bytes_max)

    async def start(self) -> None:
        """Start to load the workers and return at once."""
        for pool in self._pools.values():
            pool.start()

    async def stop(self) -> None:
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))

    def status(self, role: Role) -> RoleStatus:
        return self._pools[role].status()
