"""JSON lines: a body that is read while its answer is written. A line is dropped once it was taken.

Reading stops while the buffer is full; the rest of the body then waits in the client.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from fastapi import Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from core.errors import InvalidInput, QueueFull, TenantLimitReached
from gpu_workers.engine.fairness import BytesTicket
from service.config.settings import Settings
from service.http.exchange import OpenStream

MEDIA_TYPE = "application/x-ndjson"
# Groups that are read ahead. A disconnect can be seen only after everything that the client sent before it.
_GROUPS_AHEAD = 16
BLANK_LINES_MORE = 1_000  # a blank line may follow each other one
_LINE_FEEDS = re.compile(rb"\n*")


@dataclass(frozen=True)
class JsonLine:
    """A line that is not blank. `number` counts from 1. `content` is None for a line above the size limit."""

    number: int
    content: bytes | None = field(repr=False)


class LineReader:
    """Reads a request's body line by line, and buffers some groups of lines, at most `body_bytes_max` in all.

    `memory` counts the lines that arrive, wait, or were taken last. When a limit is reached, the reading waits for
    lines that are dropped; if this stream has none, it ends with the error.

    `client_disconnected` is set once the body was read and the client has closed the connection. `close` stops the
    reading.
    """

    def __init__(self, request: Request, settings: Settings, memory: BytesTicket) -> None:
        self.client_disconnected = asyncio.Event()
        self._request = request
        self._settings = settings
        self._memory = memory
        self._taken_bytes = 0
        self._waiting: deque[JsonLine] = deque()
        self._waiting_bytes = 0
        self._line = bytearray()
        self._too_long = False
        self._number = 0
        self._blank = 0
        self._ended = False
        self._failure: Exception | None = None
        self._came = asyncio.Event()
        self._not_full = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    def close(self) -> None:
        self._task.cancel()
        self._memory.close()
        self._failure = None  # it refers to frames, and they to this object: together they would keep the lines

    async def take(self, count: int, *, bytes_max: int | None = None, stream: OpenStream) -> list[JsonLine]:
        """Up to `count` lines of `bytes_max` bytes together, and at least one, as soon as there is one; none once the
        body has ended.

        Raises HTTPException 408 when no line comes for `STREAM_IDLE_S`; InvalidInput for too many lines; the error of
        `stream` once that must end.
        """
        self._drop_taken()
        if stream.error is not None:
            raise stream.error
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return []
            self._came.clear()
            await self._next(stream.ended)
            if stream.error is not None:
                raise stream.error
        taken = [self._waiting.popleft()]
        self._taken_bytes = _size(taken[0])
        while self._waiting and len(taken) < count:
            size = self._taken_bytes + _size(self._waiting[0])
            if bytes_max is not None and size > bytes_max:
                break
            taken.append(self._waiting.popleft())
            self._taken_bytes = size
        self._waiting_bytes -= self._taken_bytes
        self._not_full.set()
        return taken

    def _drop_taken(self) -> None:
        self._memory.give_back(self._taken_bytes)
        self._taken_bytes = 0
        self._not_full.set()

    async def _next(self, ended: asyncio.Event) -> None:
        either = {asyncio.create_task(self._came.wait()), asyncio.create_task(ended.wait())}
        try:
            done, _ = await asyncio.wait(
                either, timeout=self._settings.stream_idle_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in either:
                task.cancel()
        if not done:
            raise HTTPException(408)

    async def _read(self) -> None:
        try:
            async for chunk in self._request.stream():
                await self._split(chunk)
            if self._line or self._too_long:
                await self._put()  # a last line without a line feed
            self._end()
            with suppress(ClientDisconnect):
                while (await self._request.receive())["type"] != "http.disconnect":
                    pass
            self.client_disconnected.set()
        except ClientDisconnect:
            self.client_disconnected.set()
        except Exception as error:  # the next call of `take` raises it
            self._failure = error
        finally:
            self._end()

    async def _split(self, chunk: bytes) -> None:
        """Take the lines of a chunk. Empty lines in a row are counted together."""
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            await self._grow(chunk[at:end])
            await self._put()
            at = end + 1
            if blank := len(_LINE_FEEDS.match(chunk, at)[0]):  # type: ignore[index]  # it matches everywhere
                self._count_lines(blank)
                self._count_blank(blank)
                at += blank
        await self._grow(chunk[at:])

    def _end(self) -> None:
        self._ended = True
        self._came.set()

    async def _grow(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self._settings.stream_line_bytes_max:
            self._too_long = True
        if self._too_long:
            self._drop_line()
        else:
            await self._count(len(piece))
            self._line += piece

    async def _count(self, size: int) -> None:
        while True:
            try:
                self._memory.take(size)
                return
            except (TenantLimitReached, QueueFull):
                if self._memory.size == len(self._line):
                    raise
                self._not_full.clear()
                await self._not_full.wait()

    def _drop_line(self) -> None:
        self._memory.give_back(len(self._line))
        self._line.clear()

    def _count_lines(self, count: int) -> None:
        self._number += count
        if self._number > self._settings.stream_lines_max:
            raise InvalidInput(f"at most {self._settings.stream_lines_max} lines a request", field="body")

    def _count_blank(self, count: int) -> None:
        """Limit blank lines. They cost their client nothing, and a stream of them takes the event loop."""
        self._blank += count
        if 2 * self._blank > self._number + BLANK_LINES_MORE:
            raise InvalidInput(f"A stream has at most {BLANK_LINES_MORE:,} more blank lines than others.", field="body")

    async def _put(self) -> None:
        self._count_lines(1)
        line = JsonLine(self._number, None if self._too_long else bytes(self._line))
        self._too_long = False
        if line.content is not None and not line.content.strip():
            self._drop_line()
            self._count_blank(1)
            return
        self._line.clear()
        while self._waiting and (
            len(self._waiting) >= self._settings.stream_group_max * _GROUPS_AHEAD
            or self._waiting_bytes + _size(line) > self._settings.body_bytes_max
        ):
            self._not_full.clear()
            await self._not_full.wait()
        self._waiting.append(line)
        self._waiting_bytes += _size(line)
        self._came.set()


def _size(line: JsonLine) -> int:
    return len(line.content or b"")


class LinesAnswer(JSONResponse):
    """The `response_class` of a route whose answer has a line for each value of the declared type."""

    media_type = MEDIA_TYPE


class _Made:
    """The lines of a generator, and whether it has begun."""

    def __init__(self, lines: AsyncGenerator[bytes, None]) -> None:
        self._lines = lines
        self._has_begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._has_begun = True
        return await anext(self._lines)

    async def close(self) -> None:
        """Close the generator, and what it holds. One that has not begun is begun and cancelled: the head of an answer
        may be cut off, and only a generator that has begun gives back what it was made with."""
        if not self._has_begun:
            beginning = asyncio.create_task(self._begin())
            await asyncio.sleep(0)
            beginning.cancel()
            await asyncio.wait({beginning})
        await self._lines.aclose()

    async def _begin(self) -> None:
        with suppress(Exception):  # nobody gets the answer any more
            await anext(self)


class LineStream(StreamingResponse):
    """A streaming answer that does not read the request's body, as the framework's class does to detect a disconnect.

    The producer of the lines reads the body. A client that reads nothing for `idle_s` seconds is disconnected. Where
    the body has arrived, or a request has none, no further line is made once the client has left.
    """

    media_type = MEDIA_TYPE

    def __init__(self, lines: AsyncGenerator[bytes, None], *, idle_s: float, media_type: str = MEDIA_TYPE) -> None:
        self._made = _Made(lines)
        super().__init__(self._made, media_type=media_type)
        self._idle_s = idle_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_received = scope["method"] == "GET" or scope["state"]["exchange"].is_received
        leaving = asyncio.create_task(_client_left(receive)) if is_received else None

        async def in_time(message: Any) -> None:
            if leaving is not None and leaving.done() and message["type"] == "http.response.body":
                raise ClientDisconnect  # the server would drop the message
            try:
                await asyncio.wait_for(send(message), self._idle_s)
            except TimeoutError:
                raise ClientDisconnect from None

        try:
            with suppress(ClientDisconnect):  # an incomplete answer closes the connection
                await self.stream_response(in_time)
        finally:
            if leaving is not None:
                leaving.cancel()
            await self._made.close()


async def _client_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
