"""Memory of JSON bodies: counted by tenant as the bytes arrive, and limited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from starlette.requests import ClientDisconnect

from core.errors import ClientGone
from gpu_workers.engine.fairness import MemoryShares


class BodyMemory:
    """The bytes of all bodies that this process holds."""

    def __init__(self, *, bytes_max: int, owner_bytes_max: int) -> None:
        self._shares = MemoryShares(
            bytes_max=bytes_max, owner_bytes_max=owner_bytes_max, limit="bodies_memory_per_tenant_bytes_max"
        )

    @contextmanager
    def of(self, owner: str) -> Iterator[CountedBody]:
        """The body of one request of `owner`. Its bytes are free again after the block."""
        body = self.opened(owner)
        try:
            yield body
        finally:
            body.close()

    def opened(self, owner: str) -> CountedBody:
        """The same, until its `close`."""
        return CountedBody(self._shares, owner)


class CountedBody:
    """The bytes of one body that are in memory."""

    def __init__(self, shares: MemoryShares, owner: str) -> None:
        self._shares = shares
        self._owner = owner
        self.size = 0

    def take(self, size: int) -> None:
        """Count `size` bytes more. Raises TenantLimitReached, QueueFull."""
        self._shares.take(self._owner, size)
        self.size += size

    def give_back(self, size: int) -> None:
        self._shares.give_back(self._owner, size)
        self.size -= size

    def close(self) -> None:
        """Count no bytes any more."""
        self.give_back(self.size)

    async def read(self, request: Request) -> bytes:
        """The whole body. Raises TenantLimitReached, QueueFull, ClientGone."""
        chunks: list[bytes] = []
        try:
            async for chunk in request.stream():
                self.take(len(chunk))
                chunks.append(chunk)
        except ClientDisconnect:
            raise ClientGone from None
        return b"".join(chunks)
