"""The cost of requests, and how many more of them fit.

`POST /budget/estimate` accepts the body of any charging endpoint and of any job. `GET /budget/{account}/headroom`
counts the requests of each preset and mechanism that the account admits. `Prices` are what both know: the prices of the
kinds of jobs, and of the capabilities' endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, NotRequired, cast

from fastapi import APIRouter, Query
from pydantic import Discriminator, Tag
from typing_extensions import TypedDict

from core.amounts import delta_of, epsilon_of
from core.errors import GatewayError
from core.ledger import counters
from core.ledger.headroom import AccountHeadroom, Fit, Headroom, UsedRelease, used_releases
from core.ledger.reader import JournalFilter
from core.ledger.transitions import Ledger
from service.admission import LedgerReads
from service.capability import Estimated, PresetPricing
from service.config.settings import Settings
from service.http.answers import BudgetAmount, doc
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.http.strict import Strict
from service.jobs.kind import JobKind
from service.parts import Part, Parts
from service.releases.answers import Privacy
from service.releases.request import Price, check_epsilon

USED_REQUESTS = 200  # the last ones, of which the headroom says how many more fit
_USED_MAX = 5  # kinds of releases
_ROWS_MAX = 10_000  # charges read: the entry of one batch may have thousands
_COMMITS = JournalFilter(transition="commit")


@dataclass(frozen=True)
class Prices:
    """The charging endpoints of one gateway, in the order in which the estimate looks for their marks."""

    rows: tuple[Estimated, ...]

    @classmethod
    def of(cls, kinds: Iterable[JobKind], endpoints: Iterable[Estimated]) -> Prices:
        """Kinds of jobs that charge come first, and an endpoint without marks is the last one."""
        jobs = (
            Estimated(kind.name, kind.estimate, kind.marks, JobPricing(kind))
            for kind in kinds
            if kind.estimate is not None
        )
        return cls((*jobs, *sorted(endpoints, key=lambda row: not row.marks)))


class JobPricing:
    """The price of a kind of job, from the fields of a request without rows."""

    def __init__(self, kind: JobKind) -> None:
        self._kind = kind

    async def price(self, tenant: str, body: Strict) -> Price:
        """Raises the errors of `JobKind.resolve` and `JobKind.price`."""
        fields = await asyncio.to_thread(self._kind.resolve, tenant, body)
        found = await self._kind.price(tenant, fields.model_dump())
        if found is None:
            raise TypeError("a kind with an estimate has a price")
        return Price(found.charges, found.facts)


class CostLine(TypedDict):
    """What a request would cost one account."""

    account: Annotated[str, doc("The id of the account.")]
    unit: Annotated[str, doc("Its unit.")]
    cost: Annotated[BudgetAmount, doc("What the request would debit.")]
    remaining: Annotated[BudgetAmount, doc("What the account has left.")]
    remaining_after: Annotated[BudgetAmount | None, doc("What it would have left; null if it refuses the request.")]
    allowed: Annotated[bool, doc("Whether the account admits the request.")]
    fits: Annotated[int | None, doc("How many such requests fit; null if there is no number for it.")]


class CostEstimate(TypedDict):
    """What a request would cost, and how often it fits. Nothing is charged or held."""

    privacy: Annotated[Privacy, doc("What the request would guarantee for each of its inputs.")]
    allowed: Annotated[bool, doc("Whether every account admits the request.")]
    fits: Annotated[int | None, doc("How many such requests fit; null if there is no number for it.")]
    accounts: Annotated[list[CostLine], doc("The accounts that would pay.")]


def estimate_router(parts: Parts) -> APIRouter:
    """`POST /budget/estimate` for the charging endpoints of a gateway."""
    endpoints = parts[Prices].rows

    def name_of(body: Any) -> str:
        members = set(body) if isinstance(body, dict) else set()
        return next((endpoint.name for endpoint in endpoints if endpoint.marks & members), endpoints[-1].name)

    bodies: Any = reduce(or_, (Annotated[endpoint.body, Tag(endpoint.name)] for endpoint in endpoints))

    async def estimate(body: Any, caller: ReadCallerDep, ledger: Part[Ledger]) -> CostEstimate:
        """Takes the body of a charging endpoint. Documents, texts and vectors are counted, not read."""
        pricing = next(endpoint.pricing for endpoint in endpoints if type(body) is endpoint.body)
        price = await pricing.price(caller.tenant, body)
        event = price.charges[0].event
        found = await ledger.estimate(caller.tenant, price.charges)
        privacy = {
            "guarantee": event.guarantee.value,
            "unit": event.unit.value,
            "adjacency": event.adjacency.value,
            "epsilon": epsilon_of(event.epsilon_nano),
            "mechanism": event.mechanism,
        }
        return {
            "privacy": cast(Privacy, {**privacy, **price.facts}),
            "allowed": found.allowed,
            "fits": found.times,
            "accounts": [
                {
                    "account": line.account.account,
                    "unit": line.account.unit.value,
                    "cost": amount(line.cost),
                    "remaining": amount(line.account.remaining),
                    "remaining_after": None if line.remaining_after is None else amount(line.remaining_after),
                    "allowed": line.allowed,
                    "fits": line.times,
                }
                for line in found.lines
            ],
        }

    estimate.__annotations__["body"] = Annotated[bodies, Discriminator(name_of)]
    router = APIRouter(route_class=JsonRoute, tags=["budget"])
    router.add_api_route(
        "/budget/estimate", estimate, methods=["POST"], summary="What a charging request would cost; never charges"
    )
    return router


class RequestNames(TypedDict):
    """A kind of request with one document, text or vector."""

    preset: Annotated[str | None, doc("The preset; null for a mechanism at the epsilon of the question.")]
    endpoint: Annotated[str, doc("The endpoint, without the first slash.")]


class BindingArm(TypedDict):
    """The account that refuses first."""

    account: Annotated[str, doc("The id of the account.")]
    arm: Annotated[str | None, doc("The rule that admits the last request; null for a plan.")]
    order: Annotated[float | None, doc("The order of a Rényi divergence; null for other rules.")]


class AccountFit(BindingArm):
    """How many requests fit into one account."""

    fits: Annotated[int, doc("How many.")]


class SubjectFit(TypedDict):
    """How many requests fit for a subject that has none yet."""

    fits: Annotated[int, doc("How many.")]


class _Fits(TypedDict):
    fits: Annotated[int, doc("How many more, exact if nothing else is reserved.")]
    binding: Annotated[BindingArm, doc("The account that refuses first.")]
    accounts: Annotated[list[AccountFit], doc("The accounts that pay, each by itself.")]


class RequestHeadroom(RequestNames, _Fits):
    """How many more requests of one kind fit."""

    mechanism: Annotated[str, doc("The mechanism.")]
    epsilon: Annotated[float, doc("The epsilon of one document, text or vector.")]
    unit: Annotated[str, doc("The unit of the release.")]
    new_subject: NotRequired[Annotated[SubjectFit, doc("For a new subject, where subjects have their own budgets.")]]


class UsedHeadroom(_Fits):
    """A kind of release that was really made, and how many more of it fit."""

    mechanism: Annotated[str, doc("The mechanism.")]
    epsilon: Annotated[float | None, doc("What one release cost the account; null for one without an epsilon.")]
    delta: Annotated[float, doc("Its delta.")]
    releases: Annotated[int, doc("How many of the last releases were of this kind.")]
    last_ms: Annotated[int, doc("When the latest was committed, in milliseconds since the epoch.")]


class UnpricedRequest(RequestNames):
    """A kind of request that has no price now."""

    code: Annotated[str, doc("The code of the error.")]
    detail: Annotated[str, doc("Why, in a sentence.")]


class AccountHeadrooms(TypedDict):
    """How many more requests of each kind an account admits."""

    account: Annotated[str, doc("The id of the account.")]
    epsilon: Annotated[float | None, doc("The epsilon of one document by each mechanism; null for presets alone.")]
    used: Annotated[list[UsedHeadroom], doc("What the last 200 requests released, the most frequent first; at most 5.")]
    requests: Annotated[list[RequestHeadroom], doc("A row for each kind that debits the account.")]
    unpriced: Annotated[list[UnpricedRequest], doc("The kinds that have no price now.")]


@dataclass(frozen=True)
class _Offer:
    """A request with one document and no subject: the names of its row, and its price or why it has none."""

    names: RequestNames
    price: Price | GatewayError


def headroom_router(parts: Parts) -> APIRouter:
    """The route for the charging endpoints and presets of a gateway."""
    endpoints, presets = parts[Prices].rows, parts[PresetPricing]

    async def headroom(
        account: str,
        caller: ReadCallerDep,
        ledger: Part[Ledger],
        settings: Part[Settings],
        reads: Part[LedgerReads],
        epsilon: Annotated[
            float | None,
            Query(
                description="Of one document by each mechanism. Default: that of the account's plan, else of what was "
                "released most often lately, else presets alone"
            ),
        ] = None,
    ) -> AccountHeadrooms:
        """One row for each kind of request with one document that debits the account.

        `fits` is exact if nothing else is reserved: that many equal requests are admitted one after the other, and the
        next is refused. `binding` is the account that refuses first, with the arm that admits its last request.
        """
        if epsilon is not None:
            check_epsilon(epsilon, settings)
        with await reads.wait(caller.tenant, USED_REQUESTS):
            commits = await ledger.journal(
                caller.tenant, account, wanted=_COMMITS, newest_first=True, limit=USED_REQUESTS, rows_max=_ROWS_MAX
            )
            own = await ledger.debited_accounts(caller.tenant, account)
            used = [_used(one) for one in (await asyncio.to_thread(used_releases, own, commits.entries))[:_USED_MAX]]
        if epsilon is None and (plan := own.account.plan) is not None:
            epsilon = epsilon_of(plan.epsilon_nano)
        elif epsilon is None:
            epsilon = next((one["epsilon"] for one in used if one["epsilon"]), None)
        offers = await _offers(caller.tenant, endpoints, presets, epsilon)
        priced = [offer.price for offer in offers if isinstance(offer.price, Price)]
        state, found = await ledger.headroom(caller.tenant, account, [price.charges for price in priced])
        answers = iter(found)
        rows: list[RequestHeadroom] = []
        unpriced: list[UnpricedRequest] = []
        for offer in offers:
            if isinstance(offer.price, GatewayError):
                unpriced.append({**offer.names, "code": offer.price.code, "detail": offer.price.detail})
                continue
            answer = next(answers)
            if state.unit in answer.units:
                rows.append(_row(offer.names, offer.price, answer))
        return {"account": account, "epsilon": epsilon, "used": used, "requests": rows, "unpriced": unpriced}

    router = APIRouter(route_class=JsonRoute, tags=["budget"])
    router.add_api_route(
        "/budget/{account:path}/headroom",
        headroom,
        methods=["GET"],
        summary="How many more requests of each preset and mechanism fit",
    )
    return router


async def _offers(
    tenant: str, endpoints: Sequence[Estimated], presets: PresetPricing, epsilon: float | None
) -> list[_Offer]:
    offers = []
    for name in presets.names:
        offers.append(await _offer({"preset": name, "endpoint": "v1/embeddings"}, presets, tenant, name))
    for endpoint in endpoints if epsilon is not None else ():
        for body in endpoint.typical(epsilon or 0.0):
            offers.append(await _offer({"preset": None, "endpoint": endpoint.route}, endpoint.pricing, tenant, body))
    return offers


async def _offer(names: RequestNames, pricing: Any, tenant: str, what: Any) -> _Offer:
    """A request that cannot be priced now has an error for a price, for example while a worker loads its model."""
    try:
        return _Offer(names, await pricing.price(tenant, what))
    except GatewayError as error:
        return _Offer(names, error)


def _row(names: RequestNames, price: Price, answer: AccountHeadroom) -> RequestHeadroom:
    fits = _fits(answer.headroom)
    event = price.charges[0].event
    row: RequestHeadroom = {
        "preset": names["preset"],
        "endpoint": names["endpoint"],
        "mechanism": event.mechanism,
        "epsilon": epsilon_of(event.epsilon_nano),
        "unit": event.unit.value,
        "fits": fits["fits"],
        "binding": fits["binding"],
        "accounts": fits["accounts"],
    }
    if answer.new_subject is not None:
        row["new_subject"] = {"fits": answer.new_subject.binding.releases}
    return row


def _used(found: UsedRelease) -> UsedHeadroom:
    cost = found.cost
    return {
        "mechanism": found.mechanism,
        "epsilon": None if cost[counters.NO_EPSILON] else epsilon_of(cost[counters.EPSILON]),
        "delta": delta_of(cost[counters.DELTA]),
        "releases": found.releases,
        "last_ms": found.last_ms,
        **_fits(found.headroom),
    }


def _fits(found: Headroom) -> _Fits:
    return {
        "fits": found.binding.releases,
        "binding": _fit(found.binding),
        "accounts": [{**_fit(fit), "fits": fit.releases} for fit in found.fits],
    }


def _fit(fit: Fit) -> BindingArm:
    return {"account": fit.account, "arm": fit.arm, "order": fit.order}
