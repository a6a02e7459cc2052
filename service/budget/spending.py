"""`GET /budget/{account}/spending`: who spent how much over time, by mechanism, route, API key or subject."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

import orjson
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from core.amounts import Amount
from core.errors import InvalidInput
from core.ledger.counters import COUNT
from core.ledger.reader import Spent
from core.ledger.records import AccountState
from core.ledger.transitions import Ledger
from core.reports.ranks import SubjectRanks
from core.reports.series import (
    DAY_S,
    HOUR_S,
    UNKNOWN,
    Dimension,
    JournalFold,
    LedgerSeries,
    SpendingTotals,
    SubjectClass,
    SumsRow,
    Totals,
    series_name,
)
from core.state.keystore import KeyStore
from service.admission import LedgerReads
from service.budget.forecasting import ROWS_MAX
from service.config.settings import Settings
from service.http.answers import BudgetAmount, doc, words_of
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.http.strict import Digits
from service.parts import Part

router = APIRouter(route_class=JsonRoute, tags=["budget"])

By = Literal["mechanism", "route", "key", "subject"]
_STEPS = {"hour": HOUR_S, "day": DAY_S}
_RANGE_S = {"hour": 2 * DAY_S, "day": 28 * DAY_S}  # by default
_HOURS_KEPT_S = 14 * DAY_S


class SpendingParameters(BaseModel):
    """Query of `GET /budget/{account}/spending`. Times are milliseconds since the epoch."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    by: By = "mechanism"
    bucket: Literal["hour", "day"] = "day"
    from_ms: Digits | None = Field(None, alias="from", description="Default: 28 days before `to`; 2 days for hours.")
    to_ms: Digits | None = Field(None, alias="to", description="Exclusive. Default, and at most: now.")
    cursor: str | None = Field(None, description="`next_cursor` of the page before")
    limit: int = Field(32, ge=1)


class Spending(BudgetAmount):
    """What was committed or has expired."""

    releases: Annotated[int, doc("How many releases.")]


class SpendingBucket(Spending):
    """What was spent in one bucket."""

    at_ms: Annotated[int, doc("Its start, in milliseconds since the epoch.")]


class SpendingRow(TypedDict):
    """What one value of the dimension spent. One of the first four members is there: the dimension."""

    mechanism: NotRequired[Annotated[str | None, doc("The mechanism; null if it is not known.")]]
    route: NotRequired[Annotated[str | None, doc("The route; null if it is not known.")]]
    key: NotRequired[Annotated[str | None, doc("The id of the API key; null if it is not known.")]]
    subject: NotRequired[Annotated[str | None, doc("The account of the subject.")]]
    key_label: NotRequired[Annotated[str | None, doc("The name of the API key; null for none.")]]
    purpose: NotRequired[Annotated[str | None, doc("What the releases of the key are for; null for none.")]]
    recipient: NotRequired[Annotated[str | None, doc("Who receives the releases of the key; null for none.")]]
    total: Annotated[Spending, doc("Its sum since the beginning, or in the range for a subject's account.")]
    buckets: Annotated[list[SpendingBucket], doc("The buckets of the range that are not empty.")]
    complete: NotRequired[Annotated[bool, doc("Whether every entry of the range was read; of subjects.")]]


class BudgetSpending(TypedDict):
    """Who spent how much over time."""

    account: Annotated[str, doc("The id of the account.")]
    by: Annotated[str, doc("The dimension.")]
    bucket_s: Annotated[int, doc("The seconds of a bucket.")]
    from_ms: Annotated[int, doc("The start of the first bucket, in milliseconds since the epoch.")]
    to_ms: Annotated[int, doc("The end of the last bucket, exclusive.")]
    as_of_ms: Annotated[int, doc("Until when the journal is counted.")]
    rows: Annotated[list[SpendingRow], doc("The largest spending first; of subjects, the least remaining first.")]
    complete: NotRequired[Annotated[bool, doc("Whether every entry of the range was read; of a subject's account.")]]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


@dataclass(frozen=True)
class _Range:
    """Whole buckets, `first_ms` to before `stop_ms`."""

    first_ms: int
    stop_ms: int
    step_s: int

    def starts(self) -> range:
        return range(self.first_ms, self.stop_ms, self.step_s * 1000)


