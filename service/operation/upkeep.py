"""What a gateway does for one ledger: open it, be present on it, watch its settings, and take its duties."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Coroutine
from typing import Any

from core.errors import LedgerError
from core.ledger.homes import MAIN
from core.ledger.ranks import SubjectRanks
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import SpendingTotals
from core.ledger.store_identity import check_store
from service.config.settings import Settings
from service.ledger import LedgerParts
from service.operation import ledger_gauges
from service.operation.duties import Duties, regularly
from service.operation.presence import GatewayPresence


class LedgerUpkeep:
    """The upkeep of one ledger by this gateway. `is_alone`: no other process can serve this ledger."""

    def __init__(self, settings: Settings, parts: LedgerParts, *, is_alone: bool) -> None:
        self.name = parts.name
        self.duties = Duties(
            settings,
            parts,
            folds=tuple(fold(parts.client, archive=parts.archive) for fold in (LedgerSeries, SpendingTotals)),
            ranks=SubjectRanks(parts.client, archive=parts.archive),
            is_alone=is_alone,
        )
        self._settings = settings
        self._parts = parts
        self._is_alone = is_alone
        ledger_gauges.OPEN.labels(parts.name).set(0)
        self._presence = GatewayPresence(
            parts.client,
            self.duties.lease.holder,
            ttl_s=settings.duties_lease_s,
            ledger=parts.name,
            is_serving=lambda: self._is_sealed,
        )
        self._began_at = time.monotonic()
        self._is_present = self._is_sealed = self._has_duties = False

    async def begin(self) -> list[Coroutine[Any, Any, None]]:
        """Check Redis and become present. Returns what keeps the presence, to be run until the end, at the first call.

        Raises LedgerUnavailable.
        """
        if self._is_present:
            return []
        await self._parts.ledger.check()
        await self._presence.begin()
        self._is_present = True
        return [self._presence.renew_regularly()]

    async def open(self) -> None:
        """Check the schema, the seals and, of the main ledger, the blob store, and write a seal. What has succeeded is
        not repeated.

        Call this after `begin`: a gateway is present before it reads the schema. Raises LedgerNotTrusted,
        LedgerUnavailable, StoreUnavailable.
        """
        if not self._is_sealed:
            await self._parts.schema.before_seals()
            await self._parts.sealer.check()
            await self._parts.schema.after_seals()
            if self.name == MAIN:  # before the epoch is written to the store
                await check_store(self._parts.client, self._parts.blobs, alone=self._is_alone)
            await self._parts.sealer.seal(always=True)  # a copy from before this start is then recognised as older
            self._is_sealed = True
        await self._parts.sealer.store_epoch()

    async def take_duties(self) -> None:
        """Take the duties if no other gateway has them. `work` does them. Raises LedgerUnavailable."""
        await self.duties.begin()
        self._has_duties = True

    def seal_age_s(self) -> float:
        """The time since a gateway last sealed the ledger, as far as this one has seen.

        Until the ledger is open, it is the time since the start.
        """
        return self.duties.seal_age_s() if self._is_sealed else time.monotonic() - self._began_at

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """What runs from then on until the gateway stops."""
        ledger_gauges.DURABLE.set(self.name, 1)
        ledger_gauges.OPEN.labels(self.name).set(1)
        interval_s = self._settings.durability_interval_s
        return [regularly(self._watch_durability, interval_s, "durability-not-checked"), *self.duties.work()]

    async def end(self) -> None:
        """End the duties and the presence."""
        if self._has_duties:
            await self.duties.end()
        if self._is_present:
            await self._presence.end()
        with contextlib.suppress(LedgerError):
            await self._parts.close()

    async def _watch_durability(self) -> None:
        ledger_gauges.DURABLE.set(self.name, await self._parts.client.watch_durability())
