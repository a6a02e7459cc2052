"""On which ledger each tenant lives, where there are several.

Guarantee: a tenant has one home at a time, which is recorded on the main ledger before the tenant exists. A map that
was read more than `REFRESH_S` seconds ago is read again before it is used, so `REFRESH_S` seconds after a change every
gateway uses the new home. An attacker who changes the map alone gains nothing: a tenant is refused on every ledger
that is not its home, because it does not exist there or has moved away (`core.ledger.move`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from core.errors import InvalidInput, LedgerUnavailable
from core.ledger import names
from core.ledger.activity import TENANT_BATCH
from core.ledger.client import LedgerClient

log = logging.getLogger("privacy_gateway.ledger")

MAIN = "main"
REFRESH_S = 1.0


class HomeMap:
    """The map of homes, for one process. Methods raise LedgerUnavailable."""

    def __init__(
        self, main: LedgerClient, ledgers: Iterable[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`ledgers`: the names of all ledgers but the main one."""
        self._main = main
        self._ledgers = (MAIN, *sorted(ledgers))
        self._clock = clock
        self._homes: Mapping[str, str] = {}
        self._version: bytes | None = None
        self._valid_until = -1.0
        self._reading = asyncio.Lock()
        self._twice: set[str] = set()

    async def home(self, tenant: str) -> str:
        """Return the name of the ledger where a tenant lives. One without an entry lives on the main ledger.

        Raises LedgerUnavailable for a tenant that `adopt` has found to be in use on two ledgers.
        """
        await self._refresh()
        if tenant in self._twice:
            raise LedgerUnavailable("This tenant is in use on two ledgers; see docs/operating/several-ledgers.md.")
        return self._homes.get(tenant, MAIN)

    async def adopt(self, client: LedgerClient, ledger: str) -> None:
        """Record `ledger` as the home of the tenants that are in use there and have none.

        A main ledger that was restored may have lost them. A tenant that is in use there and has another home is
        refused from then on by this process. `client` is that of the ledger.
        """
        listed = await client.tenants()
        for start in range(0, len(listed), TENANT_BATCH):
            batch = listed[start : start + TENANT_BATCH]
            fields = ("mode", *names.MOVING_FIELDS)
            records = await client.call_many([("HMGET", names.tenant_key(tenant), *fields) for tenant in batch])
            for tenant, (mode, *moving) in zip(batch, records, strict=True):
                if mode is None or any(moving):
                    continue
                await self._refresh()
                home = self._homes.get(tenant) or await self._record(tenant, ledger, new=True)
                if home != ledger:
                    log.error("tenant-on-two-ledgers", extra={"fields": {"tenant": tenant, "ledgers": [home, ledger]}})
                    self._twice.add(tenant)

    async def check(self) -> None:
        """Refuse a map that names a ledger which the settings do not have."""
        await self._refresh()
        unknown = sorted(set(self._homes.values()) - set(self._ledgers))
        if unknown:
            raise LedgerUnavailable(
                f"LEDGERS lacks {', '.join(unknown[:5])}, where tenants live; see docs/operating/several-ledgers.md."
            )

    async def place(self, tenant: str, ledger: str | None = None) -> str:
        """Record the home of a tenant that is about to be opened; return it. One that has a home keeps it.

        Without `ledger`, rendezvous hashing of the name chooses one: another ledger in the settings changes the choice
        for its share of new names alone. Raises InvalidInput for a ledger that does not exist, or if the tenant has
        another home.
        """
        names.check_tenant(tenant)
        if ledger is not None and ledger not in self._ledgers:
            raise InvalidInput("`ledger` names a ledger of the settings, or main.", field="ledger")
        chosen = ledger or max(self._ledgers, key=lambda one: hashlib.sha256(f"{one} {tenant}".encode()).digest())
        home = await self._record(tenant, chosen, new=True)
        if ledger is not None and home != ledger:
            raise InvalidInput("This tenant lives on another ledger.", field="ledger")
        return home

    async def set_home(self, tenant: str, ledger: str) -> None:
        """Record the end of a move. Every gateway uses it after `REFRESH_S` seconds."""
        if ledger not in self._ledgers:
            raise ValueError("a home is one of the ledgers")
        await self._record(names.check_tenant(tenant), ledger, new=False)

    async def _record(self, tenant: str, ledger: str, *, new: bool) -> str:
        args = {"tenant": tenant, "ledger": ledger, "new": new, "main": MAIN}
        found, _ = await self._main.run("home", key=names.HOMES_BASE_KEY, args=args)
        self._valid_until = -1.0  # the next use reads it
        return str(found["home"])

    async def _refresh(self) -> None:
        if self._clock() < self._valid_until:
            return
        async with self._reading:
            began = self._clock()
            if began < self._valid_until:
                return  # another caller has read it meanwhile
            version = await self._main.call("GET", names.HOMES_VERSION_KEY)
            if version != self._version:  # read before the map: a later change has another version
                found = await self._main.call("HGETALL", names.HOMES_KEY)
                self._homes = {tenant.decode(): home.decode() for tenant, home in found.items()}
                self._version = version
            self._valid_until = began + REFRESH_S


async def check_single(main: LedgerClient) -> None:
    """Refuse a ledger some of whose tenants live on other ledgers, for settings that name none."""
    await HomeMap(main, ()).check()