@router.get(
    "/budget/{account:path}/spending",
    summary="Who spent: by mechanism, route, key or subject, over time",
    response_model=BudgetSpending,
)
async def get_spending(
    account: str,
    caller: ReadCallerDep,
    ledger: Part[Ledger],
    ranks: Part[SubjectRanks],
    series: Part[LedgerSeries],
    spending: Part[SpendingTotals],
    keys: Part[KeyStore],
    settings: Part[Settings],
    reads: Part[LedgerReads],
    query: Annotated[SpendingParameters, Query()],
) -> Response:
    """Rows with the largest spending first, each with its buckets that are not empty.

    Spending is what was committed or expired, in basic composition.
    """
    state = await ledger.account(caller.tenant, account)
    now_ms = await ledger.now_ms()
    within = _range(query, now_ms, settings)
    limit = min(query.limit, settings.series_max)
    if query.by == "subject" and state.subject_hash is not None:
        raise InvalidInput("This is the account of one subject.", field="by")
    with await reads.wait(caller.tenant, limit):
        if query.by == "subject":
            limit = min(limit, settings.budget_page_max)
            found = await _by_subject(caller.tenant, state, ledger, ranks, within, query.cursor, limit)
        elif state.subject_hash is not None:
            found = await _of_subject(caller.tenant, state, ledger, within, query, limit)
        else:
            source: JournalFold = series if query.by == "mechanism" else spending
            found = await _by_series(caller.tenant, source, _label(query.by, state), within, query, limit)
        if query.by == "key":
            named = await keys.named(caller.tenant, (row["key"] for row in found["rows"] if row["key"]))
            found["rows"] = [row | words_of(named.get(row["key"])) for row in found["rows"]]
        block = {
            "account": account,
            "by": query.by,
            "bucket_s": within.step_s,
            "from_ms": within.first_ms,
            "to_ms": within.stop_ms,
            "as_of_ms": now_ms,
            **found,
        }
        return Response(await asyncio.to_thread(orjson.dumps, block), media_type="application/json")


def _range(query: SpendingParameters, now_ms: int, settings: Settings) -> _Range:
    step_s = _STEPS[query.bucket]
    step_ms = step_s * 1000
    end = now_ms + 1 if query.to_ms is None else min(query.to_ms, now_ms + 1)
    start = max(0, end - _RANGE_S[query.bucket] * 1000) if query.from_ms is None else query.from_ms
    if start >= end:
        raise InvalidInput("`from` must be before `to` and not in the future.", field="from")
    if query.bucket == "hour" and start < now_ms - _HOURS_KEPT_S * 1000:
        raise InvalidInput(f"Hours are kept for {_HOURS_KEPT_S // DAY_S} days.", field="from")
    first, stop = start // step_ms, -(-end // step_ms)
    if stop - first > settings.series_points_max:
        raise InvalidInput(
            f"This range has {stop - first} buckets, and an answer has at most {settings.series_points_max}.",
            field="from",
        )
    return _Range(first * step_ms, stop * step_ms, step_s)


def _label(by: By, state: AccountState) -> Callable[[str], str | None]:
    """What a row of the account's unit is called, by the name of its series; None for other series."""
    if by == "mechanism":
        before, after = f"{state.unit.value}:", f":{SubjectClass.TENANT.value}"
    else:
        before, after = series_name(state.unit, Dimension(by), ""), ""

    def label(name: str) -> str | None:
        inside = name.startswith(before) and name.endswith(after)
        return name[len(before) : len(name) - len(after)] if inside else None

    return label


async def _by_series(
    tenant: str,
    source: JournalFold,
    label: Callable[[str], str | None],
    within: _Range,
    query: SpendingParameters,
    limit: int,
) -> dict[str, Any]:
    offset = _offset(query.cursor)
    before_ms = within.first_ms - within.step_s * 1000  # a bucket earlier: points are sums since the beginning
    page = await source.page(
        tenant, label, step_s=within.step_s, first_ms=before_ms, stop_ms=within.stop_ms, offset=offset, limit=limit
    )
    rows = await asyncio.to_thread(lambda: [_series_row(query.by, row, within) for row in page.rows])
    return {"as_of_ms": page.as_of_ms, "rows": rows, "next_cursor": None if page.is_last else str(offset + limit)}


