"""What every gateway does regularly, and the duties that one gateway does for all.

Every gateway is present on the ledger, checks Redis' settings, measures how late the event loop is, and returns freed
memory to the system. The duties are to seal, expire overdue holds, fold the journal, rank the subjects, archive old
entries and measure budgets.

Guarantee: a gateway begins the duties only while it holds their lease, and only the lease's holder writes seals at
intervals. If the holder dies, another gateway takes the lease over when it has ended, at most `DUTIES_LEASE_S` and a
fifth of it later; after an orderly stop, at the next attempt. The others verify that the seals continue from the last
one that they have seen, and advance their epoch.
"""

import asyncio
import contextlib
import heapq
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from core.errors import BlobError, LedgerError, LedgerNotTrusted
from core.ledger.records import AccountState
from core.ledger.tenant_rounds import Done, TenantActivity, TenantPosition, over_tenants
from core.ledger.transitions import Ledger
from core.memory import TRIM_INTERVAL_S, trim
from core.redis.client import LedgerClient
from core.redis.identity import check_store
from core.reports.ranks import SubjectRanks
from core.reports.series import JournalFold, LedgerSeries, SpendingTotals
from core.state.gateways import DutyLease, Presence, Presences
from service import metrics
from service.config.settings import Settings
from service.ledger_connection import LedgerParts, archives

log = logging.getLogger("privacy_gateway.maintenance")

ATTEMPTS_PER_LEASE = 5
# If the holder of the duties dies, another gateway takes over at most 1.2 times this later. Overdue holds, seals and
# series wait for as long, and a gateway that stops for less keeps the lease.
DUTIES_LEASE_S = 15.0
EXPIRE_INTERVAL_S = 5.0  # an overdue hold is spent this much later, which is short beside the time that a hold has
SERIES_INTERVAL_S = 5.0  # how old the series of the dashboard are; a round without new entries reads one number
# A record that was set back is noticed at most this and SEAL_INTERVAL_S later. In this time, the record of each tenant
# without new entries is compared once.
IDLE_CHECK_INTERVAL_S = 60.0
EPOCH_STORE_INTERVAL_S = 60.0  # one small object of the blob store each; a start and an orderly stop write it, too
BUDGET_METRICS_INTERVAL_S = 60.0  # Prometheus reads metrics about as often; only accounts that have changed are read
BUDGET_METRICS_MAX = 50  # accounts with a series of their own, so that many tenants do not grow the answer of a scrape
DURABILITY_INTERVAL_S = 2.0  # between two checks of the settings of Redis, which one command reads

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
        self.lease = DutyLease(parts.client, ttl_s=DUTIES_LEASE_S)
        self._settings = settings
        self._client = parts.client
        self._ledger = parts.ledger
        self._sealer = parts.sealer
        self._archiver = parts.archiver if archives(settings) else None
        self._aggregates = (*(fold.fold_all for fold in folds), ranks.rank_all)
        self._budgets = BudgetMetrics(parts.ledger, accounts_max=BUDGET_METRICS_MAX)
        self._activity = TenantActivity(parts.client, check_interval_s=IDLE_CHECK_INTERVAL_S)
        self._is_alone = is_alone
        self._sealed_ms = 0
        self._sealed_at: float | None = None

    async def begin(self) -> None:
        """Take the lease if no other gateway holds it. Raises LedgerUnavailable."""
        self._note_seal(0.0)  # the start has sealed the ledger
        await self._keep_lease(force=self._is_alone)

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """What runs until the gateway stops."""
        return [
            regularly(self._keep_lease, DUTIES_LEASE_S / ATTEMPTS_PER_LEASE, "lease-not-kept"),
            regularly(self._expire, EXPIRE_INTERVAL_S, "expire-failed"),
            regularly(self._aggregate, SERIES_INTERVAL_S, "fold-failed"),
            regularly(self._store_epoch, EPOCH_STORE_INTERVAL_S, "epoch-not-stored"),
            regularly(self._measure, BUDGET_METRICS_INTERVAL_S, "budgets-not-measured"),
            self._seal_regularly(),
            regularly(self._archive, self._settings.archive_interval_s, "archive-failed"),
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


_INTERVAL_S = 0.02

_BEATS_PER_LEASE = 5


class GatewayPresence:
    """Renews the presence `gateway_id`, which ends `ttl_s` after the last renewal."""

    def __init__(self, client: LedgerClient, gateway_id: str, *, ttl_s: float) -> None:
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
        self._presence = GatewayPresence(parts.client, self._duties.lease.holder, ttl_s=self._duties.lease.ttl_s)
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
        self.run(regularly(self._watch_durability, DURABILITY_INTERVAL_S, "durability-not-checked"))
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
