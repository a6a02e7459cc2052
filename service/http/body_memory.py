"""Memory of JSON bodies: counted by tenant as the bytes arrive, and limited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from starlette.requests import ClientDisconnect

from core.errors import ClientGone
from gpu_workers.engine.shares import MemoryShares


class BodyMemory:
    """The bytes of all bodies that this process holds."""

    def __init__(self, *, bytes_max: int, owner_bytes_max: int) -> None:
        self._shares = MemoryShares(
            bytes_max=bytes_max, owner_bytes_max=owner_bytes_max, limit="bodies_memory_per_tenant_bytes_max"
        )

    @contextmanager
    def of(self, owner: str) -> Iterator[CountedBody]:
        """The body of one request of `owner`. Its bytes are free again after the block."""
        body = CountedBody(self._shares, owner)
        try:
            yield body
        finally:
            self._shares.give_back(owner, body.size)


class CountedBody:
    """Reads a body and counts its bytes."""

    def __init__(self, shares: MemoryShares, owner: str) -> None:
        self._shares = shares
        self._owner = owner
        self.size = 0

    async def read(self, request: Request) -> bytes:
        """The whole body. Raises TenantLimitReached, QueueFull, ClientGone."""
        chunks: list[bytes] = []
        try:
            async for chunk in request.stream():
                self._shares.take(self._owner, len(chunk))
                self.size += len(chunk)
                chunks.append(chunk)
        except ClientDisconnect:
            raise ClientGone from None
        return b"".join(chunks)
