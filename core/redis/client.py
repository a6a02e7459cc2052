"""The Redis client of the project: no silent retries, and one error type for every failure of Redis.

The client also checks the settings of Redis that the ledger's guarantees depend on. With them, an acknowledged write
survives a power failure, the log is never truncated silently, and no key is evicted. The embedded server starts with
these settings, and `deploy/redis.conf` repeats them. The gateway checks them at its start, on every new connection and
at intervals, because `CONFIG SET` can change them while Redis runs.

A script is a file `NAME.lua` beside the module that runs it. Scripts are found by their names, which are unique.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any

import msgpack
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from core import spans
from core.errors import LedgerNotDurable, LedgerNotTrusted, LedgerUnavailable
from core.redis import names
from core.redis.connection import Endpoint, Link, Links, NoTurn, connect, packed

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


class _LinkFailed(LedgerUnavailable):
    """The connection failed. Whether Redis applied the command is unknown."""


def _unavailable(error: Exception) -> LedgerUnavailable:
    lost = isinstance(error, RedisConnectionError | RedisTimeoutError | OSError) and not isinstance(
        error, BusyLoadingError | AuthenticationError | AuthorizationError | NoTurn
    )
    return (_LinkFailed if lost else LedgerUnavailable)(_detail(error))


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

    def __init__(self, endpoint: Endpoint) -> None:
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
            raise _unavailable(error) from error

    async def call_many(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """Send several reads in about one round trip, without a transaction. Return the replies in order."""
        self._refuse_when_stopped()
        try:
            replies = await self._links.request_all([packed(command) for command in commands])
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error
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
            except _LinkFailed:
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
            raise _unavailable(error) from error

    async def _greet(self, link: Link) -> None:
        if self._guard is None:
            return
        try:
            await self._guard(partial(self._call_on, link))
        except (LedgerNotTrusted, LedgerNotDurable) as error:
            # who waits for the connection gets the error that `stop` or a wrong setting gives to all later calls
            raise LedgerUnavailable(error.detail) from error

    async def _call_on(self, link: Link, *command: str | bytes | int) -> Any:
        try:
            return self._converted(command, await link.send(packed(command)))
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

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
