"""Turns of tenants at a limited number of places: threads or processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpu_workers.engine.fairness import FairQueue


@dataclass(eq=False)
class _Waiting:
    tenant: str
    work: int
    turn: asyncio.Future[None]
    places: int = 1


class Turns:
    """Gives `places` to waiting callers in the order of a `FairQueue`. Used on the event loop only, without locks.

    `tenant_places`: the places that one tenant may have at the same time; by default all.
    """

    def __init__(self, places: int, *, tenant_places: int | None = None) -> None:
        self._places = places
        self._tenant_places = places if tenant_places is None else tenant_places
        self._waiting: FairQueue[_Waiting] = FairQueue()
        self._running: Counter[str] = Counter()

    @property
    def unfinished(self) -> int:
        """The callers that wait or have a place."""
        return self._waiting.places + self._running.total()

    def unfinished_of(self, tenant: str) -> int:
        return self._waiting.held(tenant)[0] + self._running[tenant]

    async def wait(self, tenant: str, work: int = 1) -> None:
        """Wait for a place, which the caller has until `end`. `work`: the estimated size of what follows."""
        waiting = _Waiting(tenant, work, asyncio.get_running_loop().create_future())
        self._waiting.append(tenant, waiting)
        self._start_next()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.cancelled():
                self._waiting.keep(lambda entry: entry is not waiting)
            else:  # the turn came in the same moment
                self.end(tenant)
            raise

    def charge(self, tenant: str, work: int) -> None:
        """Count work that was more than estimated: the tenant's next turn comes later."""
        self._waiting.charge(tenant, work)

    @asynccontextmanager
    async def turn(self, tenant: str, work: int = 1) -> AsyncIterator[None]:
        """Wait for a place, and have it within the block."""
        await self.wait(tenant, work)
        try:
            yield
        finally:
            self.end(tenant)

    def end(self, tenant: str) -> None:
        """Give the place to the next caller."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._start_next()

    def _start_next(self) -> None:
        while self._running.total() < self._places and (entry := self._next()) is not None:
            self._waiting.take_of(entry.tenant)
            if not entry.turn.cancelled():  # a cancelled caller has not yet removed its entry
                self._running[entry.tenant] += 1
                entry.turn.set_result(None)

    def _next(self) -> _Waiting | None:
        heads = self._waiting.heads()
        return next((entry for entry in heads if self._running[entry.tenant] < self._tenant_places), None)


class LedgerReads(Turns):
    """The turns of long reads of the ledger: parts of journals are written one after the other."""

    def __init__(self) -> None:
        super().__init__(1)
