"""The Redis client of the project: no silent retries, and one error type for every failure of Redis.

`Links` are a few connections that all callers share. Concurrent commands share a write, a read and an fsync. Redis
answers the commands of one connection in order, so each connection carries many commands at once. Any failure (a late
reply, a broken socket) ends the connection and fails every command in flight on it. Therefore a reply never reaches a
caller that did not send its command. `Links` raise the exceptions of redis-py and OSError; `LedgerClient` converts
them.

The client also checks the settings of Redis that the ledger's guarantees depend on. With them, an acknowledged write
survives a power failure, the log is never truncated silently, and no key is evicted. The embedded server starts with
these settings, and `deploy/redis.conf` repeats them. The gateway checks them at its start, on every new connection and
at intervals, because `CONFIG SET` can change them while Redis runs.

A script is a file `NAME.lua` beside the module that runs it. Scripts are found by their names, which are unique.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import hiredis
import msgpack
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
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from core import spans
from core.errors import LedgerNotDurable, LedgerNotTrusted, LedgerUnavailable
from core.redis import names

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


Greeting = Callable[["RedisLink"], Awaitable[None]]


@dataclass(frozen=True)
class RedisEndpoint:
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
) -> RedisEndpoint:
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
    return RedisEndpoint(pool, timeout_s, max_connections, max_commands)


def packed(command: Sequence[str | bytes | int]) -> list[bytes]:
    """Encode a command in the Redis protocol. Long arguments are not copied."""
    pieces = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        pieces += (b"$%d\r\n" % len(data), data, b"\r\n")
    return pieces


class RedisLink(asyncio.Protocol):
    """One open connection. Only this object reads and writes on it, on the event loop and without tasks of its own."""

    def __init__(self, connection: AbstractConnection, *, on_end: Callable[[RedisLink], None]) -> None:
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

    def __init__(self, endpoint: RedisEndpoint, greet: Greeting) -> None:
        self._endpoint = endpoint
        self._greet = greet
        self._links: list[RedisLink] = []
        self._opening: asyncio.Task[RedisLink] | None = None
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
        self, pieces: Sequence[bytes], deadline: float, preferred: RedisLink | None = None
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

    def _least_loaded(self) -> RedisLink:
        link = min(self._links, key=_load)
        wanted = link.load > 0 and len(self._links) < self._endpoint.max_connections and self._opening is None
        if wanted and asyncio.get_running_loop().time() >= self._open_further_at:
            # Redis reads 16 KiB of a connection at a time, so more connections make larger groups of commands.
            # This command does not wait for the new connection.
            self._start_opening()
        return link

    async def _first(self, deadline: float) -> RedisLink:
        # All waiting callers share one attempt, so that a restarted server is not flooded with connections.
        opening = self._opening or self._start_opening()
        async with asyncio.timeout_at(deadline):
            await asyncio.wait((opening,))
        if opening.cancelled():
            raise RedisConnectionError("the client is closing")
        return opening.result()

    def _start_opening(self) -> asyncio.Task[RedisLink]:
        self._opening = asyncio.create_task(self._open())
        self._opening.add_done_callback(self._opened)
        return self._opening

    def _opened(self, opening: asyncio.Task[RedisLink]) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:  # retrieves the exception, also if no caller waits
            self._open_further_at = asyncio.get_running_loop().time() + REOPEN_PAUSE_S

    async def _open(self) -> RedisLink:
        connection = self._endpoint.pool.make_connection()  # type: ignore[no-untyped-call]
        link: RedisLink | None = None
        try:
            async with asyncio.timeout(self._endpoint.timeout_s):
                await connection.connect()
                link = RedisLink(connection, on_end=self._forget)
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

    def _forget(self, link: RedisLink) -> None:
        with contextlib.suppress(ValueError):
            self._links.remove(link)


def _load(link: RedisLink) -> int:
    return link.load


def _as_lost(error: Exception) -> Exception:
    # Event loops raise their own errors for a closed transport; uvloop raises RuntimeError.
    return error if isinstance(error, RedisError | OSError) else RedisConnectionError(type(error).__name__)


__all__ = ["LedgerClient", "connect"]

log = logging.getLogger("privacy_gateway.ledger")

Call = Callable[..., Awaitable[Any]]  # one Redis command
Guard = Callable[[Call], Awaitable[None]]

NOT_PERMITTED = "Redis does not permit a command of the ledger."
_DETAILS: tuple[tuple[type[BaseException], str], ...] = (
    (BusyLoadingError, "Redis is reading its data."),
    (AuthenticationError, "Redis refused the credentials."),
    (AuthorizationError, "Redis refused the credentials."),
    (NoPermissionError, NOT_PERMITTED),
    (OutOfMemoryError, "Redis is full."),
    (ReadOnlyError, "Redis is read-only."),
    (RedisTimeoutError, "Redis did not answer in time."),
    (TimeoutError, "Redis did not answer in time."),
    (RedisConnectionError, "Redis cannot be reached."),
    (OSError, "Redis cannot be reached."),
)
# An error that is raised inside a script arrives as a generic ResponseError. Its text names the reason.
_MARKS = (
    ("OOM command", "Redis is full."),
    ("READONLY", "Redis is read-only."),
    ("can't run this command", NOT_PERMITTED),
)
REQUIRED_SETTINGS: dict[str, str] = {
    # write every transition to the append-only file
    "appendonly": "yes",
    # sync the file before the reply; `everysec` lost acknowledged holds in a simulated power failure
    "appendfsync": "always",
    # sync also while the file is being rewritten
    "no-appendfsync-on-rewrite": "no",
    # refuse writes when the memory is full; any other policy may evict an account
    "maxmemory-policy": "noeviction",
    # refuse to start with a torn file instead of truncating it, so that the operator decides
    "aof-load-truncated": "no",
}


async def check_configuration(call: Callable[..., Awaitable[Any]]) -> None:
    """Reject a server that could lose or evict an acknowledged write. `call` sends one command to that server.

    Raises LedgerNotDurable with the name of the setting. Raises LedgerUnavailable if the settings cannot be read.
    """
    for name, wanted in REQUIRED_SETTINGS.items():
        if await call("CONFIG", "GET", name) != [name.encode(), wanted.encode()]:
            raise LedgerNotDurable(f"Redis must run with `{name} {wanted}`.")


def _has_failed_link(error: BaseException | None) -> bool:
    """Whether the connection failed. Then it is unknown whether Redis applied the command."""
    return isinstance(error, RedisConnectionError | RedisTimeoutError | OSError) and not isinstance(
        error, BusyLoadingError | AuthenticationError | AuthorizationError | NoTurn
    )


def _detail(error: Exception) -> str:
    for kind, text in _DETAILS:
        if isinstance(error, kind):
            return text
    return next((text for mark, text in _MARKS if mark in str(error)), "Redis refused a command.")


# The folders of `core` that have scripts.
_SCRIPT_FOLDERS = ("ledger", "ledger/hash_chain", "ledger/archive", "reports", "state")
# The texts that are prepended to a script, beside common.lua.
_SHARED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("commit", "cancel", "expire"), ("common", "settle")),
    "job": ("common", "settle", "stored"),
    "files": ("common", "stored"),
}


@dataclass(frozen=True)
class _Script:
    """A script, stored as the constant parts of its EVALSHA and EVAL commands."""

    by_hash: bytes
    by_text: bytes

    @classmethod
    @cache
    def load(cls, name: str) -> _Script:
        shared = _SHARED.get(name, ("common",))
        text = b"".join(_text(part) for part in (*shared, name))
        digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        return cls(_head(b"EVALSHA", digest), _head(b"EVAL", text))


def _text(name: str) -> bytes:
    places = (resources.files("core").joinpath(folder, f"{name}.lua") for folder in _SCRIPT_FOLDERS)
    return next(place for place in places if place.is_file()).read_bytes()


def _head(command: bytes, script: bytes) -> bytes:
    """Return the start of a command that runs a script with one key and two arguments."""
    return b"*6\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n1\r\n" % (len(command), command, len(script), script)


class LedgerClient:
    """Sends every Redis command of the project. Each method raises LedgerUnavailable instead of a Redis error.

    Replies are bytes. The endpoint's timeout covers the wait for a free slot, a connection and the reply. Cancelling a
    caller does not withdraw its command: Redis may still apply a command that was sent.
    """

    def __init__(self, endpoint: RedisEndpoint) -> None:
        self._links = Links(endpoint, self._greet)
        self._callbacks = endpoint.callbacks()
        self._guard: Guard | None = None
        self._stopped = False
        self._paused = ""

    def guard_connections(self, guard: Guard) -> None:
        """Await `guard(call)` on every connection opened from now on, before any other command uses it.

        `call` sends one command over that connection. If the guard raises LedgerUnavailable, the connection is closed
        and all callers that wait for it receive a LedgerUnavailable. Set the guard before the first call.
        """
        self._guard = guard

    def stop(self, reason: str) -> None:
        """Fail closed: from now on every call of this client raises LedgerUnavailable.

        Only the log contains the reason. The reason may name a tenant, and the error reaches every caller.
        """
        if not self._stopped:
            log.error("ledger-not-trusted", extra={"fields": {"detail": reason}})
        self._stopped = True

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    async def watch_durability(self) -> bool:
        """Check the settings of Redis once. Call this at intervals. Returns whether they are the required ones.

        After a wrong setting, every call of this client raises LedgerUnavailable until a later check finds all settings
        right. If Redis does not answer, this method raises LedgerUnavailable and the last finding remains in effect.
        """
        try:
            await check_configuration(self._call_always)
        except LedgerUnavailable as error:
            if not isinstance(error, LedgerNotDurable) and not isinstance(error.__cause__, LedgerNotDurable):
                raise
            if not self._paused:
                log.error("ledger-not-durable", extra={"fields": {"detail": error.detail}})
            self._paused = error.detail
        else:
            if self._paused:
                log.info("ledger-durable")
            self._paused = ""
        return not self._paused

    def _refuse_when_stopped(self) -> None:
        if self._stopped:
            raise LedgerUnavailable("The ledger does not match its seals. The gateway's log has the details.")
        if self._paused:
            raise LedgerUnavailable(self._paused)

    async def tenants(self) -> list[str]:
        """Return the names of the tenants, sorted. They include those of interrupted `open_tenant`."""
        return sorted(name.decode() for name in await self.call("SMEMBERS", names.TENANTS_KEY))

    async def now_ms(self) -> int:
        """Return the time of the Redis clock."""
        seconds, micros = await self.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def close(self) -> None:
        """Close the connections. Commands in flight raise LedgerUnavailable."""
        await self._links.close()

    async def call(self, *command: str | bytes | int) -> Any:
        """Send one command, once, and return its reply."""
        self._refuse_when_stopped()
        return await self._call_always(*command)

    async def _call_always(self, *command: str | bytes | int) -> Any:
        try:
            return self._converted(command, await self._links.request(packed(command)))
        except (RedisError, OSError) as error:  # asyncio's TimeoutError is an OSError
            raise LedgerUnavailable(_detail(error)) from error

    async def call_many(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """Send several reads in about one round trip, without a transaction. Return the replies in order."""
        self._refuse_when_stopped()
        try:
            replies = await self._links.request_all([packed(command) for command in commands])
        except (RedisError, OSError) as error:
            raise LedgerUnavailable(_detail(error)) from error
        return [self._converted(command, reply) for command, reply in zip(commands, replies, strict=True)]

    async def run(
        self, name: str, *, key: str, args: Mapping[str, Any], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Run `name`.lua on the tenant record `key`. Return its answer and its binary part.

        If the server does not have the script, the client sends its text. If the connection fails, the client sends the
        command once more with the same arguments. This is safe because every script is replay-safe: a transition whose
        reply was lost is not applied twice.
        """
        script = _Script.load(name)
        key_data, args_data = key.encode(), msgpack.packb(args)
        rest = b"$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n" % (
            len(key_data), key_data, len(args_data), args_data, len(blob),
        )  # fmt: skip
        pieces = (rest, blob, b"\r\n")
        with spans.span("redis script", kind="client") as step:
            step.set("gateway.script", name)
            try:
                reply = await self._run_once(script, pieces)
            except LedgerUnavailable as error:
                if not _has_failed_link(error.__cause__):
                    raise
                reply = await self._run_once(script, pieces)
        return msgpack.unpackb(reply[0]), reply[1] if len(reply) > 1 else b""

    async def _run_once(self, script: _Script, pieces: Sequence[bytes]) -> Any:
        self._refuse_when_stopped()
        try:
            try:
                return await self._links.request((script.by_hash, *pieces))
            except NoScriptError:
                return await self._links.request((script.by_text, *pieces))
        except (RedisError, OSError) as error:
            raise LedgerUnavailable(_detail(error)) from error

    async def _greet(self, link: RedisLink) -> None:
        if self._guard is None:
            return
        try:
            await self._guard(partial(self._call_on, link))
        except (LedgerNotTrusted, LedgerNotDurable) as error:
            # who waits for the connection gets the error that `stop` or a wrong setting gives to all later calls
            raise LedgerUnavailable(error.detail) from error

    async def _call_on(self, link: RedisLink, *command: str | bytes | int) -> Any:
        try:
            return self._converted(command, await link.send(packed(command)))
        except (RedisError, OSError) as error:
            raise LedgerUnavailable(_detail(error)) from error

    def _converted(self, command: Sequence[str | bytes | int], reply: Any) -> Any:
        convert = self._callbacks.get(str(command[0]))
        return convert(reply) if convert else reply


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
