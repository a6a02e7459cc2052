"""The connection to Redis: no silent retries, and one error for everything that keeps the ledger from answering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgpack
import orjson
from redis.asyncio import BlockingConnectionPool, Redis, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from core.errors import LedgerUnavailable
from core.ledger.durability import REQUIRED_SETTINGS

MAX_CONNECTIONS = 64
TIMEOUT_S = 5.0

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


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:  # asyncio's TimeoutError is an OSError
        detail = _detail(error)
        lost = isinstance(error, RedisConnectionError | RedisTimeoutError | OSError) and not isinstance(
            error, BusyLoadingError | AuthenticationError | AuthorizationError
        )
        raise (_LinkFailed if lost else LedgerUnavailable)(detail) from error


def _detail(error: Exception) -> str:
    for kind, text in _DETAILS:
        if isinstance(error, kind):
            return text
    return next((text for mark, text in _MARKS if mark in str(error)), "Redis refused a command.")


def connect(
    *,
    socket_path: Path | None = None,
    url: str | None = None,
    timeout_s: float = TIMEOUT_S,
    max_connections: int = MAX_CONNECTIONS,
) -> Redis:
    """A client for the embedded server (`socket_path`) or for a deployment (`url`); exactly one of them.

    Nothing is sent yet. redis-py's own retries are off: they repeat a command whose reply was lost, and a plain
    command would be applied twice. A caller waits at most `timeout_s` for a connection and for each reply.
    """
    if (socket_path is None) == (url is None):
        raise ValueError("name a socket path or a URL")
    options: dict[str, Any] = {
        "max_connections": max_connections,
        "timeout": timeout_s,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
    }
    if url is not None:
        return Redis(connection_pool=BlockingConnectionPool.from_url(url, **options))
    pool = BlockingConnectionPool(connection_class=UnixDomainSocketConnection, path=str(socket_path), **options)
    return Redis(connection_pool=pool)


@cache
def _script_text(name: str) -> str:
    shared = ("common", "settle") if name in ("commit", "cancel", "expire") else ("common",)
    files = resources.files("core.ledger")
    return "".join(files.joinpath(f"{part}.lua").read_text() for part in (*shared, name))


class LedgerClient:
    """Every Redis call of the project goes through here; each raises LedgerUnavailable and no Redis error.

    Owns `redis`: `close` closes it. Replies are bytes.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._scripts: dict[str, AsyncScript] = {}
        self._stopped: str | None = None

    def stop(self, reason: str) -> None:
        """Fail closed: from now on every call of this client raises LedgerUnavailable with this sentence."""
        self._stopped = reason

    def _refuse_when_stopped(self) -> None:
        if self._stopped is not None:
            raise LedgerUnavailable(self._stopped)

    async def close(self) -> None:
        with _unavailable():
            await self._redis.aclose()
            await self._redis.connection_pool.disconnect()

    async def call(self, *command: str | bytes | int) -> Any:
        """One command, sent once."""
        self._refuse_when_stopped()
        with _unavailable():
            return await self._redis.execute_command(*command)  # type: ignore[no-untyped-call]

    async def call_many(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Any]:
        """Several reads in one round trip, on one connection; no transaction. The replies in order."""
        self._refuse_when_stopped()
        with _unavailable():
            async with self._redis.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()

    async def run(
        self, name: str, *, key: str, args: Mapping[str, Any], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Run `name`.lua on the tenant record `key`; returns its answer and its binary part.

        Loads the script when the server has forgotten it. A connection that fails is tried once more with the
        same arguments: every script is replay-safe, so a transition whose reply was lost is not made twice.
        """
        try:
            return await self._run_once(name, key, args, blob)
        except _LinkFailed:
            return await self._run_once(name, key, args, blob)

    async def _run_once(
        self, name: str, key: str, args: Mapping[str, Any], blob: bytes
    ) -> tuple[dict[str, Any], bytes]:
        self._refuse_when_stopped()
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self._redis.register_script(_script_text(name))
        with _unavailable():
            reply = await script(keys=[key], args=[orjson.dumps(args), blob])
        return msgpack.unpackb(reply[0]), reply[1] if len(reply) > 1 else b""

    async def check_configuration(self) -> None:
        """Refuse a server on which an acknowledged write could be lost or evicted.

        Raises LedgerUnavailable naming the setting; also when the server does not let its settings be read.
        """
        for name, wanted in REQUIRED_SETTINGS.items():
            if await self.call("CONFIG", "GET", name) != [name.encode(), wanted.encode()]:
                raise LedgerUnavailable(f"Redis must run with `{name} {wanted}`.")
