"""What an answer says of the privacy of a release and of budgets: the same block for an account everywhere."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, NotRequired

import orjson
from starlette.responses import Response
from typing_extensions import TypedDict

from core.accounting.events import Adjacency, PrivacyEvent
from core.amounts import BASIC, Amount, delta_of, epsilon_of
from core.ledger.counters import COUNT, NO_EPSILON, sums_of
from core.ledger.records import AccountPage, AccountState, Plan
from core.reports.series import Series, SeriesPage, amounts
from service.http.answers import BudgetAmount, doc
from service.http.problems import amount


class Routing(TypedDict):
    """The part of a price that pays for the choice of a domain."""

    epsilon: Annotated[float, doc("The part of epsilon.")]


class Privacy(TypedDict):
    """What an answer guarantees. The members from `adjacency` on are there where the mechanism has them."""

    guarantee: Annotated[str, doc("`pure-dp`, `approx-dp`, `metric-dp`, or `none` for what was only masked.")]
    unit: NotRequired[Annotated[str, doc("What is protected: `token`, `sentence`, `document`, `vector` or `record`.")]]
    units: NotRequired[Annotated[list[str], doc("The units whose accounts pay, and which the guarantee covers.")]]
    adjacency: NotRequired[Annotated[str, doc("Which inputs are neighbours, in words or as an account names it.")]]
    public: NotRequired[Annotated[list[str], doc("The facts of the input that the guarantee does not cover.")]]
    epsilon: NotRequired[Annotated[float, doc("The price of one input; for `metric-dp` per unit of distance.")]]
    delta: NotRequired[Annotated[float, doc("The delta of one input.")]]
    epsilon_worst_case: NotRequired[Annotated[float, doc("The pure epsilon for any two inputs; of `metric-dp`.")]]
    per: NotRequired[Annotated[str, doc("What epsilon is per, where one input has several places.")]]
    mechanism: NotRequired[Annotated[str, doc("The mechanism that drew the output.")]]
    release_id: NotRequired[Annotated[str, doc("The release, as the journal names it; absent if nothing was charged.")]]
    note: NotRequired[Annotated[str, doc("What is left unprotected, in a sentence.")]]
    reused: NotRequired[Annotated[int, doc("How many inputs were answered by earlier releases, at no cost.")]]
    repeats: NotRequired[Annotated[str, doc("What a repeated input gets, by the setting of the operator.")]]
    routing: NotRequired[Annotated[Routing, doc("The choice of the domain, where the gateway makes it.")]]
    window_words: NotRequired[Annotated[int, doc("Words of a window; with the segmentation `words`.")]]
    clip_norm: NotRequired[Annotated[float, doc("The length to which longer vectors are clipped.")]]
    projection: NotRequired[Annotated[str, doc("The public projection before the noise.")]]
    dimension: NotRequired[Annotated[int, doc("The dimension in which the noise is drawn.")]]
    stretch: NotRequired[Annotated[float, doc("How much the projection may lengthen a vector.")]]
    strict: NotRequired[Annotated[bool, doc("Whether the form of `privemb` with a proof is used.")]]
    beta: NotRequired[Annotated[float, doc("A parameter of the request; of the paper's form of `privemb`.")]]
    epsilon_asked: NotRequired[Annotated[float, doc("The epsilon of the request, where `epsilon` is larger.")]]
    codebook: NotRequired[Annotated[int, doc("The number of entries of the public codebook.")]]
    neighbours: NotRequired[Annotated[int, doc("How many entries of the codebook make a vector.")]]
    candidates: NotRequired[Annotated[int, doc("The length of the public word list that is drawn from.")]]
    candidates_fingerprint: NotRequired[Annotated[str, doc("A digest of the public word list.")]]


class AccountantLine(TypedDict):
    """What an account has spent, by one accountant."""

    name: Annotated[str, doc("The accountant: `basic`, `rdp` or `edgeworth`.")]
    epsilon: Annotated[float | None, doc("The epsilon of all releases so far; null if this accountant has none.")]
    delta: Annotated[float | None, doc("The delta at which epsilon is stated; null without a value.")]
    kind: Annotated[str, doc("`bound`, `estimate`, `vacuous` or `no-unique-root`.")]
    note: NotRequired[Annotated[str | None, doc("Why there is no value, or what it assumes; null if nothing is said.")]]


class AccountArm(TypedDict):
    """A rule that may admit a release, in its own unit."""

    name: Annotated[str, doc("The rule: `basic`, or an accountant.")]
    order: Annotated[float | None, doc("The order of a Rényi divergence; null for other rules.")]
    spent: Annotated[float, doc("What is committed or held.")]
    limit: Annotated[float, doc("What it may reach.")]
    spent_delta: NotRequired[Annotated[float, doc("The delta that is committed or held; of `basic` alone.")]]
    limit_delta: NotRequired[Annotated[float, doc("The delta that it may reach; of `basic` alone.")]]
    open: Annotated[bool, doc("Whether it can still admit a release.")]


class PlannedReleases(TypedDict):
    """The releases of a plan, as numbers of them."""

    limit: Annotated[int, doc("How many the plan certifies.")]
    committed: Annotated[int, doc("How many were made.")]
    reserved: Annotated[int, doc("How many are being made.")]
    remaining: Annotated[int, doc("How many are left.")]


class AccountPlan(TypedDict):
    """The one release that an account with a plan admits."""

    mechanism: Annotated[str, doc("The mechanism.")]
    epsilon: Annotated[float, doc("Its fixed epsilon.")]
    releases: Annotated[PlannedReleases, doc("How many of them.")]


class Account(TypedDict):
    """An account of the tenant, or of one of its subjects. `remaining` is what can still be released."""

    account: Annotated[str, doc("The id, `TENANT/UNIT`, with a digest of the subject behind it for a subject's.")]
    unit: Annotated[str, doc("What one privacy unit is: `token`, `sentence`, `vector` or `record`.")]
    adjacency: Annotated[str, doc("Which inputs are neighbours: `replace-one`, `add-remove` or `metric`.")]
    kind: Annotated[str, doc("`filter`, or `plan` for one fixed release.")]
    subject_hash: NotRequired[Annotated[str, doc("A digest of the subject's name; of a subject's account.")]]
    limit: Annotated[BudgetAmount, doc("The guarantee of everything that the account ever admits.")]
    current_limit: NotRequired[Annotated[BudgetAmount, doc("What it may spend now, where that is less.")]]
    committed: Annotated[BudgetAmount, doc("The sum of what was charged.")]
    reserved: Annotated[BudgetAmount, doc("The sum of what is held for releases in work.")]
    remaining: Annotated[BudgetAmount, doc("What a release may still cost.")]
    accountants: Annotated[list[AccountantLine], doc("What was spent, by each accountant, `basic` first.")]
    plan: NotRequired[Annotated[AccountPlan, doc("The plan; of the kind `plan`.")]]
    arms: NotRequired[Annotated[list[AccountArm], doc("The rules; of an account with a delta and without a plan.")]]


class AccountsPage(TypedDict):
    """A page of accounts."""

    accounts: Annotated[list[Account], doc("The accounts: the tenant's own, then its subjects'.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


class SeriesSums(TypedDict):
    """Sums since the beginning."""

    committed: Annotated[BudgetAmount, doc("What had been charged.")]
    reserved: Annotated[BudgetAmount, doc("What was held.")]
    releases: Annotated[int, doc("How many releases had been charged.")]


class SeriesPoint(SeriesSums):
    """Sums at one time."""

    at_ms: Annotated[int, doc("The time, in milliseconds since the epoch.")]


class SeriesLine(TypedDict):
    """The sums of one mechanism in one unit and class of subjects."""

    unit: Annotated[str, doc("The unit.")]
    mechanism: Annotated[str, doc("The mechanism.")]
    subject_class: Annotated[str, doc("`tenant` for the tenant's own accounts, or `subject`.")]
    points: Annotated[list[SeriesPoint], doc("A point for each step, oldest first.")]


class BudgetSeries(TypedDict):
    """Budgets over time, in equal steps."""

    from_ms: Annotated[int, doc("The time of the first point, in milliseconds since the epoch.")]
    to_ms: Annotated[int, doc("The end of the range, exclusive.")]
    step_s: Annotated[int, doc("The seconds between two points.")]
    as_of_ms: Annotated[int, doc("Until when the journal is counted.")]
    series: Annotated[list[SeriesLine], doc("A line for each mechanism, unit and class.")]


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
