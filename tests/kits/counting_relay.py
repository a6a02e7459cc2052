"""Passes the bytes of TCP connections on, and counts those that the client sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self.address = ""
        self.sent = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection(self._host, int(self._port))
            await asyncio.gather(self._pass_on(reader, back, count=True), self._pass_on(there, writer, count=False))
        writer.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, count: bool) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                self.sent += len(data) if count else 0
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    """A relay to `target`, HOST:PORT, that listens at its `address`."""
    own = Relay(target)
    server = await asyncio.start_server(own.connected, "127.0.0.1", 0)
    own.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield own
    finally:
        server.close()
