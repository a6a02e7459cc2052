"""Time limits of request bodies: uvicorn has none, so `BodyPace` limits every body in one place.

A body has `idle_s` seconds of waiting to spend. Every received byte earns 1 / `bytes_per_s_min` seconds, and the stock
never exceeds `idle_s`. A client may thus pause for `idle_s` seconds, and over longer times it must send
`bytes_per_s_min` bytes a second. Only the time in which the gateway waits for the client counts.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http import problems
from service.http.middleware import STREAM_PATH


class SlowBody(HTTPException):
    """The 408 of a body that arrives too slowly. The connection is closed: the rest of the body is never read."""

    def __init__(self) -> None:
        super().__init__(408, headers={"Connection": "close"})


class BodyPace:
    """Refuse a body that arrives too slowly with 408.

    A stream of documents limits the time between its lines itself (`service/http/ndjson.py`), because its client may
    wait for answers before it sends more.
    """

    def __init__(self, app: ASGIApp, *, idle_s: float, bytes_per_s_min: int) -> None:
        self.app = app
        self._idle_s = idle_s
        self._bytes_per_s_min = bytes_per_s_min

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == STREAM_PATH:
            await self.app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        left_s = self._idle_s
        complete = begun = False

        async def in_time() -> Message:
            nonlocal left_s, complete
            if complete:
                return await receive()  # waits for the disconnect
            started = loop.time()
            try:
                async with asyncio.timeout(left_s):
                    message = await receive()
            except TimeoutError:
                complete = True
                if begun:
                    return {"type": "http.disconnect"}  # an answer that does not need the body ends with it
                raise SlowBody from None
            earned_s = len(message.get("body", b"")) / self._bytes_per_s_min
            left_s = min(self._idle_s, left_s - (loop.time() - started) + earned_s)
            complete = not message.get("more_body", False)
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, in_time, noted)
        except SlowBody as error:  # while a body above its limit was being dropped
            await problems.from_status(error)(scope, receive, send)
