"""`GET /budget/events`: that a tenant's budget has changed, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from service.budget.watch import BudgetWatch
from service.http import problems
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.open_streams import EndlessStreamDep
from service.http.strict import whole_number
from service.parts import Part

events_router = APIRouter(route_class=JsonRoute, tags=["budget"])


@events_router.get("/budget/events", summary="That the tenant's budget has changed", response_class=EventSourceResponse)
async def events(
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
