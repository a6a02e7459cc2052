"""The cost of a charging request: `POST /budget/estimate` accepts the body of any charging endpoint and of any job.

`Prices` are what it knows: the prices of the kinds of jobs, and of the capabilities' endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Discriminator, Tag

from core.amounts import epsilon_of
from core.ledger.transitions import Ledger
from service.capability import Estimated
from service.http.auth import ReadCallerDep
from service.http.body import JsonRoute
from service.http.problems import amount
from service.http.strict import Strict
from service.jobs.kind import JobKind
from service.parts import Part, Parts
from service.releases.request import Price


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
        return Price([found.charge], found.facts)


def estimate_router(parts: Parts) -> APIRouter:
    """`POST /budget/estimate` for the charging endpoints of a gateway."""
    endpoints = parts[Prices].rows

    def name_of(body: Any) -> str:
        members = set(body) if isinstance(body, dict) else set()
        return next((endpoint.name for endpoint in endpoints if endpoint.marks & members), endpoints[-1].name)

    bodies: Any = reduce(or_, (Annotated[endpoint.body, Tag(endpoint.name)] for endpoint in endpoints))

    async def estimate(body: Any, caller: ReadCallerDep, ledger: Part[Ledger]) -> dict[str, Any]:
        """Takes the body of a charging endpoint. Documents, texts and vectors are counted, not read."""
        pricing = next(endpoint.pricing for endpoint in endpoints if type(body) is endpoint.body)
        price = await pricing.price(caller.tenant, body)
        event = price.charges[0].event
        found = await ledger.estimate(caller.tenant, price.charges)
        return {
            "privacy": {
                "guarantee": event.guarantee.value,
                "unit": event.unit.value,
                "adjacency": event.adjacency.value,
                "epsilon": epsilon_of(event.epsilon_nano),
                "mechanism": event.mechanism,
                **price.facts,
            },
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
