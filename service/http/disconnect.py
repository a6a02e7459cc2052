"""Notices that a client closes its connection while its request is in work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request


@asynccontextmanager
async def disconnect_of(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client closes the connection. The body has been read by now."""
    client_disconnected = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        client_disconnected.set()

    watcher = asyncio.create_task(watch())
    try:
        yield client_disconnected
    finally:
        watcher.cancel()
