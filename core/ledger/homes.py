"""On which ledger each tenant lives, where there are several.

Guarantee: a tenant has one home at a time, which is recorded on the main ledger before the tenant exists. A map that
was read more than `REFRESH_S` seconds ago is read again before it is used, so every gateway uses a new home
`REFRESH_S` seconds after the change, or as soon as a slower answer of Redis has arrived and was used once. No budget
depends on that time. A tenant that the map lacks is looked for. An attacker who changes the map alone gains
nothing: a tenant is refused on every ledger that is not its home, because it does not exist there or has moved away
(`core.ledger.move`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from core.errors import InvalidInput, LedgerUnavailable
from core.ledger import names
from core.ledger.activity import TENANT_BATCH
from core.ledger.client import LedgerClient, OneLedgerUnavailable

log = logging.getLogger("privacy_gateway.ledger")

MAIN = "main"
REFRESH_S = 1.0
FAILED_S = 0.5  # for which a failed read of the map is the answer to further ones
_FIELDS = ("mode", *names.MOVING_FIELDS)


class HomeMap:
    """The map of homes, for one process. Methods raise LedgerUnavailable."""

    def __init__(
        self, main: LedgerClient, ledgers: Iterable[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`ledgers`: the names of all ledgers but the main one. They are not open at first."""
        self._main = main
        self._ledgers = (MAIN, *sorted(ledgers))
        self._open = {MAIN}
        self._clock = clock
        self._homes: dict[str, str] = {}
        self._version: bytes | None = None
        self._valid_until = -1.0
        self._changes = 0
        self._failure: tuple[float, LedgerUnavailable] | None = None
        self._reading = asyncio.Lock()
        self._twice: set[str] = set()

    def opened(self, ledger: str) -> None:
        """From now on a ledger is used: its schema and its seals were checked, and its tenants were adopted."""
        self._open.add(ledger)

    def is_open(self, ledger: str) -> bool:
        return ledger in self._open

    async def home(self, tenant: str) -> str:
        """Return the name of the ledger where a tenant lives. One that is in use nowhere lives on the main ledger.

        Raises OneLedgerUnavailable for a tenant on a ledger that is not open, for one that may live there, and for one
        that `adopt` has found to be in use on two ledgers.
        """
        await self._refresh()
        if tenant in self._twice:
            raise OneLedgerUnavailable("This tenant is in use on two ledgers; see docs/operating/several-ledgers.md.")
        home = self._homes.get(tenant)
        if home is None:
            home = await self._found(tenant)
        if home not in self._ledgers:
            raise OneLedgerUnavailable("The settings do not have this tenant's ledger.")
        if home not in self._open:
            raise OneLedgerUnavailable("This tenant's ledger has not been opened yet.")
        return home

    async def recorded(self, tenant: str) -> str:
        """Return the name of the ledger where a tenant lives, whether it can be used or not."""
        return await self._find(tenant) or MAIN

    async def check(self) -> None:
        """Refuse a map that names a ledger which the settings do not have."""
        await self._refresh()
        unknown = sorted(set(self._homes.values()) - set(self._ledgers))
        if unknown:
            raise LedgerUnavailable(
                f"LEDGERS lacks {', '.join(unknown[:5])}, where tenants live; see docs/operating/several-ledgers.md."
            )

    async def has_entries(self) -> bool:
        """Whether the map has been used."""
        await self._refresh()
        return bool(self._homes)

    def choice(self, tenant: str, ledger: str | None = None) -> str:
        """Return where a new tenant will live: on `ledger`, or on the one that rendezvous hashing of the name chooses.

        Another ledger in the settings changes the choice for its share of new names alone. Raises InvalidInput for a
        ledger that does not exist, OneLedgerUnavailable for one that is not open.
        """
        names.check_tenant(tenant)
        if ledger is not None and ledger not in self._ledgers:
            raise InvalidInput("`ledger` names a ledger of the settings, or main.", field="ledger")
        chosen = ledger or max(self._ledgers, key=lambda one: hashlib.sha256(f"{one} {tenant}".encode()).digest())
        if chosen not in self._open:
            raise OneLedgerUnavailable("This tenant's ledger has not been opened yet.")
        return chosen

    async def place(self, tenant: str, ledger: str | None = None) -> str:
        """Record the home of a tenant that is about to be opened; return it. One that has a home keeps it.

        Raises the errors of `choice`, InvalidInput if the tenant has another home than `ledger`, and
        OneLedgerUnavailable for one without a home while a ledger is not open, because it may live there.
        """
        chosen = self.choice(tenant, ledger)
        if self._open != set(self._ledgers) and not await self._find(tenant):
            raise OneLedgerUnavailable("A new tenant is opened only while every ledger has been opened.")
        home = await self._record(tenant, chosen, "place")
        if ledger is not None and home != ledger:
            raise InvalidInput("This tenant lives on another ledger.", field="ledger")
        return home

    async def set_home(self, tenant: str, ledger: str) -> None:
        """Record the end of a move. Every gateway uses it after `REFRESH_S` seconds."""
        if ledger not in self._ledgers:
            raise ValueError("a home is one of the ledgers")
        await self._record(names.check_tenant(tenant), ledger, "move")

    async def adopt(self, client: LedgerClient, ledger: str) -> None:
        """Record `ledger` as the home of the tenants that are in use there and have none.

        The map of a main ledger that was restored may lack them. A tenant that is in use there and has another home is
        refused from then on by this process. `client` is that of the ledger.
        """
        await self._refresh()
        listed = await client.tenants()
        for start in range(0, len(listed), TENANT_BATCH):
            batch = listed[start : start + TENANT_BATCH]
            records = await client.call_many([("HMGET", names.tenant_key(tenant), *_FIELDS) for tenant in batch])
            in_use = [tenant for tenant, record in zip(batch, records, strict=True) if _is_in_use(record)]
            await asyncio.gather(*(self._adopt(client, tenant, ledger) for tenant in in_use))

    async def _adopt(self, client: LedgerClient, tenant: str, ledger: str) -> None:
        home = self._homes.get(tenant) or await self._record(tenant, ledger, "place")
        if home == ledger:
            return
        # A move may have ended since the map and the record were read. It changes the map before the tenant is in use.
        home = await self._find(tenant)
        [record] = await client.call_many([("HMGET", names.tenant_key(tenant), *_FIELDS)])
        if home != ledger and _is_in_use(record):
            log.error("tenant-on-two-ledgers", extra={"fields": {"tenant": tenant, "ledgers": [home, ledger]}})
            self._twice.add(tenant)

    async def _found(self, tenant: str) -> str:
        """Return the home of a tenant that the map lacks: it was opened a moment ago, or before there was a map."""
        home = await self._find(tenant)
        if home:
            self._homes[tenant] = home
        elif self._open != set(self._ledgers):
            raise OneLedgerUnavailable("This tenant may live on a ledger that has not been opened yet.")
        return home or MAIN

    async def _find(self, tenant: str) -> str:
        return await self._ask(names.check_tenant(tenant), "find")

    async def _record(self, tenant: str, ledger: str, action: str) -> str:
        home = await self._ask(tenant, action, ledger=ledger)
        self._changes += 1
        self._valid_until = -1.0  # the next use reads it
        self._homes[tenant] = home
        return home

    async def _ask(self, tenant: str, action: str, **args: str) -> str:
        given = {"action": action, "tenant": tenant, "main": MAIN, **args}
        found, _ = await self._main.run("home", key=names.HOMES_BASE_KEY, args=given)
        return str(found["home"])

    async def _refresh(self) -> None:
        if self._clock() < self._valid_until:
            return
        async with self._reading:
            while self._clock() >= self._valid_until:
                if self._failure is not None and self._clock() < self._failure[0]:
                    raise self._failure[1]  # of a caller that waited for the same answer
                began, changes = self._clock(), self._changes
                try:
                    await self._read()
                except LedgerUnavailable as error:
                    self._failure = self._clock() + FAILED_S, error
                    raise
                if changes == self._changes:  # else this process has recorded a home meanwhile
                    self._valid_until = began + REFRESH_S
                if self._clock() >= began + REFRESH_S:
                    return  # a slow answer is used once, as of when it was asked for

    async def _read(self) -> None:
        version = await self._main.call("GET", names.HOMES_VERSION_KEY)
        if version == self._version and self._homes:
            return
        # Read after the version: a later change has another one.
        found: Mapping[bytes, bytes] = await self._main.call("HGETALL", names.HOMES_KEY)
        self._homes = {tenant.decode(): home.decode() for tenant, home in found.items()}
        self._version = version


def _is_in_use(record: Sequence[bytes | None]) -> bool:
    """Whether a tenant is in use on a ledger, by `_FIELDS` of its record there."""
    mode, *moving = record
    return mode is not None and not any(moving)
