"""The prices that `POST /budget/estimate` knows: those of the kinds of jobs, and of the capabilities' endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from service.capability import Estimated
from service.http.strict import Strict
from service.jobs.kind import JobKind
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
