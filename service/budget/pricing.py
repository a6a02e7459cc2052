"""The charging endpoints, as `POST /budget/estimate` knows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from service.http.strict import Strict
from service.jobs.kind import JobKind
from service.releases.request import Price


class Pricing(Protocol):
    """A charging endpoint, as the estimate knows it. `price` is what the endpoint itself charges by."""

    async def price(self, tenant: str, body: Any) -> Price: ...


@dataclass(frozen=True)
class Estimated:
    """A row of the estimate's registry.

    name: of the endpoint.
    body: what the estimate takes for it, usually the endpoint's own body.
    marks: members that only this body has. A body is taken for the first endpoint one of whose marks it has; the last
        endpoint takes the rest.
    """

    name: str
    body: type[Strict]
    marks: frozenset[str]
    pricing: Pricing


class JobPricing:
    """The price of a kind of job, by the fields of a request without rows."""

    def __init__(self, kind: JobKind) -> None:
        self._kind = kind

    async def price(self, tenant: str, body: Strict) -> Price:
        """Raises as `JobKind.resolve` and `JobKind.price`."""
        fields = await asyncio.to_thread(self._kind.resolve, tenant, body)
        found = await self._kind.price(fields.model_dump())
        if found is None:
            raise TypeError("a kind with an estimate has a price")
        return Price([found.charge], found.facts)


def estimated_jobs(kinds: Mapping[str, JobKind]) -> list[Estimated]:
    """The kinds of job that charge."""
    return [
        Estimated(kind.name, kind.estimate, kind.marks, JobPricing(kind))
        for kind in kinds.values()
        if kind.estimate is not None
    ]
