"""The connection to Redis: no silent retries, and one error for everything that keeps the ledger from answering."""

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

from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger.connection import Endpoint, Link, Links, NoTurn, connect, packed

__all__ = ["LedgerClient", "connect"]

log = logging.getLogger("privacy_gateway.ledger")

Call = Callable[..., Awaitable[Any]]  # one Redis command
Guard = Callable[[Call], Awaitable[None]]

_DETAILS: tuple[tuple[type[BaseException], str], ...] = (
    (BusyLoadingError, "Redis is reading its data."),
    (AuthenticationError, "Redis refused the credentials."),
    (AuthorizationError, "Redis refused the credentials."),
    (NoPermissionError, "Redis does not permit a command of the ledger."),
    (OutOfMemoryError, "Redis is full."),
    (ReadOnlyError, "Redis is read-only."),
    (RedisTimeoutError, "Redis did not answer in time."),
    (TimeoutError, "Redis did not answer in time."),
    (RedisConnectionError, "Redis cannot be reached."),
    (OSError, "Redis cannot be reached."),
)
# A refusal inside a script arrives as a plain error with the reason in its text.
_MARKS = (("OOM command", "Redis is full."), ("READONLY", "Redis is read-only."))


class _LinkFailed(LedgerUnavailable):
    """The connection failed: whether the command was applied is not known."""


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


@dataclass(frozen=True)
class _Script:
    """A script with the parts of its commands that never change."""

    by_hash: bytes
    by_text: bytes

    @classmethod
    @cache
    def load(cls, name: str) -> _Script:
        shared = ("common", "settle") if name in ("commit", "cancel", "expire", "job") else ("common",)
        files = resources.files("core.ledger")
        text = b"".join(files.joinpath(f"{part}.lua").read_bytes() for part in (*shared, name))
        digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        return cls(_head(b"EVALSHA", digest), _head(b"EVAL", text))


def _head(command: bytes, script: bytes) -> bytes:
    """The start of a script's command with one key and two arguments."""
    return b"*6\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n1\r\n" % (len(command), command, len(script), script)


class LedgerClient:
    """Every Redis call of the project goes through here; each raises LedgerUnavailable and no Redis error.

    Replies are bytes. A command waits at most the endpoint's time for its turn, a connection and its reply. A caller
    that is cancelled does not take its command back: what was sent may be applied.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._links = Links(endpoint, self._greet)
        self._callbacks = endpoint.callbacks()
        self._guard: Guard | None = None
        self._stopped = False

    def guard_connections(self, guard: Guard) -> None:
        """Await `guard(call)` on every connection opened from now on, before anything else travels over it.

        `call` sends one command over that connection. When the guard raises LedgerUnavailable, the connection is
        closed and those who wait for it get a LedgerUnavailable. Set it before the first call.
        """
        self._guard = guard

    def stop(self, reason: str) -> None:
        """Fail closed: from now on every call of this client raises LedgerUnavailable.

        The reason goes to the log: it may name a tenant, and the callers are all of them.
        """
        if not self._stopped:
            log.error("ledger-not-trusted", extra={"fields": {"detail": reason}})
        self._stopped = True

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def _refuse_when_stopped(self) -> None:
        if self._stopped:
            raise LedgerUnavailable("The ledger is not what was sealed; the gateway's log says more.")

    async def now_ms(self) -> int:
        """The time by Redis' clock."""
        seconds, micros = await self.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def close(self) -> None:
        """Close the connections. What is in flight raises LedgerUnavailable."""
        await self._links.close()

    async def call(self, *command: str | bytes | int) -> Any:
        """One command, sent once."""
        self._refuse_when_stopped()
        try:
            return self._converted(command, await self._links.request(packed(command)))
        except (RedisError, OSError) as error:  # asyncio's TimeoutError is an OSError
            raise _unavailable(error) from error

    async def call_many(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """Several reads in about one round trip; no transaction. The replies in order."""
        return await asyncio.gather(*(self.call(*command) for command in commands))

    async def run(
        self, name: str, *, key: str, args: Mapping[str, Any], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Run `name`.lua on the tenant record `key`; returns its answer and its binary part.

        Sends the script's text when the server has forgotten it. A command whose connection fails is sent once
        more with the same arguments: every script is replay-safe, so a transition whose reply was lost is not
        made twice.
        """
        script = _Script.load(name)
        key_data, args_data = key.encode(), msgpack.packb(args)
        rest = b"$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n" % (
            len(key_data), key_data, len(args_data), args_data, len(blob),
        )  # fmt: skip
        pieces = (rest, blob, b"\r\n")
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
        except LedgerNotTrusted as error:
            # who waits for the connection gets the error that `stop` gives to all later calls
            raise LedgerUnavailable(error.detail) from error

    async def _call_on(self, link: Link, *command: str | bytes | int) -> Any:
        try:
            return self._converted(command, await link.send(packed(command)))
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

    def _converted(self, command: Sequence[str | bytes | int], reply: Any) -> Any:
        convert = self._callbacks.get(str(command[0]))
        return convert(reply) if convert else reply
