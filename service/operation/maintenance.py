"""What every gateway does regularly: check Redis' settings, measure how late the event loop is, and return freed memory
to the system. It also runs the duties that one gateway does for all (`service/operation/duties.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.blob_errors import BlobError
from core.errors import LedgerError
from core.freed_memory import TRIM_INTERVAL_S, trim
from service.config.settings import Settings
from service.ledgers import Ledgers
from service.operation.duties import regularly, until_done
from service.operation.loop_lag import measure_loop_lag
from service.operation.upkeep import LedgerUpkeep

log = logging.getLogger("privacy_gateway.maintenance")

_RETRY_S = 5.0


class Maintenance:
    """The background tasks of a gateway and its ledgers."""

    def __init__(self, settings: Settings, ledgers: Ledgers, *, is_alone: bool) -> None:
        """`is_alone`: no other process can serve the main ledger."""
        self._ledgers = ledgers
        self._main = LedgerUpkeep(settings, ledgers.main, is_alone=is_alone)
        self._named = {name: LedgerUpkeep(settings, parts, is_alone=False) for name, parts in ledgers.named.items()}
        self._opened: list[LedgerUpkeep] = []  # those whose work begins with `start`
        self._started = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background until `stop`."""
        self._tasks.append(asyncio.create_task(work))

    async def open_ledgers(self, opened_later: Callable[[], Awaitable[object]]) -> None:
        """Open the main ledger, and each other one that can be reached. Raises LedgerNotTrusted, LedgerUnavailable.

        The others are opened later, in the background; `opened_later` is called after each. Until then their tenants
        are refused, and no others.
        """
        await self._begin(self._main)
        await self._ledgers.check_main()
        await self._main.open()
        await self._ledgers.use_main()
        await self._main.take_duties()
        self._opened.append(self._main)
        for upkeep in self._named.values():
            if await self._opens(upkeep):
                self._opened.append(upkeep)
            else:
                self.run(self._open_later(upkeep, opened_later))

    def start(self) -> None:
        """Begin the work. Call this when the jobs are open, whose holds must not be taken for overdue ones."""
        for upkeep in self._opened:
            self._do_duties(upkeep)
        self._started.set()
        self.run(measure_loop_lag())
        self.run(regularly(lambda: asyncio.to_thread(trim), TRIM_INTERVAL_S, "memory-not-trimmed"))

    def seal_age_s(self) -> float:
        """The longest time since a ledger was last sealed, as far as this gateway has seen."""
        return max(one.seal_age_s() for one in (self._main, *self._named.values()))

    async def _begin(self, upkeep: LedgerUpkeep) -> None:
        for work in await upkeep.begin():
            self.run(work)

    def _do_duties(self, upkeep: LedgerUpkeep) -> None:
        for work in upkeep.work():
            self.run(work)

    async def _opens(self, upkeep: LedgerUpkeep) -> bool:
        """Open a ledger beside the main one. Returns whether it is open."""
        try:
            await self._ledgers.check_name(upkeep.name)
            await self._begin(upkeep)
            await upkeep.open()
            await self._ledgers.use(upkeep.name)
            await upkeep.take_duties()
        except (LedgerError, BlobError, OSError) as error:
            fields = {"ledger": upkeep.name, "kind": type(error).__name__, "detail": str(error)}
            log.error("ledger-not-opened", extra={"fields": fields})
            return False
        return True

    async def _open_later(self, upkeep: LedgerUpkeep, opened_later: Callable[[], Awaitable[object]]) -> None:
        is_open = False
        while not is_open:
            await asyncio.sleep(_RETRY_S)
            is_open = await self._opens(upkeep)
        log.info("ledger-opened", extra={"fields": {"ledger": upkeep.name}})
        await self._started.wait()
        self._do_duties(upkeep)
        await until_done(opened_later, _RETRY_S, "jobs-not-found")

    async def stop(self, before_closing: Callable[[], Awaitable[None]]) -> None:
        """End the tasks, do what other parts still do with the ledger, end the duties and close the ledger."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        await before_closing()
        await asyncio.gather(*(one.end() for one in (self._main, *self._named.values())))
