"""A small set of shared connections to Redis. Concurrent commands share a write, a read and an fsync.

Redis answers the commands of one connection in order, so each connection carries many commands at once. Any failure
(a late reply, a broken socket) ends the connection and fails every command in flight on it. Therefore a reply never
reaches a caller that did not send its command. This module raises the exceptions of redis-py and OSError.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hiredis
from redis._parsers import BaseParser
from redis.asyncio import ConnectionPool, Redis, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    InvalidResponse,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

CONNECTIONS_MAX = 8
COMMANDS_MAX = 256
TIMEOUT_S = 5.0
_JOINED_BYTES_MAX = 64 * 1024  # copying so little takes less time than writing its pieces
_INCOMPLETE = object()
# After a further connection could not be opened, the open ones carry all commands for this long.
REOPEN_PAUSE_S = 1.0

# Errors that are ordinary replies, although redis-py raises them like connection failures. The reply order is intact.
_ANSWERS = (ResponseError, BusyLoadingError, AuthenticationError, AuthorizationError)


class NoTurn(RedisTimeoutError):
    """The limit of commands in flight was reached for so long that this command was not sent in time."""


Greeting = Callable[["Link"], Awaitable[None]]


@dataclass(frozen=True)
class Endpoint:
    """The address of Redis, and how many connections and commands a client may use at a time."""

    pool: ConnectionPool  # creates connections and does not keep them
    timeout_s: float
    max_connections: int
    max_commands: int

    def callbacks(self) -> dict[Any, Callable[..., Any]]:
        """Return redis-py's conversions of replies, by the first word of the command."""
        return dict(Redis(connection_pool=self.pool).response_callbacks)


def connect(
    *,
    socket_path: Path | None = None,
    url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    max_connections: int = CONNECTIONS_MAX,
    max_commands: int = COMMANDS_MAX,
) -> Endpoint:
    """Describe the embedded server (`socket_path`) or a deployment (`url`). Pass exactly one. Nothing is sent yet.

    At most `max_commands` commands are in flight on at most `max_connections` connections. `timeout_s` covers a
    command's wait for a free slot, a connection and the reply together. redis-py's own retries are disabled: they
    repeat a command whose reply was lost, and Redis would apply an ordinary command twice.
    """
    if (socket_path is None) == (url is None):
        raise ValueError("name a socket path or a URL")
    options: dict[str, Any] = {
        "socket_timeout": None,  # the deadlines below are the only ones
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
    }
    if url is not None:
        pool = ConnectionPool.from_url(url, **options)
    else:
        pool = ConnectionPool(connection_class=UnixDomainSocketConnection, path=str(socket_path), **options)
    return Endpoint(pool, timeout_s, max_connections, max_commands)


def packed(command: Sequence[str | bytes | int]) -> list[bytes]:
    """Encode a command in the Redis protocol. Long arguments are not copied."""
    pieces = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        pieces += (b"$%d\r\n" % len(data), data, b"\r\n")
    return pieces


