"""One request and its answer: what the request occupies until the answer has been sent, and how a large one is sent.

An exchange that takes long ends early with its key, or with the gateway.

uvicorn takes a message of any size into its buffer and returns. It waits for the client before the next message, while
the buffer is above its limit of 64 KiB. A large body is therefore sent in pieces: the exchange then ends when all but
the last few pieces have left the process, and the body is never copied as a whole.

Guarantee: an answer to a tenant is complete or cut off at most `interval_s` + `GRACE_S` seconds, and the time of one
look-up in the ledger, after its key was revoked or has expired, its browser's session has ended, or a request of its
tenant was refused for its rate. This includes answers whose client does not read. The same holds for a body that is
still arriving, and a request that waits for a place, when its key or session ends. While the ledger cannot be reached,
all of them continue; nothing is released in that time.

A streamed answer checks `OpenStream.error` between its parts and then writes its documented last line or event. Any
other answer, and one that does not end within `GRACE_S`, is cut off: the connection closes. A request whose answer has
not begun gets 401.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.errors import ClientGone, GatewayError
from gpu_workers.engine.fairness import Turns
from service.http import problems

PIECE_BYTES = 64 * 1024


class Exchange:
    """The request of `scope`, as `request.state.exchange`.

    held: closed once the answer has been sent, or the exchange has failed.
    place: the same; with `is_endless`, closed when the answer starts.
    is_receiving: the request waits for its client, or for a place.
    is_answering: the answer has started.
    is_received: the body has arrived completely, or the client has left.
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
        self.is_received = False
        self._early: Message | None = None  # received while the request waited
        scope.setdefault("state", {})["exchange"] = self

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        finally:
            self.place.close()
            self.held.close()
            self._scope["state"].pop("exchange", None)  # each would keep the other until a collection

    async def take_place(self, places: Turns, tenant: str, *, reads: bool) -> None:
        """Have one of the tenant's places before the body is read, until `place` is closed.

        reads: receive the start of the body while the request waits. Without it a client's leave is noticed only when
            the request has its place.
        Raises TenantLimitReached if none becomes free in time, ClientGone if the client leaves before.
        """

        async def take() -> None:
            self.place.enter_context(await places.wait(tenant))

        if places.is_full(tenant):
            await self._waited(take(), reads=reads)
        else:
            await take()

    async def _waited(self, turn: Coroutine[Any, Any, None], *, reads: bool) -> None:
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
        self.is_receiving = not self.is_received
        if self._early is not None:
            message, self._early = self._early, None
        else:
            message = await self._receive_message()
        self.is_receiving = False
        if message["type"] != "http.request" or not message.get("more_body"):
            self.is_received = True
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


log = logging.getLogger("privacy_gateway.streams")

GRACE_S = 1.0
Reason = GatewayError | HTTPException
Refusal = Callable[[Any], Awaitable[Reason | None]]
Result = TypeVar("Result")