def _series_row(by: By, row: SumsRow, within: _Range) -> dict[str, Any]:
    changes = [after.minus(before) for before, after in pairwise(row.points)]
    buckets = {at_ms: change for at_ms, change in zip(within.starts(), changes, strict=True) if change.releases}
    return _row(by, row.label, row.total, buckets)


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise InvalidInput("`cursor` must be the `next_cursor` of the previous page.", field="cursor")
    return int(cursor)


async def _by_subject(
    tenant: str,
    state: AccountState,
    ledger: Ledger,
    ranks: SubjectRanks,
    within: _Range,
    cursor: str | None,
    limit: int,
) -> dict[str, Any]:
    """A page of subjects, the least remaining first. It ends early once it has read as much as it may."""
    page = await ranks.page(tenant, state.unit, cursor=cursor, limit=limit)
    left, position = ROWS_MAX, cursor
    first = await ledger.first_entry_at(tenant, within.first_ms)
    rows: list[dict[str, Any]] = []
    for account, own_position in zip(page.accounts, page.cursors, strict=True):
        history = await ledger.subject_history(tenant, account, first=first, rows_max=max(1, left))
        if rows and not history.complete:
            break  # the next page begins with this subject, and may read more of its entries
        buckets = await asyncio.to_thread(_buckets, history.releases, within)
        row = _row("subject", account.account, _state_totals(account), buckets)
        rows.append({**row, "complete": history.complete})
        left -= history.rows_read
        position = own_position
    is_whole = len(rows) == len(page.accounts)
    return {"rows": rows, "next_cursor": page.next_cursor if is_whole else position}


async def _of_subject(
    tenant: str, state: AccountState, ledger: Ledger, within: _Range, query: SpendingParameters, limit: int
) -> dict[str, Any]:
    """One subject's spending in the range, divided. `total` is that of the range."""
    first = await ledger.first_entry_at(tenant, within.first_ms)
    history = await ledger.subject_history(tenant, state, first=first, rows_max=ROWS_MAX)
    offset = _offset(query.cursor)
    rows = await asyncio.to_thread(_divided, history.releases, query.by, within)
    return {
        "rows": rows[offset : offset + limit],
        "complete": history.complete,
        "next_cursor": str(offset + limit) if len(rows) > offset + limit else None,
    }


def _divided(spent: Sequence[Spent], by: By, within: _Range) -> list[dict[str, Any]]:
    """A row for each value of `by`, the largest spending first."""
    divided: dict[str, list[Spent]] = defaultdict(list)
    for one in spent:
        values = {"mechanism": one.entry.mechanism, "route": one.entry.route, "key": one.entry.key_id}
        divided[values[by] or UNKNOWN].append(one)
    rows = []
    for label, releases in divided.items():
        buckets = _buckets(releases, within)
        total = Totals()
        for change in buckets.values():
            total = total.plus(change)
        rows.append((total, _row(by, label, total, buckets)))
    rows.sort(key=lambda row: (-row[0].committed_epsilon_nano, row[1][by] or ""))
    return [row for _, row in rows]


def _state_totals(state: AccountState) -> Totals:
    spent = state.committed
    return Totals(spent.epsilon_nano, spent.delta_femto, 0, 0, state.committed_vector[COUNT])


def _buckets(releases: Sequence[Spent], within: _Range) -> dict[int, Totals]:
    buckets: dict[int, Totals] = {}
    step_ms = within.step_s * 1000
    for one in releases:
        at_ms = one.entry.at_ms // step_ms * step_ms
        if within.first_ms <= at_ms < within.stop_ms:
            change = Totals(one.amount.epsilon_nano, one.amount.delta_femto, 0, 0, one.count)
            buckets[at_ms] = buckets.get(at_ms, Totals()).plus(change)
    return dict(sorted(buckets.items()))


def _row(by: By, label: str, total: Totals, buckets: Mapping[int, Totals]) -> dict[str, Any]:
    return {
        by: None if label == UNKNOWN else label,
        "total": _spent(total),
        "buckets": [{"at_ms": at_ms, **_spent(change)} for at_ms, change in buckets.items()],
    }


def _spent(totals: Totals) -> dict[str, Any]:
    spent = Amount(totals.committed_epsilon_nano, totals.committed_delta_femto)
    return {**amount(spent), "releases": totals.releases}
