"""`GET /budget/events`: that a tenant's budget has changed, as server-sent events.

One reader serves everybody who waits for changes, whatever their number. While anybody waits, it reads the number of
the last journal entry of each tenant that is waited for, every `interval_s`. A change is noticed at most that much
later. While Redis cannot be reached, nothing changes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from core.errors import LedgerError
from service.http import problems
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.exchange import EndlessStreamDep
from service.http.strict import whole_number
from service.parts import Part

log = logging.getLogger("privacy_gateway.budget")

INTERVAL_S = 2.0

ReadNumbers = Callable[[Sequence[str]], Awaitable[dict[str, int]]]


class BudgetWatch:
    """Used on the event loop only, without locks."""

    def __init__(self, read: ReadNumbers, *, interval_s: float = INTERVAL_S) -> None:
        """`read`: tenants -> the number of the last journal entry of each."""
        self._read = read
        self._interval_s = interval_s
        self._waiting: dict[str, set[asyncio.Future[int]]] = {}
        self._known: dict[asyncio.Future[int], int | None] = {}
        self._reading: asyncio.Task[None] | None = None

    async def changed(self, tenant: str, known: int | None) -> int:
        """Return the number of the tenant's last journal entry, once it is not `known`."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, set()).add(future)
        self._known[future] = known
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_regularly(at_once=known is None))
        try:
            return await future
        finally:
            del self._known[future]
            self._waiting[tenant].discard(future)
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    async def _read_regularly(self, *, at_once: bool) -> None:
        """Read until nobody waits. The first reader of a page gets its number at once."""
        if not at_once:
            await asyncio.sleep(self._interval_s)
        while self._waiting:
            try:
                numbers = await self._read(sorted(self._waiting))
            except LedgerError as error:
                log.info("budget-not-read", extra={"fields": {"code": error.code}})
            else:
                self._deliver(numbers)
            await asyncio.sleep(self._interval_s)

    def _deliver(self, numbers: dict[str, int]) -> None:
        for tenant, number in numbers.items():
            for future in self._waiting.get(tenant, ()):
                if not future.done() and self._known[future] != number:
                    future.set_result(number)


events_router = APIRouter(route_class=JsonRoute, tags=["budget"])


@events_router.get("/budget/events", summary="That the tenant's budget has changed", response_class=EventSourceResponse)
async def budget_events(
    caller: ReadCallerDep,
    watch: Part[BudgetWatch],
    open_: EndlessStreamDep,
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events `budget`, whose id is the number of the last journal entry. Several entries within about two
    seconds make one event.

    Begins with the present number, unless `Last-Event-ID` is it. Comments keep an idle connection open. A stream whose
    key is revoked or expires ends with an event `problem`, whose data is a problem document.
    """
    known = whole_number(last_event_id)
    while True:
        changed = asyncio.create_task(watch.changed(caller.tenant, known))
        ended = asyncio.create_task(open_.ended.wait())
        try:
            await asyncio.wait({changed, ended}, return_when=asyncio.FIRST_COMPLETED)
            if changed.done():
                known = changed.result()
                yield ServerSentEvent(event="budget", id=str(known), data={"last_entry": known})
            elif open_.error is not None:
                yield ServerSentEvent(event="problem", data=problems.block_of(open_.error))
                return
        finally:
            changed.cancel()
            ended.cancel()
