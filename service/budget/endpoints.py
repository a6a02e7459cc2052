"""Budget queries: what remains and what was spent. None of them charges.

The capability at the end has all of this folder: accounts, their journal, what was spent, what still fits and
estimates.
"""

import asyncio
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from core.accounting.events import Unit
from core.amounts import EPSILON_MAX, cost_nano
from core.errors import InvalidInput
from core.ledger.archive.store import LedgerArchive
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.reports.integrity import IntegrityReads
from core.reports.ranks import SubjectRanks
from core.reports.series import LedgerSeries, SeriesQuery, SpendingTotals, SubjectClass
from core.state.keystore import KeyRole
from service.admission import LedgerReads
from service.budget.bounds import router as bounds
from service.budget.events import BudgetWatch, events_router
from service.budget.forecasting import BudgetForecast, forecast_of
from service.budget.integrity import AuditNow, admin_router
from service.budget.integrity import router as integrity
from service.budget.journal import router as journal
from service.budget.pricing import estimate_router, headroom_router
from service.budget.spending import router as spending
from service.capability import Capability, View
from service.config.settings import Settings
from service.http.answers import BudgetAmount, doc
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.http.strict import Digits, PagingDep
from service.ledger_connection import LedgerParts
from service.parts import Part, Parts
from service.releases.answers import (
    Account,
    AccountsPage,
    BudgetSeries,
    account_block,
    block_with_history,
    page_answer,
    series_block,
)

series_router = APIRouter(route_class=JsonRoute, tags=["budget"])
# To be included last of this prefix: its paths match those of the others.
account_router = APIRouter(route_class=JsonRoute, tags=["budget"])


