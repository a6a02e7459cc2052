"""What every gateway does regularly: check Redis' settings, measure how late the event loop is, and return freed memory
to the system. It also runs the duties that one gateway does for all (`service/operation/duties.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.errors import LedgerError
from service import metrics
from service.config.settings import Settings
from service.ledger import LedgerParts
from service.operation.duties import Duties, regularly
from service.operation.freed_memory import TRIM_INTERVAL_S, trim
from service.operation.loop_lag import measure_loop_lag
from service.operation.presence import GatewayPresence


class Maintenance:
    """The background tasks of a gateway and its ledger."""

    def __init__(self, settings: Settings, parts: LedgerParts, duties: Duties) -> None:
        self._settings = settings
        self._client = parts.client
        self._parts = parts
        self._ledger = parts.ledger
        self._sealer = parts.sealer
        self._schema = parts.schema
        self._duties = duties
        self._presence = GatewayPresence(parts.client, duties.lease.holder, ttl_s=settings.duties_lease_s)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = False

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background until `stop`."""
        self._tasks.append(asyncio.create_task(work))

    async def open_ledger(self) -> None:
        """Check the schema and the seals, and write a seal. Raises LedgerNotTrusted, LedgerUnavailable."""
        await self._presence.begin()
        self.run(self._presence.renew_regularly())
        await self._schema.before_seals()
        await self._sealer.check()
        await self._schema.after_seals()
        await self._sealer.seal(always=True)  # a copy from before this start is then recognised as older
        await self._sealer.store_epoch()
        self._is_open = True
        await self._duties.begin()

    def start(self) -> None:
        self.run(measure_loop_lag())
        metrics.LEDGER_DURABLE.set(1)
        self.run(regularly(self._watch_durability, self._settings.durability_interval_s, "durability-not-checked"))
        self.run(regularly(lambda: asyncio.to_thread(trim), TRIM_INTERVAL_S, "memory-not-trimmed"))
        for work in self._duties.work():
            self.run(work)

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
        await self._presence.end()
        with contextlib.suppress(LedgerError):
            await self._parts.close()

    async def _watch_durability(self) -> None:
        metrics.LEDGER_DURABLE.set(await self._client.watch_durability())
