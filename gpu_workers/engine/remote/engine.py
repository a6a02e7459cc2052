"""The `remote` engine: worker servers on other machines, or on this one, over gRPC.

The gateway is a plain client. It sends and receives msgpack and raw arrays, and never unpickles what a worker sends.
A task has started once the last message of its batch was sent to a worker server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from gpu_workers.engine.arrays import ARRAY_BYTES_MAX, ArrayPool
from gpu_workers.engine.portable import MemoryBlock
from gpu_workers.engine.protocol import Role, RoleStatus, Task
from gpu_workers.engine.queued import QueuedEngine
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.heap import keep_freed_memory
from gpu_workers.engine.remote.object_sender import Needs
from gpu_workers.engine.remote.pool import RemotePoolOptions, pools
from gpu_workers.engine.task_queue import TaskQueue

log = logging.getLogger("privacy_gateway.engine")

RETRY_S = 1.0
Addresses = Mapping[str, Sequence[str]]  # by role; others than the engine's are not for it


class Directory(Protocol):
    """Where the worker servers are."""

    async def changed(self) -> Addresses:
        """Return the addresses of each role: at once when called for the first time, then after a change."""
        ...

    async def close(self) -> None: ...


class StaticDirectory:
    """Addresses that do not change."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._answered = False

    async def changed(self) -> Addresses:
        if self._answered:
            await asyncio.Event().wait()
        self._answered = True
        return self._addresses

    async def close(self) -> None:
        """Nothing is open."""


class RemoteEngine(QueuedEngine):
    """`Engine` that uses worker servers. Its arrays are in this process's memory."""

    def __init__(
        self,
        roles: Mapping[Role, RemotePoolOptions],
        directory: Directory,
        codec: Codec,
        access: Access,
        *,
        needs: Needs | None = None,
        array_bytes_max: int = ARRAY_BYTES_MAX,
        array_owner_bytes_max: int | None = None,
    ) -> None:
        """`needs`: finds the files that tasks need; by default none does."""
        self._pools = pools(roles, codec, access, needs or Needs())
        self._directory = directory
        self._following: asyncio.Task[None] | None = None
        self._changed: asyncio.Task[Addresses] | None = None
        self.arrays = ArrayPool(MemoryBlock, bytes_max=array_bytes_max, owner_bytes_max=array_owner_bytes_max)

    @property
    def roles(self) -> Sequence[Role]:
        return tuple(self._pools)

    async def start(self) -> None:
        """Begin to connect and return at once."""
        keep_freed_memory()
        for pool in self._pools.values():
            pool.start()
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Close the connections. The workers go on: other gateways may use them."""
        for task in (self._following, self._changed):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))
        await self._directory.close()

    async def _follow(self) -> None:
        """Use the addresses of the directory, and try again those that cannot be used. They stop no other one."""
        addresses: Addresses = {}
        reported: dict[tuple[str, str], str] = {}
        retry_s: float | None = None
        while True:
            try:
                if self._changed is None:  # one at a time: a slow answer is waited for through every retry
                    self._changed = asyncio.create_task(self._directory.changed())
                await asyncio.wait({self._changed}, timeout=retry_s)
                if self._changed.done():
                    changed, self._changed = self._changed, None
                    addresses = changed.result()
                unusable: dict[tuple[str, str], str] = {
                    (role, address): kind
                    for role, pool in self._pools.items()
                    for address, kind in pool.use(addresses.get(role, ())).items()
                }
                for (role, address), kind in unusable.items() - reported.items():
                    log.error("engine-address", extra={"fields": {"role": role, "address": address, "kind": kind}})
                reported, retry_s = unusable, RETRY_S if unusable else None
            except Exception as error:
                log.error("engine-directory", extra={"fields": {"kind": type(error).__name__}})
                retry_s = RETRY_S
                await asyncio.sleep(RETRY_S)

    def queue(self, role: Role) -> TaskQueue:
        return self._pools[role].queue

    async def prepare(self, role: Role, tasks: Sequence[Task], *, timeout_s: float) -> None:
        """See `Engine.prepare`."""
        await self._pools[role].prepare((task.payload for task in tasks), timeout_s=timeout_s)

    def status(self, role: Role) -> RoleStatus:
        return self._pools[role].status()
