"""What a gateway does regularly: check Redis' settings, seal the ledger, expire overdue holds, fold the journal and
rank the subjects.

It also measures budgets and how late the event loop is, and returns freed memory to the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from core.errors import LedgerError, LedgerNotTrusted
from core.ledger.journal_fold import JournalFold
from core.ledger.ranks import SubjectRanks
from service import metrics
from service.config.settings import Settings
from service.ledger import LedgerParts
from service.operation.budget_metrics import BudgetMetrics
from service.operation.freed_memory import TRIM_INTERVAL_S, trim
from service.operation.loop_lag import measure_loop_lag

log = logging.getLogger("privacy_gateway.maintenance")


class Maintenance:
    """The background tasks of a gateway and its ledger."""

    def __init__(
        self, settings: Settings, parts: LedgerParts, *, folds: Sequence[JournalFold], ranks: SubjectRanks
    ) -> None:
        self._settings = settings
        self._client = parts.client
        self._ledger = parts.ledger
        self._sealer = parts.sealer
        self._folds = folds
        self._ranks = ranks
        self._budgets = BudgetMetrics(parts.ledger, accounts_max=settings.budget_metrics_max)
        self._tasks: list[asyncio.Task[None]] = []
        self._sealing = False
        self._sealed_at: float | None = None

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background until `stop`."""
        self._tasks.append(asyncio.create_task(work))

    async def open_ledger(self) -> None:
        """Check the seals, migrate, and write a seal. Raises LedgerNotTrusted, LedgerUnavailable."""
        await self._sealer.check()
        await self._ledger.migrate()
        await self._sealer.seal(always=True)  # a copy from before this start is then recognised as older
        self._sealing = True

    def start(self) -> None:
        self.run(measure_loop_lag())
        metrics.LEDGER_DURABLE.set(1)
        self.run(_regularly(self._watch_durability, self._settings.durability_interval_s, "durability-not-checked"))
        self.run(_regularly(self._ledger.expire_overdue, self._settings.expire_interval_s, "expire-failed"))
        for fold in self._folds:
            self.run(_regularly(fold.fold_all, self._settings.series_interval_s, "fold-failed"))
        self.run(_regularly(self._ranks.rank_all, self._settings.series_interval_s, "ranking-failed"))
        self.run(_regularly(lambda: asyncio.to_thread(trim), TRIM_INTERVAL_S, "memory-not-trimmed"))
        self.run(_regularly(self._budgets.measure, self._settings.budget_metrics_interval_s, "budgets-not-measured"))
        self.run(self._seal_regularly())

    def seal_age_s(self) -> float:
        """The time since this gateway last completed a sealing round; 0 before the first one."""
        return time.monotonic() - self._sealed_at if self._sealed_at else 0.0

    async def stop(self, before_closing: Callable[[], Awaitable[None]]) -> None:
        """End the tasks, do what other parts still do with the ledger, write a last seal and close the ledger."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        await before_closing()
        with contextlib.suppress(LedgerError):
            if self._sealing:
                await self._sealer.seal()
        with contextlib.suppress(LedgerError):
            await self._ledger.close()

    async def _watch_durability(self) -> None:
        metrics.LEDGER_DURABLE.set(await self._client.watch_durability())

    def _note_seal(self) -> None:
        self._sealed_at = time.monotonic()
        metrics.SEALED_AT.set_to_current_time()

    async def _seal_regularly(self) -> None:
        """Seal new entries until the gateway stops. A ledger that is no longer trusted answers nothing from then on."""
        self._note_seal()
        while True:
            await asyncio.sleep(self._settings.seal_interval_s)
            try:
                await self._sealer.seal()
                self._note_seal()
            except LedgerNotTrusted:
                return  # the log has the reason
            except Exception as error:  # whatever it was, the next round tries again
                log.warning("seal-failed", extra={"fields": {"kind": type(error).__name__}})


async def _regularly(work: Callable[[], Awaitable[object]], interval_s: float, failure: str) -> None:
    """Do `work` every `interval_s` seconds until the gateway stops."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await work()
        except Exception as error:  # whatever it was, the next round tries again
            log.warning(failure, extra={"fields": {"kind": type(error).__name__}})
