"""The registry of `POST /budget/estimate`: a row for each charging endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

from service.http.strict import Strict
from service.jobs.kind import JobKind
from service.releases.request import Price


class Pricing(Protocol):
    """The part of a charging endpoint that computes its price. The endpoint itself charges this price."""

    async def price(self, tenant: str, body: Any) -> Price: ...


@dataclass(frozen=True)
class Estimated:
    """A row of the estimate's registry.

    name: the endpoint's name.
    body: the body that the estimate accepts for it, usually the endpoint's own body.
    marks: members that only this body has. The estimate selects the first endpoint with a mark in the body, and the
        last endpoint if there is none.
    typical: makes the bodies with one document, text or vector at an epsilon, one for each mechanism. Empty for an
        endpoint whose price depends on more than that.
    route: the route that accepts these bodies, without its first slash.
    """

    name: str
    body: type[Strict]
    marks: Set[str]
    pricing: Pricing
    typical: Callable[[float], Sequence[Strict]] = lambda _: ()
    route: str = ""


class PresetPricing(Protocol):
    """The prices of presets, whose epsilon is fixed."""

    @property
    def names(self) -> Sequence[str]: ...

    async def price(self, tenant: str, name: str) -> Price: ...


class JobPricing:
    """The price of a kind of job, from the fields of a request without rows."""

    def __init__(self, kind: JobKind) -> None:
        self._kind = kind

    async def price(self, tenant: str, body: Strict) -> Price:
        """Raises as `JobKind.resolve` and `JobKind.price`."""
        fields = await asyncio.to_thread(self._kind.resolve, tenant, body)
        found = await self._kind.price(tenant, fields.model_dump())
        if found is None:
            raise TypeError("a kind with an estimate has a price")
        return Price([found.charge], found.facts)


def estimated_jobs(kinds: Mapping[str, JobKind]) -> list[Estimated]:
    """The rows of the kinds of job that charge."""
    return [
        Estimated(kind.name, kind.estimate, kind.marks, JobPricing(kind))
        for kind in kinds.values()
        if kind.estimate is not None
    ]
