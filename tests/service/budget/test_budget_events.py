"""Events of a budget: one reader for all who wait, and the stream over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import httpx
from gateway_kit import Gateway, Tenant

from core.errors import LedgerUnavailable
from service.budget.watch import BudgetWatch


class Numbers:
    """The last numbers of tenants, and how often they were read."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.reads: list[list[str]] = []
        self.is_down = False

    async def read(self, tenants: Sequence[str]) -> dict[str, int]:
        self.reads.append(list(tenants))
        if self.is_down:
            raise LedgerUnavailable("Redis cannot be reached.")
        return {tenant: self.of.get(tenant, 0) for tenant in tenants}


def test_waiting_goes_on_when_redis_is_back() -> None:
    async def run() -> None:
        numbers = Numbers()
        numbers.is_down = True
        watch = BudgetWatch(numbers.read, interval_s=0.01)
        waiting = asyncio.create_task(watch.changed("a", None))
        while len(numbers.reads) < 3:
            await asyncio.sleep(0.01)
        numbers.is_down = False
        assert await waiting == 0

    asyncio.run(run())


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


def test_an_event_id_that_is_no_number_is_none(real_gateway: Gateway, real_tenant: Tenant) -> None:
    with httpx.Client(base_url=real_gateway.url, timeout=300) as client:
        for text in (b"", b"-1", b"\xb2", b"9" * 5_000, b"1_0", b"x\xff"):
            headers = {b"Authorization": f"Bearer {real_tenant.key}".encode(), b"Last-Event-ID": text}
            with client.stream("GET", "/budget/events", headers=headers) as stream:
                assert _next(stream.iter_lines()) >= 1


def test_a_stream_ends_with_its_key(real_gateway: Gateway, real_tenant: Tenant) -> None:
    made = real_gateway.admin.post(f"/admin/tenants/{real_tenant.name}/keys", json={"roles": ["read"]}).json()
    headers = {"Authorization": f"Bearer {made['key']}"}
    with (
        httpx.Client(base_url=real_gateway.url, timeout=300) as client,
        client.stream("GET", "/budget/events", headers=headers) as stream,
    ):
        lines = stream.iter_lines()
        _next(lines)
        revoked = real_gateway.admin.delete(f"/admin/tenants/{real_tenant.name}/keys/{made['key_id']}")
        assert revoked.status_code == 200
        rest = list(lines)
    assert "event: problem" in rest
    problem = json.loads(next(line for line in rest if line.startswith("data: ")).removeprefix("data: "))
    assert problem["status"] == 401


def _next(lines: object) -> int:
    """The number in the next event."""
    for line in lines:  # type: ignore[attr-defined]
        if line.startswith("data: "):
            return int(json.loads(line.removeprefix("data: "))["last_entry"])
    raise AssertionError("the stream has ended")
