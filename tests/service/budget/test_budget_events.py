"""Events of a budget: one reader for all who wait, and the stream over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import httpx
from gateway_kit import Gateway, Tenant

from core.errors import LedgerUnavailable
from service.budget.watch import BudgetWatch


def test_waiting_goes_on_when_redis_is_back() -> None:
    reads = 0

    async def numbers(tenants: Sequence[str]) -> dict[str, int]:
        nonlocal reads
        reads += 1
        if reads < 3:
            raise LedgerUnavailable("Redis cannot be reached.")
        return dict.fromkeys(tenants, 0)

    assert asyncio.run(BudgetWatch(numbers, interval_s=0.01).changed("a", None)) == 0
    assert reads == 3


def test_a_release_is_an_event(real_gateway: Gateway, real_tenant: Tenant) -> None:
    stranger = real_gateway.tenant()
    with httpx.Client(base_url=real_gateway.url, timeout=300) as client:
        headers = {"Authorization": f"Bearer {real_tenant.key}"}
        with client.stream("GET", "/budget/events", headers=headers) as stream:
            lines = stream.iter_lines()
            first = _next(lines)
            assert stranger.embed().status_code == 200  # of another tenant, so it is no event
            assert real_tenant.embed().status_code == 200
            second = _next(lines)
            while second == first:
                second = _next(lines)
    entries = real_tenant.http.get(f"/budget/{real_tenant.name}/sentence/journal").json()["entries"]
    assert first < second <= entries[-1]["seq"]


def _next(lines: object) -> int:
    """The number in the next event."""
    for line in lines:  # type: ignore[attr-defined]
        if line.startswith("data: "):
            return int(json.loads(line.removeprefix("data: "))["last_entry"])
    raise AssertionError("the stream has ended")
