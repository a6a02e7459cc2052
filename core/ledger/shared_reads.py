"""Reads of Redis that concurrent requests share: those of one tenant look up the same key and the same domain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from core.ledger.client import LedgerClient

Reads = tuple[tuple[str, ...], ...]


class SharedReads:
    """Guarantee: each caller gets what was read after its call, and the error of that read. Cancelling a caller
    does not affect the others."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client
        self._unsent: dict[Reads, asyncio.Task[list[Any]]] = {}

    async def many(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        """See `LedgerClient.call_many`. The replies must not be changed."""
        wanted = tuple(commands)
        reading = self._unsent.get(wanted)
        if reading is None:
            reading = self._unsent[wanted] = asyncio.create_task(self._read(wanted))
            reading.add_done_callback(_retrieve)
        return await asyncio.shield(reading)

    async def _read(self, commands: Reads) -> list[Any]:
        del self._unsent[commands]  # who comes later needs a later answer
        return await self._client.call_many(commands)


def _retrieve(reading: asyncio.Task[list[Any]]) -> None:
    """Let asyncio not report the error of a read whose callers have all left."""
    if not reading.cancelled():
        reading.exception()