class OpenStream:
    """One answer. `ended` is set once it must end, and `error` is then the reason."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.error: Reason | None = None
        self._at_once = False
        self._abandoned: set[asyncio.Task[Any]] = set()

    def end(self, error: Reason, *, at_once: bool) -> None:
        """`at_once`: do not wait for work that has begun."""
        if self.error is None:
            self.error, self._at_once = error, at_once
            self.ended.set()

    async def finished(self, work: Coroutine[Any, Any, Result], *, abandon: Callable[[], None]) -> Result:
        """The result of `work`. Raises `error` if the answer must end at once before that.

        The work then continues without this answer, and `abandon` is called to drop what has not started.
        """
        task = asyncio.create_task(work)
        ended = asyncio.create_task(self.ended.wait())
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and self._at_once and self.error is not None:
                self._abandoned.add(task)
                task.add_done_callback(self._forget)
                abandon()
                raise self.error
            return await task
        except asyncio.CancelledError:
            if task not in self._abandoned:
                task.cancel()
            raise
        finally:
            ended.cancel()
            del task  # its error refers to this frame: together they would keep the request until a collection

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("abandoned-work-failed", extra={"fields": {"kind": type(error).__name__}})


class OpenStreams:
    """The answers that are open now. `refusal` says why the answers to an identity (`request.state.identity`, or None
    before the authentication) must end, or None."""

    def __init__(self, refusal: Refusal, *, interval_s: float) -> None:
        self.refusal = refusal
        self.interval_s = interval_s
        self._open: set[OpenStream] = set()

    def end_all(self, error: Reason) -> None:
        """End every answer that checks for it, once the work that it waits for is done."""
        for stream in self._open:
            stream.end(error, at_once=False)

    def opened(self) -> OpenStream:
        stream = OpenStream()
        self._open.add(stream)
        return stream

    def closed(self, stream: OpenStream) -> None:
        self._open.discard(stream)


class StreamGuard:
    """Middleware that makes the exchange of a request, and watches each one that is not complete after `interval_s`."""

    def __init__(self, app: ASGIApp, *, streams: OpenStreams) -> None:
        self.app = app
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Watch(self._streams, scope, Exchange(scope, receive, send)).run(self.app, receive, send)
        else:
            await self.app(scope, receive, send)


class _Watch:
    """Ends one exchange. Work between request and answer is not cut off: it is charged already and ends by itself."""

    def __init__(self, streams: OpenStreams, scope: Scope, exchange: Exchange) -> None:
        self._streams = streams
        self._scope = scope
        self._exchange = exchange
        self._stream = streams.opened()
        scope["state"]["open_stream"] = self._stream
        self._is_cut_off = False
        self._running = asyncio.current_task()
        # a timer, because almost every request is complete before it fires
        self._watching: asyncio.TimerHandle | asyncio.Task[None]
        self._watching = asyncio.get_running_loop().call_later(streams.interval_s, self._begin)

    async def run(self, app: ASGIApp, receive: Receive, send: Send) -> None:
        try:
            await self._exchange.run(app)
        except asyncio.CancelledError:
            if not self._is_cut_off or self._running is None:
                raise
            self._running.uncancel()  # an incomplete answer closes the connection
        finally:
            self._streams.closed(self._stream)
            self._watching.cancel()
        if self._is_cut_off and not self._exchange.is_answering and isinstance(self._stream.error, HTTPException):
            await problems.from_status(self._stream.error)(self._scope, receive, send)

    def _begin(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        error = await self._reason()
        while error is None:
            await asyncio.sleep(self._streams.interval_s)
            error = await self._reason()
        self._stream.end(error, at_once=True)
        await asyncio.sleep(GRACE_S)
        self._is_cut_off = True
        if self._running is not None:
            self._running.cancel()

    async def _reason(self) -> Reason | None:
        """Why the request must end now. Only a key that has ended ends an upload, too."""
        exchange = self._exchange
        if not (exchange.is_receiving or exchange.is_answering):
            return None
        error = await self._streams.refusal(self._scope["state"].get("identity"))
        ends_uploads = isinstance(error, HTTPException) and error.status_code == 401
        return error if exchange.is_answering or ends_uploads else None


def open_stream(request: Request) -> OpenStream:
    """The answer of this request, as a dependency."""
    stream: OpenStream = request.state.open_stream
    return stream


def endless_stream(request: Request) -> OpenStream:
    """The same for an answer without an end, which gives its place back when it starts (`LoadLimits`)."""
    exchange: Exchange = request.state.exchange
    exchange.is_endless = True
    return open_stream(request)


OpenStreamDep = Annotated[OpenStream, Depends(open_stream)]
EndlessStreamDep = Annotated[OpenStream, Depends(endless_stream)]


class BuffersResponse(Response):
    """Sends `buffers` one after another. `Exchange` sends a large one in pieces, none of them copied.

    kept: an object that exists until the answer has been sent, such as the owner of a buffer's memory.
    """

    def __init__(
        self,
        buffers: Sequence[bytes | memoryview],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        kept: object = None,
    ) -> None:
        size = str(sum(map(len, buffers)))
        super().__init__(headers={**(headers or {}), "Content-Length": size}, media_type=media_type)
        self._buffers = buffers
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for buffer in self._buffers:
            await send({"type": "http.response.body", "body": buffer, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
