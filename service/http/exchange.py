"""One request and its answer: what the request occupies until the answer has been sent, and how a large one is sent.

uvicorn takes a message of any size into its buffer and returns. It waits for the client before the next message, while
the buffer is above its limit of 64 KiB. A large body is therefore sent in pieces: the exchange then ends when all but
the last few pieces have left the process, and the body is never copied as a whole.

`disconnect_of` notices that a client closes its connection while its request is in work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import ClientGone

PIECE_BYTES = 64 * 1024


class Exchange:
    """The request of `scope`, as `request.state.exchange`.

    held: closed once the answer has been sent, or the exchange has failed.
    place: the same; with `is_endless`, closed when the answer starts.
    is_receiving: the request waits for its client, or for a place.
    is_answering: the answer has started.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.held = ExitStack()
        self.place = ExitStack()
        self.is_endless = False
        self.is_receiving = False
        self.is_answering = False
        self._scope = scope
        self._receive_message = receive
        self._send_message = send
        self._is_received = False
        self._early: Message | None = None  # received while the request waited
        scope.setdefault("state", {})["exchange"] = self

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        finally:
            self.place.close()
            self.held.close()

    async def waited(self, turn: Coroutine[Any, Any, None], *, reads: bool) -> None:
        """Wait for `turn` before the body is read. Raises ClientGone if the client leaves before.

        reads: receive the start of the body. Without it a client's leave is not noticed.
        """
        self.is_receiving = True
        waiting = asyncio.create_task(turn)
        leaving = asyncio.create_task(self._client_left()) if reads else None
        try:
            await asyncio.wait({waiting, leaving} if leaving else {waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise ClientGone
            await waiting
        finally:
            self.is_receiving = False
            waiting.cancel()
            if leaving is not None:
                leaving.cancel()

    async def _client_left(self) -> None:
        """Wait until the client leaves. The first message of the body is kept for the application."""
        self._early = await self._receive_message()
        message = self._early
        while message["type"] != "http.disconnect":
            if message.get("more_body"):
                await asyncio.Event().wait()  # only the application reads on
            message = await self._receive_message()

    async def _receive(self) -> Message:
        self.is_receiving = not self._is_received
        if self._early is not None:
            message, self._early = self._early, None
        else:
            message = await self._receive_message()
        self.is_receiving = False
        if message["type"] != "http.request" or not message.get("more_body"):
            self._is_received = True
        return message

    async def _send(self, message: Message) -> None:
        self.is_answering = True
        if self.is_endless:
            self.place.close()
        body = message.get("body", b"")
        if len(body) <= PIECE_BYTES:
            await self._send_message(message)
            return
        view = memoryview(body)
        last = (len(view) - 1) // PIECE_BYTES * PIECE_BYTES
        for start in range(0, last, PIECE_BYTES):
            await self._send_message({**message, "body": view[start : start + PIECE_BYTES], "more_body": True})
        await self._send_message({**message, "body": view[last:]})


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