class Link(asyncio.Protocol):
    """One open connection. Only this object reads and writes on it, on the event loop and without tasks of its own."""

    def __init__(self, connection: AbstractConnection, *, on_end: Callable[[Link], None]) -> None:
        if connection._writer is None:
            raise RedisConnectionError("the connection is not open")
        self._connection = connection
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._in_flight: deque[tuple[asyncio.Future[Any], float, Callable[[], object] | None]] = deque()
        self._outgoing: list[bytes] = []
        self._error: BaseException | None = None
        self._closed = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None  # looks for late replies at the earliest deadline
        self._due_at = math.inf
        self._replies = hiredis.Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, notEnoughData=_INCOMPLETE
        )
        # redis-py has opened the connection and signed in; nothing is in its buffers between two commands
        self._transport = connection._writer.transport
        self._transport.set_protocol(self)

    @property
    def is_open(self) -> bool:
        return self._error is None

    @property
    def load(self) -> int:
        """The number of commands without a reply, including those of cancelled callers."""
        return len(self._in_flight)

    def send(
        self, pieces: Sequence[bytes], *, deadline: float = math.inf, on_reply: Callable[[], object] | None = None
    ) -> asyncio.Future[Any]:
        """Queue an encoded command. The future resolves to its reply, or to the error that ended the connection.

        Cancelling the future discards the reply only. A reply that has not arrived at `deadline`, in seconds of the
        event loop, ends the connection. `on_reply` is called once, when the reply arrives or the connection ends. Until
        then the command is in flight. Raises RedisConnectionError if the connection has ended.
        """
        if self._error is not None:
            raise RedisConnectionError("the connection has ended")
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._in_flight.append((reply, deadline, on_reply))
        if not self._outgoing:
            self._loop.call_soon(self._write)
        self._outgoing += pieces
        if deadline < self._due_at:
            self._watch(deadline)
        return reply

    def end(self, error: BaseException) -> None:
        """End the connection and fail every command in flight with `error`. Later calls have no effect."""
        if self._error is not None:
            return
        self._error = error
        self._on_end(self)
        self._outgoing.clear()
        if self._due is not None:
            self._due.cancel()
        self._transport.abort()
        while self._in_flight:
            reply, _, on_reply = self._in_flight.popleft()
            if not reply.done():
                reply.set_exception(error)
            if on_reply:
                on_reply()

    async def ended(self) -> None:
        """Wait until the socket is closed as well."""
        await self._closed.wait()

    def _write(self) -> None:
        # Send all commands queued since the last write in one write.
        if self._outgoing:
            batch, self._outgoing = self._outgoing, []
            try:
                if sum(map(len, batch)) <= _JOINED_BYTES_MAX:
                    self._transport.write(b"".join(batch))
                else:
                    self._transport.writelines(batch)
            except Exception as error:  # after any failure nothing more can be sent
                self.end(_as_lost(error))

    def data_received(self, data: bytes) -> None:
        try:
            self._replies.feed(data)
            while (answer := self._replies.gets()) is not _INCOMPLETE:
                self._answer(answer)
        except Exception as error:  # after any failure the order of the replies is unknown
            self.end(_as_lost(error))

    def _answer(self, answer: Any) -> None:
        if self._error is not None:
            return
        if not self._in_flight:
            raise RedisConnectionError("a reply without a command")
        if isinstance(answer, Exception) and not isinstance(answer, _ANSWERS):
            raise answer
        reply, _, on_reply = self._in_flight.popleft()
        if reply.done():
            pass  # the caller was cancelled
        elif isinstance(answer, Exception):
            reply.set_exception(answer)
        else:
            reply.set_result(answer)
        if on_reply:
            on_reply()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(RedisConnectionError("the connection was closed") if exc is None else _as_lost(exc))
        self._connection._close()  # type: ignore[no-untyped-call]
        self._closed.set()

    def _watch(self, deadline: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due, self._due_at = self._loop.call_at(deadline, self._look_for_late_replies), deadline

    def _look_for_late_replies(self) -> None:
        self._due, self._due_at = None, math.inf
        earliest = min((deadline for _, deadline, _ in self._in_flight), default=math.inf)
        if earliest <= self._loop.time():
            self.end(RedisTimeoutError("a reply is late"))
        elif earliest < math.inf:
            self._watch(earliest)


class Links:
    """The connections of one client. `greet` runs on each new connection before any other command uses it."""

    def __init__(self, endpoint: Endpoint, greet: Greeting) -> None:
        self._endpoint = endpoint
        self._greet = greet
        self._links: list[Link] = []
        self._opening: asyncio.Task[Link] | None = None
        self._open_further_at = 0.0
        self._turns = asyncio.Semaphore(endpoint.max_commands)

    async def request(self, pieces: Sequence[bytes]) -> Any:
        """Send one encoded command, once, and return its reply.

        Raises NoTurn or TimeoutError if no slot or no connection becomes free in time; the command was not sent then.
        A reply that does not arrive in time ends its connection, and every command in flight on it raises that error.
        """
        deadline = asyncio.get_running_loop().time() + self._endpoint.timeout_s
        return await (await self._sent(pieces, deadline))

    async def request_all(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Send several encoded commands, each as `request` does, before the first reply. Return the replies in order.

        They share a connection, and so a write. Raises the first error of any of them.
        """
        deadline = asyncio.get_running_loop().time() + self._endpoint.timeout_s
        replies: list[asyncio.Future[Any]] = []
        link = self._least_loaded() if self._links else None
        try:
            for pieces in commands:
                replies.append(await self._sent(pieces, deadline, link))
        except BaseException:
            for reply in replies:
                reply.cancel()
            raise
        return await asyncio.gather(*replies)

    async def _sent(
        self, pieces: Sequence[bytes], deadline: float, preferred: Link | None = None
    ) -> asyncio.Future[Any]:
        """The reply to a command that has been sent, on the connection `preferred` if that is open."""
        if self._turns.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await self._turns.acquire()
            except TimeoutError:
                raise NoTurn("too many commands are in flight") from None
        else:
            await self._turns.acquire()
        try:
            if preferred is not None and preferred.is_open:
                link = preferred
            else:
                link = self._least_loaded() if self._links else await self._first(deadline)
            return link.send(pieces, deadline=deadline, on_reply=self._turns.release)
        except BaseException:
            self._turns.release()
            raise

    async def close(self) -> None:
        """Close every connection. Commands in flight fail."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait((self._opening,))
        links = self._links.copy()
        for link in links:
            link.end(RedisConnectionError("the client is closing"))
        for link in links:
            await link.ended()

    def _least_loaded(self) -> Link:
        link = min(self._links, key=_load)
        wanted = link.load > 0 and len(self._links) < self._endpoint.max_connections and self._opening is None
        if wanted and asyncio.get_running_loop().time() >= self._open_further_at:
            # Redis reads 16 KiB of a connection at a time, so more connections make larger groups of commands.
            # This command does not wait for the new connection.
            self._start_opening()
        return link

    async def _first(self, deadline: float) -> Link:
        # All waiting callers share one attempt, so that a restarted server is not flooded with connections.
        opening = self._opening or self._start_opening()
        async with asyncio.timeout_at(deadline):
            await asyncio.wait((opening,))
        if opening.cancelled():
            raise RedisConnectionError("the client is closing")
        return opening.result()

    def _start_opening(self) -> asyncio.Task[Link]:
        self._opening = asyncio.create_task(self._open())
        self._opening.add_done_callback(self._opened)
        return self._opening

    def _opened(self, opening: asyncio.Task[Link]) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:  # retrieves the exception, also if no caller waits
            self._open_further_at = asyncio.get_running_loop().time() + REOPEN_PAUSE_S

    async def _open(self) -> Link:
        connection = self._endpoint.pool.make_connection()  # type: ignore[no-untyped-call]
        link: Link | None = None
        try:
            async with asyncio.timeout(self._endpoint.timeout_s):
                await connection.connect()
                link = Link(connection, on_end=self._forget)
                await self._greet(link)
            if not link.is_open:
                raise RedisConnectionError("the connection has ended")
        except BaseException as error:
            if link is not None:
                link.end(RedisConnectionError("the connection was refused"))
            else:
                with contextlib.suppress(RedisError, OSError):
                    await connection.disconnect(nowait=True)
            # For a unix socket, redis-py wraps rejected credentials in a ConnectionError.
            if isinstance(error.__cause__, AuthenticationError | AuthorizationError):
                raise error.__cause__ from None
            raise
        self._links.append(link)
        return link

    def _forget(self, link: Link) -> None:
        with contextlib.suppress(ValueError):
            self._links.remove(link)


def _load(link: Link) -> int:
    return link.load


def _as_lost(error: Exception) -> Exception:
    # Event loops raise their own errors for a closed transport; uvloop raises RuntimeError.
    return error if isinstance(error, RedisError | OSError) else RedisConnectionError(type(error).__name__)
