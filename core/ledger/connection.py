"""A few shared connections to Redis: commands that wait at the same time share a write, a read and an fsync.

Redis answers the commands of one connection in their order, so each connection carries many at once. What goes
wrong with one of them (a late reply, a broken socket) ends the connection with everything in flight on it: an
answer is never given to another caller than the one who asked. Errors here are redis-py's and OSError.
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

from redis.asyncio import ConnectionPool, Redis, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

CONNECTIONS_MAX = 8
COMMANDS_MAX = 256
TIMEOUT_S = 5.0
# After a further connection could not be opened, the ones that there are carry everything for this long.
REOPEN_PAUSE_S = 1.0

# Replies that redis-py raises as if the connection had failed; the order of replies is intact.
_ANSWERS = (ResponseError, BusyLoadingError, AuthenticationError, AuthorizationError)


class NoTurn(RedisTimeoutError):
    """So many commands are in flight that this one was not sent in time."""


Greeting = Callable[["Link"], Awaitable[None]]


@dataclass(frozen=True)
class Endpoint:
    """Where Redis is, and how much of it a client uses at a time."""

    pool: ConnectionPool  # makes connections and keeps none
    timeout_s: float
    max_connections: int
    max_commands: int

    def callbacks(self) -> dict[Any, Callable[..., Any]]:
        """redis-py's conversions of replies, by the command's first word."""
        return dict(Redis(connection_pool=self.pool).response_callbacks)


def connect(
    *,
    socket_path: Path | None = None,
    url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    max_connections: int = CONNECTIONS_MAX,
    max_commands: int = COMMANDS_MAX,
) -> Endpoint:
    """The embedded server (`socket_path`) or a deployment (`url`); exactly one of them. Nothing is sent yet.

    At most `max_commands` commands are in flight on at most `max_connections` connections; a command waits at
    most `timeout_s` for its turn, a connection and its reply together. redis-py's own retries are off: they
    repeat a command whose reply was lost, and a plain command would be applied twice.
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
    """A command in Redis' protocol. Its long arguments are not copied."""
    pieces = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        pieces += (b"$%d\r\n" % len(data), data, b"\r\n")
    return pieces


class Link:
    """One open connection. Only this object reads and writes on it."""

    def __init__(self, connection: AbstractConnection, *, on_end: Callable[[Link], None]) -> None:
        self._connection = connection
        self._on_end = on_end
        self._in_flight: deque[tuple[asyncio.Future[Any], Callable[[], object] | None]] = deque()
        self._outgoing: list[bytes] = []
        self._has_outgoing = asyncio.Event()
        self._error: BaseException | None = None
        self._reading = asyncio.create_task(self._read())
        self._writing = asyncio.create_task(self._write())

    @property
    def is_open(self) -> bool:
        return self._error is None

    @property
    def load(self) -> int:
        """Commands whose replies are missing, those of cancelled callers included."""
        return len(self._in_flight)

    def send(self, pieces: Sequence[bytes], *, on_reply: Callable[[], object] | None = None) -> asyncio.Future[Any]:
        """Queue a packed command; the future ends with its reply, or with the error that ended the connection.

        Cancelling the future only forgets the reply. `on_reply` is called once, when the reply or the end of the
        connection is here: until then the command is in flight. Raises at once when the connection has ended.
        """
        if self._error is not None:
            raise RedisConnectionError("the connection has ended")
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._in_flight.append((reply, on_reply))
        self._outgoing += pieces
        self._has_outgoing.set()
        return reply

    def end(self, error: BaseException) -> None:
        """End the connection: every command in flight fails with `error`. Once; later calls change nothing."""
        if self._error is not None:
            return
        self._error = error
        self._on_end(self)
        self._outgoing.clear()
        for task in (self._writing, self._reading):
            if task is not asyncio.current_task():  # which ends by itself
                task.cancel()
        while self._in_flight:
            reply, on_reply = self._in_flight.popleft()
            if not reply.done():
                reply.set_exception(error)
            if on_reply:
                on_reply()

    async def ended(self) -> None:
        """Wait until the socket is closed as well."""
        await asyncio.wait((self._reading, self._writing))

    async def _write(self) -> None:
        # one write for all commands that were queued since the last one
        try:
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing.clear()
                batch, self._outgoing = self._outgoing, []
                await self._connection.send_packed_command(batch, check_health=False)
        except Exception as error:  # whatever it was: nothing more can be sent
            self.end(_as_lost(error))

    async def _read(self) -> None:
        read = self._connection.read_response
        in_flight = self._in_flight
        try:
            while True:
                answer: Any = None
                refusal: Exception | None = None
                try:
                    answer = await read(timeout=math.inf, disconnect_on_error=False)
                except _ANSWERS as error:
                    refusal = error
                if not in_flight:
                    raise RedisConnectionError("a reply without a command")
                reply, on_reply = in_flight.popleft()
                if reply.done():
                    pass  # its caller was cancelled
                elif refusal is None:
                    reply.set_result(answer)
                else:
                    reply.set_exception(refusal)
                if on_reply:
                    on_reply()
        except Exception as error:  # whatever it was: the order of the replies is no longer known
            self.end(_as_lost(error))
        finally:
            self.end(RedisConnectionError("the client is closing"))  # the loop ends; else it has ended already
            with contextlib.suppress(RedisError, OSError):
                await self._connection.disconnect(nowait=True)


class Links:
    """The connections of one client. `greet` runs on each new one before anything else travels over it."""

    def __init__(self, endpoint: Endpoint, greet: Greeting) -> None:
        self._endpoint = endpoint
        self._greet = greet
        self._links: list[Link] = []
        self._opening: asyncio.Task[Link] | None = None
        self._open_further_at = 0.0
        self._turns = asyncio.Semaphore(endpoint.max_commands)

    async def request(self, pieces: Sequence[bytes]) -> Any:
        """The reply to one packed command, sent once.

        Raises NoTurn or TimeoutError when its turn or the connection does not come in time: nothing was sent then.
        A reply that does not come in time ends its connection, and every command in flight there raises that.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._endpoint.timeout_s
        if self._turns.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await self._turns.acquire()
            except TimeoutError:
                raise NoTurn("too many commands are in flight") from None
        else:
            await self._turns.acquire()
        try:
            link = self._least_loaded() if self._links else await self._first(deadline)
            reply = link.send(pieces, on_reply=self._turns.release)
        except BaseException:
            self._turns.release()
            raise
        timer = loop.call_at(deadline, link.end, RedisTimeoutError("a reply is late"))
        try:
            return await reply
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Close every connection; what is in flight fails."""
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
            # Redis reads 16 KiB of a connection at a time: further ones make larger groups. Nobody waits for this one.
            self._start_opening()
        return link

    async def _first(self, deadline: float) -> Link:
        # one attempt for all who wait: a server that comes back is not stormed
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
        if opening.cancelled() or opening.exception() is not None:  # reading it: nobody may be waiting
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
            # redis-py hides refused credentials in a ConnectionError when the socket is a unix socket
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
    # event loops have errors of their own for a transport that is closed, uvloop a RuntimeError
    return error if isinstance(error, RedisError | OSError) else RedisConnectionError(type(error).__name__)
