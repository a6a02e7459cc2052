"""One client for several ledgers: each command goes to the ledger where the tenant of its key lives.

What is no tenant's is on the main ledger: API keys and the lists of them, sessions, alerts, addresses, the log of
administrative actions, the operator's jobs. A ledger that cannot be reached, or that was not opened yet, stops its own
tenants alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from core.errors import LedgerUnavailable, TenantMoving
from core.ledger import names
from core.ledger.archive.objects import ArchiveObject
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient, OneLedgerUnavailable
from core.ledger.hash_chain.archived import ArchivedRange
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.hash_chain.epoch import Call
from core.ledger.homes import MAIN, HomeMap

AWAY_S = 1.0


class RoutedClient(LedgerClient):
    """Sends the commands of several ledgers. `at` and `each` give the clients of single ledgers.

    Each ledger's own client has connections, guards and reasons to stop. This one has none, so only the methods below
    and those that are made of them can be used.
    """

    def __init__(
        self,
        main: LedgerClient,
        named: Mapping[str, LedgerClient],
        homes: HomeMap,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._main = main
        self._clients = {MAIN: main, **named}
        self._homes = homes
        self._clock = clock
        self._away: dict[str, tuple[float, str]] = {}  # until when a ledger that failed is not asked again, and why

    def each(self) -> tuple[LedgerClient, ...]:
        """Return the clients of the open ledgers, the main one first."""
        return tuple(client for name, client in self._clients.items() if self._homes.is_open(name))

    async def at(self, tenant: str) -> LedgerClient:
        return self._main if tenant == names.SHARED_OWNER else self._clients[await self._homes.home(tenant)]

    async def home(self, tenant: str) -> str:
        """Return the name of the tenant's ledger. Raises OneLedgerUnavailable, as `HomeMap.home` does."""
        return await self._homes.home(tenant)

    async def place(self, tenant: str, ledger: str | None = None) -> LedgerClient:
        chosen = self._homes.choice(tenant, ledger)
        with self.one_unavailable(chosen):
            await self._clients[chosen].now_ms()  # a home on a ledger that is away is not recorded
        return self._clients[await self._homes.place(tenant, ledger)]

    async def call(self, *command: str | bytes | int) -> Any:
        name = await self._name_of(command[1] if len(command) > 1 else "")
        with self.one_unavailable(name):
            return await self._clients[name].call(*command)

    async def call_many(self, commands: Sequence[Sequence[str | bytes | int]], *, partial: bool = False) -> list[Any]:
        call = self._call_or_none if partial else self.call
        return await asyncio.gather(*(call(*command) for command in commands))

    async def _call_or_none(self, *command: str | bytes | int) -> Any:
        try:
            return await self.call(*command)
        except OneLedgerUnavailable:
            return None

    async def run(
        self, name: str, *, key: str, args: Mapping[str, Any], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        ledger = await self._name_of(key)
        with self.one_unavailable(ledger):
            return await self._clients[ledger].run(name, key=key, args=args, blob=blob)

    @contextmanager
    def one_unavailable(self, name: str) -> Iterator[None]:
        """Tell a further ledger that is away from the main one, without which nothing can be done.

        For `AWAY_S` it is not asked again, so that work for all tenants does not wait for it at every step.
        """
        if name == MAIN:
            yield
            return
        until, detail = self._away.get(name, (0.0, ""))
        if self._clock() < until:
            raise OneLedgerUnavailable(detail)
        try:
            yield
        except TenantMoving:
            raise
        except LedgerUnavailable as error:
            self._away[name] = self._clock() + AWAY_S, error.detail
            raise OneLedgerUnavailable(error.detail) from error

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    @property
    def is_stopped(self) -> bool:
        """Whether the main ledger was found not to match its seals. A further one stops its own tenants alone."""
        return self._main.is_stopped

    async def _name_of(self, key: str | bytes | int) -> str:
        tenant = names.tenant_of(key) if isinstance(key, str) else None
        return MAIN if tenant is None else await self._homes.home(tenant)


class RoutedArchive(LedgerArchive):
    """Reads archived entries of tenants of several ledgers. Seals are read from the archive of a single ledger.

    Only the methods below can be used.
    """

    def __init__(self, client: RoutedClient, archives: Mapping[str, LedgerArchive]) -> None:
        self._routes = client
        self._archives = archives

    async def range_at(self, stream: str, number: int) -> ArchivedRange | None:
        name = await self._routes.home(stream)
        with self._routes.one_unavailable(name):
            return await self._archives[name].range_at(stream, number)

    async def object_at(self, stream: str, number: int) -> ArchiveObject | None:
        name = await self._routes.home(stream)
        with self._routes.one_unavailable(name):
            return await self._archives[name].object_at(stream, number)

    async def ranges(self, stream: str, *, after: int = 0, call: Call | None = None) -> AsyncIterator[ArchivedRange]:
        name = await self._routes.home(stream)
        with self._routes.one_unavailable(name):
            async for range_ in self._archives[name].ranges(stream, after=after, call=call):
                yield range_

    async def entries(self, stream: str, *, after: int, last: int) -> AsyncIterator[list[RawEntry]]:
        name = await self._routes.home(stream)
        with self._routes.one_unavailable(name):
            async for batch in self._archives[name].entries(stream, after=after, last=last):
                yield batch