class SeriesParameters(BaseModel):
    """Query of `GET /budget/series`. Times are milliseconds since the epoch."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    from_ms: Digits | None = Field(None, alias="from", description="Default: a day before `to`.")
    to_ms: Digits | None = Field(None, alias="to", description="Exclusive. Default, and at most: now.")
    step: Digits | None = Field(
        None, description="60, 600, 3600, 21600 or 86400 seconds. Default: the finest that is kept and fits."
    )
    unit: Unit | None = None
    mechanism: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9_.+-]{0,127}$", description="A `+` is sent as %2B.")
    subject_class: SubjectClass | None = Field(None, alias="class")


class SubjectsPage(TypedDict):
    """A page of subjects' accounts."""

    account: Annotated[str, doc("The tenant's own account, of whose unit they are.")]
    remaining: Annotated[BudgetAmount, doc("What that account has left.")]
    subjects: Annotated[list[Account], doc("The subjects' accounts, the least remaining first.")]
    up_to_date: Annotated[bool, doc("Whether the order counts every release.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


@series_router.get(
    "/budget",
    summary="The accounts of the tenant, page by page: its own, then its subjects'",
    response_model=AccountsPage,
)
async def list_accounts(
    caller: ReadCallerDep, ledger: Part[Ledger], settings: Part[Settings], reads: Part[LedgerReads], page: PagingDep
) -> Response:
    with await reads.wait(caller.tenant, page.limit):
        found = await ledger.accounts_page(caller.tenant, cursor=page.cursor, limit=page.limit)
        return await page_answer(found, settings.display_delta)


@series_router.get(
    "/budget/series",
    summary="Committed and reserved over time, by unit, mechanism and subject class",
    response_model=BudgetSeries,
)
async def get_series(
    caller: ReadCallerDep,
    series: Part[LedgerSeries],
    reads: Part[LedgerReads],
    query: Annotated[SeriesParameters, Query()],
) -> Response:
    wanted = SeriesQuery(
        from_ms=query.from_ms,
        to_ms=query.to_ms,
        step_s=query.step,
        unit=query.unit,
        mechanism=query.mechanism,
        subject_class=query.subject_class,
    )
    with await reads.wait(caller.tenant):
        page = await series.read(caller.tenant, wanted)
        # Up to 48,000 points: serialised in a thread and without models, so that the event loop does not wait.
        content = await asyncio.to_thread(lambda: orjson.dumps(series_block(page)))
    return Response(content, media_type="application/json")


@account_router.get("/budget/{account:path}/subjects", summary="Subjects by what remains of their budgets, least first")
async def subjects(
    account: str,
    caller: ReadCallerDep,
    ledger: Part[Ledger],
    ranks: Part[SubjectRanks],
    page: PagingDep,
    near: Annotated[
        float | None, Query(description="Only subjects whose next pure release of this epsilon is refused")
    ] = None,
) -> SubjectsPage:
    """Lists the subjects' accounts of the unit of one of the tenant's own accounts.

    The order counts what was spent a few seconds ago (`up_to_date`); the figures are those of now, with open holds.
    """
    below_nano = None if near is None else _near_nano(near)
    quota = await ledger.account(caller.tenant, account)
    if quota.subject_hash is not None:
        raise InvalidInput("Subjects are listed for one of the tenant's own accounts.", field="account")
    found = await ranks.page(caller.tenant, quota.unit, below_nano=below_nano, cursor=page.cursor, limit=page.limit)
    blocks = await asyncio.to_thread(lambda: [account_block(state) for state in found.accounts])
    return {
        "account": account,
        "remaining": amount(quota.remaining),
        "subjects": blocks,
        "up_to_date": found.up_to_date,
        "next_cursor": found.next_cursor,
    }


def _near_nano(epsilon: float) -> int:
    try:
        return cost_nano(epsilon)
    except ValueError:
        raise InvalidInput(f"an epsilon between 0 and {EPSILON_MAX}", field="near") from None


@account_router.get("/budget/{account:path}/forecast", summary="When the account runs out: an estimate, with a band")
async def account_forecast(
    account: str, caller: ReadCallerDep, ledger: Part[Ledger], series: Part[LedgerSeries]
) -> BudgetForecast:
    """Exhausted means that the sum of epsilon reaches the value at which the account admits nothing more, if future
    releases are of the same kinds as the past ones."""
    state = await ledger.account(caller.tenant, account)
    return await forecast_of(state, caller.tenant, ledger, series, now_ms=await ledger.now_ms())


# Last, because `account` holds slashes: this path would match those above.
@account_router.get("/budget/{account:path}", summary="One account, by its id")
async def get_account(account: str, caller: ReadCallerDep, ledger: Part[Ledger], settings: Part[Settings]) -> Account:
    state = await ledger.account(caller.tenant, account)
    return await asyncio.to_thread(block_with_history, state, settings.display_delta)


def _series(parts: Parts) -> LedgerSeries:
    settings = parts[Settings]
    return LedgerSeries(
        parts[LedgerClient],
        points_max=settings.series_points_max,
        series_max=settings.series_max,
        archive=parts[LedgerArchive],
    )


CAPABILITY = Capability(
    name="budget",
    routers=[
        series_router,
        events_router,
        estimate_router,
        headroom_router,
        integrity,
        spending,
        journal,
        bounds,
        account_router,  # last: the name of an account may hold slashes
    ],
    operator_routers=[admin_router],
    background=lambda parts: [parts[AuditNow].run()],
    services={
        LedgerSeries: _series,
        SpendingTotals: lambda parts: SpendingTotals(parts[LedgerClient], archive=parts[LedgerArchive]),
        SubjectRanks: lambda parts: SubjectRanks(parts[LedgerClient], archive=parts[LedgerArchive]),
        BudgetWatch: lambda parts: BudgetWatch(parts[Ledger].last_numbers),
        IntegrityReads: lambda parts: IntegrityReads(parts[LedgerClient], parts[MasterKey]),
        AuditNow: lambda parts: AuditNow(parts[LedgerParts]),
        LedgerReads: lambda _: LedgerReads(),
    },
    views=[
        View(40, "headroom", "Headroom", "How many more requests fit, and what refuses the next one?", KeyRole.READ),
        View(50, "forecast", "Forecast", "When does the budget run out?", KeyRole.READ, chart=True),
        View(60, "spending", "Spending", "Who spent how much, and when?", KeyRole.READ, chart=True),
        View(55, "subjects", "Subjects", "Whose next request is refused?", KeyRole.READ),
        View(58, "bounds", "Bounds", "What is proven, and what is an estimate?", KeyRole.READ),
        View(
            90,
            "integrity",
            "Integrity",
            "Is the record of what was spent complete and unchanged?",
            KeyRole.READ,
            operator=True,
        ),
        View(110, "journal", "Journal", "Who did what, and when?", KeyRole.READ),
        View(45, "what-if", "What if", "What would this cost, and what would be left?", KeyRole.READ),
    ],
)
