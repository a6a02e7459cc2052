"""One client for several ledgers: each command goes to the ledger where the tenant of its key lives.

What is no tenant's is on the main ledger: API keys and the lists of them, sessions, alerts, addresses, the log of
administrative actions, the operator's jobs. A ledger that cannot be reached, or that was not opened yet, stops its own
tenants alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
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


class RoutedClient(LedgerClient):
    """Sends the commands of several ledgers. `at` and `each` give the clients of single ledgers.

    Each ledger's own client has connections, guards and reasons to stop. This one has none, so only the methods below
    and those that are made of them can be used.
    """

    def __init__(self, main: LedgerClient, named: Mapping[str, LedgerClient], homes: HomeMap) -> None:
        self._main = main
        self._clients = {MAIN: main, **named}
        self._homes = homes
        self._open = {MAIN}

    def opened(self, name: str) -> None:
        """From now on the ledger `name` is used: its schema and its seals were checked."""
        self._open.add(name)

    def each(self) -> tuple[LedgerClient, ...]:
        """Return the clients of the open ledgers, the main one first."""
        return tuple(client for name, client in self._clients.items() if name in self._open)

    async def at(self, tenant: str) -> LedgerClient:
        return self._clients[await self.home(tenant)]

    async def home(self, tenant: str) -> str:
        """Return the name of the tenant's ledger. Raises OneLedgerUnavailable for one that is not open."""
        name = await self._homes.home(tenant)
        if name not in self._clients:
            raise OneLedgerUnavailable("The settings do not have this tenant's ledger.")
        if name not in self._open:
            raise OneLedgerUnavailable("This tenant's ledger has not been opened yet.")
        return name

    async def place(self, tenant: str, ledger: str | None = None) -> None:
        await self._homes.place(tenant, ledger)

    async def call(self, *command: str | bytes | int) -> Any:
        client = await self._client_of(command[1] if len(command) > 1 else "")
        with self._one_unavailable(client):
            return await client.call(*command)

    async def run(
        self, name: str, *, key: str, args: Mapping[str, Any], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        client = await self._client_of(key)
        with self._one_unavailable(client):
            return await client.run(name, key=key, args=args, blob=blob)

    @contextmanager
    def _one_unavailable(self, client: LedgerClient) -> Iterator[None]:
        """Tell a further ledger that is away from the main one, without which nothing can be done."""
        try:
            yield
        except LedgerUnavailable as error:
            if client is self._main or isinstance(error, TenantMoving):
                raise
            raise OneLedgerUnavailable(error.detail) from error

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    @property
    def is_stopped(self) -> bool:
        """Whether a ledger was found not to match its seals."""
        return any(client.is_stopped for client in self._clients.values())

    async def _client_of(self, key: str | bytes | int) -> LedgerClient:
        tenant = names.tenant_of(key) if isinstance(key, str) else None
        return self._main if tenant is None else await self.at(tenant)


class RoutedArchive(LedgerArchive):
    """Reads archived entries of tenants of several ledgers. Seals are read from the archive of a single ledger.

    Only the methods below can be used.
    """

    def __init__(self, client: RoutedClient, archives: Mapping[str, LedgerArchive]) -> None:
        self._routes = client
        self._archives = archives

    async def _of(self, tenant: str) -> LedgerArchive:
        return self._archives[await self._routes.home(tenant)]

    async def range_at(self, stream: str, number: int) -> ArchivedRange | None:
        return await (await self._of(stream)).range_at(stream, number)

    async def object_at(self, stream: str, number: int) -> ArchiveObject | None:
        return await (await self._of(stream)).object_at(stream, number)

    async def ranges(self, stream: str, *, after: int = 0, call: Call | None = None) -> AsyncIterator[ArchivedRange]:
        async for range_ in (await self._of(stream)).ranges(stream, after=after, call=call):
            yield range_

    async def entries(self, stream: str, *, after: int, last: int) -> AsyncIterator[list[RawEntry]]:
        async for batch in (await self._of(stream)).entries(stream, after=after, last=last):
            yield batch
