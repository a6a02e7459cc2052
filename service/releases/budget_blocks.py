"""Budgets as answers show them: the same block for an account everywhere."""

import asyncio
from collections.abc import Sequence

import orjson
from starlette.responses import Response

from core.accounting.events import Adjacency, PrivacyEvent
from core.amounts import BASIC, Amount, delta_of, epsilon_of
from core.ledger.counters import COUNT, NO_EPSILON, sums_of
from core.ledger.records import AccountPage, AccountState, Plan
from core.reports.series import Series, SeriesPage, amounts
from service.http.problems import amount
from service.releases.answers import (
    Account,
    AccountantLine,
    AccountArm,
    AccountPlan,
    BudgetSeries,
    SeriesPoint,
    SeriesSums,
)


def account_block(state: AccountState, accountants: list[AccountantLine] | None = None) -> Account:
    """One account. `committed` and `reserved` are sums; `remaining` is what can still be released.

    `limit` is the guarantee. `current_limit` is there if the operator lets the account spend less now.

    `accountants`: what has been spent; by default basic composition only, which needs no calculation.
    """
    block: Account = {
        "account": state.account,
        "unit": state.unit.value,
        "adjacency": state.adjacency.value,
        "kind": "filter" if state.plan is None else "plan",
        "limit": amount(state.limit),
        "committed": amount(state.committed),
        "reserved": amount(state.reserved),
        "remaining": amount(state.remaining),
        "accountants": accountants or [_basic(state)],
    }
    if state.subject_hash is not None:
        block["subject_hash"] = state.subject_hash
    if state.current is not None:
        block["current_limit"] = amount(Amount(state.current.epsilon_nano, state.limit.delta_femto))
    if state.plan is not None:
        block["plan"] = _plan_block(state, state.plan)
    elif state.limit.delta_femto:
        block["arms"] = arms_block(state)
    return block


def least_left(event: PrivacyEvent, accounts: Sequence[AccountState]) -> AccountState:
    """The account that an answer shows: the one with the least remaining among those of the event's unit."""
    own = [state for state in accounts if state.unit is event.unit]
    return own[0] if len(own) == 1 else min(own, key=lambda state: state.remaining.epsilon_nano)


def block_with_history(state: AccountState, display_delta: float) -> Account:
    """One account, with every accountant's epsilon of its history. Takes under a millisecond for any history.

    The figures are at the account's own delta, or at `display_delta` for an account without one.
    """
    # imported late: scipy, which a front end without budget queries does not need
    from core.accounting.history import history_lines

    if state.history is None:
        raise ValueError("this state was read without its history")
    if state.adjacency is Adjacency.METRIC:
        return account_block(
            state
        )  # at distance d the cost is d times the sum; the other accountants are for distance 1
    lines = history_lines(
        sums=sums_of(state.committed_vector),
        orders=state.orders,
        moments=state.history.moments,
        pure_epsilon_nano=state.history.pure_epsilon_nano,
        delta=delta_of(state.limit.delta_femto) if state.limit.delta_femto else display_delta,
    )
    accountants: list[AccountantLine] = [
        {
            "name": line.accountant,
            "epsilon": line.epsilon.value,
            "delta": line.delta,
            "kind": line.epsilon.kind.value,
            "note": line.epsilon.note,
        }
        for line in lines
    ]
    return account_block(state, accountants)


async def page_answer(page: AccountPage, display_delta: float) -> Response:
    """A page of accounts and the start of the next one. Calculated and written in a thread."""

    def written() -> bytes:
        blocks = [block_with_history(state, display_delta) for state in page.accounts]
        return orjson.dumps({"accounts": blocks, "next_cursor": page.next_cursor})

    return Response(await asyncio.to_thread(written), media_type="application/json")


def series_block(page: SeriesPage) -> BudgetSeries:
    """Series with one point for each step."""
    return {
        "from_ms": page.from_ms,
        "to_ms": page.to_ms,
        "step_s": page.step_s,
        "as_of_ms": page.as_of_ms,
        "series": [
            {
                "unit": series.unit.value,
                "mechanism": series.mechanism,
                "subject_class": series.subject_class.value,
                "points": _points(page, series),
            }
            for series in page.series
        ],
    }


def _points(page: SeriesPage, series: Series) -> list[SeriesPoint]:
    points: list[SeriesPoint] = []
    shown: SeriesSums | None = None
    before = None
    for index, totals in enumerate(series.points):
        if shown is None or totals is not before:  # without a change, the values are reused
            committed, reserved = amounts(totals)
            shown = {"committed": amount(committed), "reserved": amount(reserved), "releases": totals.releases}
            before = totals
        points.append({"at_ms": page.from_ms + index * page.step_s * 1000, **shown})
    return points


def _basic(state: AccountState) -> AccountantLine:
    if state.committed_vector[NO_EPSILON]:
        return {"name": "basic", "epsilon": None, "delta": None, "kind": "vacuous"}
    spent = amount(state.committed)
    return {"name": "basic", "epsilon": spent["epsilon"], "delta": spent["delta"], "kind": "bound"}


def _plan_block(state: AccountState, plan: Plan) -> AccountPlan:
    """The fixed mechanism and its count. The limit is the certified guarantee of all these releases together."""
    committed, reserved = state.committed_vector[COUNT], state.held_vector[COUNT]
    return {
        "mechanism": plan.mechanism,
        "epsilon": epsilon_of(plan.epsilon_nano),
        "releases": {
            "limit": plan.count,
            "committed": committed,
            "reserved": reserved,
            "remaining": plan.count - committed - reserved,
        },
    }


def arms_block(state: AccountState) -> list[AccountArm]:
    """Each rule that may admit a release: what it has counted, committed or held, and its limit."""
    arms: list[AccountArm] = []
    for arm in state.arm_states():
        shown: AccountArm = {
            "name": arm.name,
            "order": arm.order,
            "spent": arm.spent,
            "limit": arm.limit,
            "open": arm.is_open,
        }
        if arm.name == BASIC:
            shown |= {"spent_delta": arm.spent_delta, "limit_delta": arm.limit_delta}
        arms.append(shown)
    return arms
