"""What one gateway does for all gateways of a ledger: seal, expire overdue holds, fold the journal, rank the subjects,
archive old entries and measure budgets.

Guarantee: a gateway begins these only while it holds the lease of the duties, and only the lease's holder writes seals
at intervals. If the holder dies, another gateway takes the lease over when it has ended, at most `DUTIES_LEASE_S` and a
fifth of it later; after an orderly stop, at the next attempt. The others verify that the seals continue from the last
one that they have seen, and advance their epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from core.blob_errors import BlobError
from core.errors import LedgerError, LedgerNotTrusted
from core.ledger.activity import Done, TenantActivity, TenantPosition
from core.ledger.duty_lease import DutyLease
from core.ledger.journal_fold import JournalFold
from core.ledger.ledger import Ledger
from core.ledger.ranks import SubjectRanks
from core.ledger.records import AccountState
from core.ledger.tenant_rounds import over_tenants
from service import metrics
from service.config.settings import Settings
from service.ledger import LedgerParts, archives

log = logging.getLogger("privacy_gateway.maintenance")

ATTEMPTS_PER_LEASE = 5

_Labels = tuple[str, str]  # tenant and unit


class BudgetMetrics:
    """Measures the `accounts_max` own accounts with the largest used share, so that Prometheus can warn
    before they run out. An account that is no longer among them loses its series. `measure` is called regularly."""

    def __init__(self, ledger: Ledger, *, accounts_max: int) -> None:
        self._ledger = ledger
        self._accounts_max = accounts_max
        self._shown: set[_Labels] = set()
        self._done = Done()
        self._shares: dict[str, list[tuple[float, _Labels]]] = {}

    async def measure(self, positions: Mapping[str, TenantPosition]) -> None:
        """Read the own accounts of the tenants that have changed. Raises LedgerUnavailable."""
        for tenant in self._shares.keys() - positions.keys():
            del self._shares[tenant]
        self._done.keep(positions)
        await over_tenants(self._done.pending(positions), lambda tenant: self._read(tenant, positions[tenant]))
        shares = [row for rows in self._shares.values() for row in rows]
        metrics.BUDGETS_EXHAUSTED.set(sum(share >= 1 for share, _ in shares))
        self._show(heapq.nlargest(self._accounts_max, shares))

    def clear(self) -> None:
        """Show nothing: another gateway measures."""
        if self._shown:
            metrics.BUDGETS_EXHAUSTED.set(0)
            self._show(())

    async def _read(self, tenant: str, position: TenantPosition) -> int:
        if position.seq:  # else it is the name of an interrupted `open_tenant`
            states = await self._ledger.own_accounts(tenant)
            self._shares[tenant] = await asyncio.to_thread(_shares, states)
        self._done.note(tenant, position)
        return 1

    def _show(self, fullest: Iterable[tuple[float, _Labels]]) -> None:
        shown = {labels: share for share, labels in fullest}
        for labels in self._shown - shown.keys():
            metrics.BUDGET_USED.remove(*labels)
        for labels, share in shown.items():
            metrics.BUDGET_USED.labels(*labels).set(share)
        self._shown = set(shown)


def _shares(states: Iterable[AccountState]) -> list[tuple[float, _Labels]]:
    """The accounts that are in use."""
    shares = [(state.used_share, (state.account.partition("/")[0], state.unit.value)) for state in states]
    return [(share, labels) for share, labels in shares if share > 0]


class Duties:
    """The duties of one gateway. `is_alone`: no other process can serve this ledger, so the lease is taken at once."""

    def __init__(
        self,
        settings: Settings,
        parts: LedgerParts,
        *,
        folds: Sequence[JournalFold],
        ranks: SubjectRanks,
        is_alone: bool,
    ) -> None:
        self.lease = DutyLease(parts.client, ttl_s=settings.duties_lease_s)
        self._settings = settings
        self._client = parts.client
        self._ledger = parts.ledger
        self._sealer = parts.sealer
        self._archiver = parts.archiver if archives(settings) else None
        self._aggregates = (*(fold.fold_all for fold in folds), ranks.rank_all)
        self._budgets = BudgetMetrics(parts.ledger, accounts_max=settings.budget_metrics_max)
        self._activity = TenantActivity(parts.client, check_interval_s=settings.idle_check_interval_s)
        self._is_alone = is_alone
        self._sealed_ms = 0
        self._sealed_at: float | None = None

    async def begin(self) -> None:
        """Take the lease if no other gateway holds it. Raises LedgerUnavailable."""
        self._note_seal(0.0)  # the start has sealed the ledger
        await self._keep_lease(force=self._is_alone)

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """What runs until the gateway stops."""
        settings = self._settings
        return [
            regularly(self._keep_lease, settings.duties_lease_s / ATTEMPTS_PER_LEASE, "lease-not-kept"),
            regularly(self._expire, settings.expire_interval_s, "expire-failed"),
            regularly(self._aggregate, settings.series_interval_s, "fold-failed"),
            regularly(self._store_epoch, settings.epoch_store_interval_s, "epoch-not-stored"),
            regularly(self._measure, settings.budget_metrics_interval_s, "budgets-not-measured"),
            self._seal_regularly(),
            regularly(self._archive, settings.archive_interval_s, "archive-failed"),
        ]

    async def end(self) -> None:
        """Write a last seal, and give the lease to another gateway."""
        with contextlib.suppress(LedgerError):
            if await self.lease.take(sealed_ms=self._sealed_ms):
                await self._sealer.seal(lease=self.lease)
                with contextlib.suppress(BlobError, OSError):
                    await self._sealer.store_epoch()
        with contextlib.suppress(LedgerError):
            await self.lease.release()

    def seal_age_s(self) -> float:
        """The time since a gateway last completed a sealing round, as far as this one has seen; 0 before the first."""
        return time.monotonic() - self._sealed_at if self._sealed_at is not None else 0.0

    async def _keep_lease(self, *, force: bool = False) -> None:
        try:
            await self.lease.take(sealed_ms=self._sealed_ms, force=force)
        finally:
            metrics.HOLDS_DUTIES.set(self.lease.is_held)
        last = self.lease.last
        if last is not None and last.sealed_ms:
            self._note_seal(max(0.0, (last.now_ms - last.sealed_ms) / 1000))

    async def _expire(self) -> None:
        if self.lease.is_held:
            await self._ledger.expire_overdue(await self._activity.positions())

    async def _aggregate(self) -> None:
        if not self.lease.is_held:
            return
        positions = await self._activity.positions()
        ended = await asyncio.gather(*(work(positions) for work in self._aggregates), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def _archive(self) -> None:
        if self._archiver is not None and self.lease.is_held:
            await self._archiver.run_once()

    async def _store_epoch(self) -> None:
        if self.lease.is_held:
            await self._sealer.store_epoch()

    async def _measure(self) -> None:
        if self.lease.is_held:
            await self._budgets.measure(await self._activity.positions())
        else:
            self._budgets.clear()

    async def _seal_regularly(self) -> None:
        """Seal new entries, or follow the seals of another gateway, until the gateway stops.

        A ledger that is no longer trusted answers nothing from then on.
        """
        while True:
            await asyncio.sleep(self._settings.seal_interval_s)
            try:
                if self.lease.is_held:
                    began_ms = await self._client.now_ms()
                    await self._sealer.seal(lease=self.lease, positions=self._activity.positions)
                    if self.lease.is_held:
                        self._sealed_ms = began_ms
                        self._note_seal(0.0)
                else:
                    await self._sealer.follow()
            except LedgerNotTrusted:
                return  # the log has the reason
            except Exception as error:  # whatever it was, the next round tries again
                log.warning("seal-failed", extra={"fields": {"kind": type(error).__name__}})

    def _note_seal(self, age_s: float) -> None:
        at = time.monotonic() - age_s
        if self._sealed_at is None or at > self._sealed_at:
            self._sealed_at = at
            metrics.SEALED_AT.set(time.time() - age_s)


async def regularly(work: Callable[[], Awaitable[object]], interval_s: float, failure: str) -> None:
    """Do `work` every `interval_s` seconds until the gateway stops."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except Exception as error:  # whatever it was, the next round tries again
            log.warning(failure, extra={"fields": {"kind": type(error).__name__}})
