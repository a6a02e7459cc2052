"""What every gateway does regularly: be present on the ledger, check Redis' settings, measure how late the event loop
is, and return freed memory to the system. It also runs the duties that one gateway does for all
(`service/operation/duties.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import version
from typing import Any

from core.errors import LedgerError
from core.ledger.client import LedgerClient
from core.ledger.presence import Presence, Presences
from core.ledger.ranks import SubjectRanks
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import SpendingTotals
from core.ledger.store_identity import check_store
from core.memory import TRIM_INTERVAL_S, trim
from service import metrics
from service.config.settings import Settings
from service.ledger import LedgerParts
from service.operation.duties import Duties, regularly

_INTERVAL_S = 0.02

log = logging.getLogger("privacy_gateway.maintenance")

_BEATS_PER_LEASE = 5


class GatewayPresence:
    """Renews the presence `gateway_id`, which ends `ttl_s` after the last renewal."""

    def __init__(
        self,
        client: LedgerClient,
        gateway_id: str,
        *,
        ttl_s: float,
    ) -> None:
        self._presences = Presences(client)
        self._ttl_s = ttl_s
        self._presence = Presence(
            gateway_id=gateway_id,
            name=socket.gethostname()[:64],
            version=version("privacy-gateway"),
            started_ms=int(time.time() * 1000),
        )

    async def begin(self) -> None:
        """Become present. Raises LedgerUnavailable."""
        await self._presences.beat(self._presence, ttl_ms=self._ttl_ms)

    async def renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._ttl_s / _BEATS_PER_LEASE)
            try:
                present = await self._presences.beat(self._presence, ttl_ms=self._ttl_ms)
            except LedgerError:
                continue  # Redis is away
            except Exception as error:
                log.warning("presence-not-renewed", extra={"fields": {"kind": type(error).__name__}})
                continue
            metrics.GATEWAYS_PRESENT.set(present)

    async def end(self) -> None:
        with contextlib.suppress(LedgerError):
            await self._presences.leave(self._presence.gateway_id)

    @property
    def _ttl_ms(self) -> int:
        return int(self._ttl_s * 1000)


async def measure_loop_lag() -> None:
    """Sleep again and again, and record by how much each sleep was too long. A lag is seen up to 20 ms shorter."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _INTERVAL_S
        await asyncio.sleep(_INTERVAL_S)
        metrics.EVENT_LOOP_LAG.observe(max(0.0, loop.time() - due))


class Maintenance:
    """The background tasks of a gateway and its ledger."""

    def __init__(self, settings: Settings, parts: LedgerParts, *, is_alone: bool) -> None:
        """`is_alone`: no other process can serve this ledger."""
        self._settings = settings
        self._parts = parts
        self._is_alone = is_alone
        self._duties = Duties(
            settings,
            parts,
            folds=tuple(fold(parts.client, archive=parts.archive) for fold in (LedgerSeries, SpendingTotals)),
            ranks=SubjectRanks(parts.client, archive=parts.archive),
            is_alone=is_alone,
        )
        self._presence = GatewayPresence(parts.client, self._duties.lease.holder, ttl_s=settings.duties_lease_s)
        self._is_present = self._is_open = False
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background until `stop`."""
        self._tasks.append(asyncio.create_task(work))

    async def open_ledger(self) -> None:
        """Become present, check the ledger and the blob store, write a seal, and take the duties if nobody has them.

        Raises LedgerNotTrusted, LedgerUnavailable, StoreUnavailable.
        """
        parts = self._parts
        await parts.ledger.check()
        await self._presence.begin()
        self._is_present = True
        self.run(self._presence.renew_regularly())
        await parts.sealer.check()
        await check_store(parts.client, parts.blobs, alone=self._is_alone)  # before the epoch is written to the store
        await parts.sealer.seal(always=True)  # a copy from before this start is then recognised as older
        await parts.sealer.store_epoch()
        await self._duties.begin()
        self._is_open = True

    def start(self) -> None:
        """Begin the work. Call this when the jobs are open, whose holds must not be taken for overdue ones."""
        metrics.LEDGER_DURABLE.set(1)
        self.run(regularly(self._watch_durability, self._settings.durability_interval_s, "durability-not-checked"))
        for work in self._duties.work():
            self.run(work)
        self.run(measure_loop_lag())
        self.run(regularly(lambda: asyncio.to_thread(trim), TRIM_INTERVAL_S, "memory-not-trimmed"))

    def seal_age_s(self) -> float:
        """The time since a gateway last sealed the ledger, as far as this one has seen."""
        return self._duties.seal_age_s()

    async def stop(self, before_closing: Callable[[], Awaitable[None]]) -> None:
        """End the tasks, do what other parts still do with the ledger, end the duties and close the ledger."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        await before_closing()
        if self._is_open:
            await self._duties.end()
        if self._is_present:
            await self._presence.end()
        with contextlib.suppress(LedgerError):
            await self._parts.close()

    async def _watch_durability(self) -> None:
        metrics.LEDGER_DURABLE.set(await self._parts.client.watch_durability())
