"""Requests of a tenant beyond its places wait until an answer has been sent; nobody else waits."""

import asyncio
from typing import Any

import orjson
import pytest
from exchange_kit import Exchange, kept_job, of_documents
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

from core.state.keystore import KeyStore
from service.admission import LoadLimits

PLACES = 2
LINE = orjson.dumps({"text": "Mail jane@example.com."}) + b"\n"


narrow = module_gateway(REQUESTS_IN_FLIGHT_PER_TENANT_MAX=str(PLACES), changes={"stream_key_check_s": 0.05})


def read(gateway: Gateway, key: str, *, reads: bool = True) -> Exchange:
    """A short request without a body."""
    exchange = Exchange(gateway, key, "GET", "/budget")
    exchange.reads = reads
    exchange.body.put_nowait(None)
    return exchange


async def occupied(gateway: Gateway, tenant: Tenant) -> list[Exchange]:
    """As many answers as the tenant has places, which are not read."""
    held = [read(gateway, tenant.key, reads=False) for _ in range(PLACES)]
    for each in held:
        await each.begun()
    return held


async def waits(gateway: Gateway, exchange: Exchange) -> None:
    """Return once other requests that began later are complete, and this one has not been answered."""
    for _ in range(3):
        await Exchange(gateway, gateway.admin_key, "GET", "/admin/tenants").ended()
        await Exchange(gateway, "", "GET", "/livez").ended()
    assert not exchange.messages


def test_a_request_waits_until_an_answer_has_been_read(narrow: Gateway) -> None:
    greedy, modest = narrow.tenant(), narrow.tenant()

    async def ask() -> None:
        first, second = await occupied(narrow, greedy)
        waiting = [read(narrow, greedy.key) for _ in range(3)]
        other = read(narrow, modest.key)
        await other.ended()
        assert other.status == 200, "another tenant does not wait"
        await waits(narrow, waiting[0])
        first.read.set()
        await first.ended()
        for each in waiting:
            await each.ended()
        assert [each.status for each in waiting] == [200, 200, 200]
        second.read.set()
        await second.ended()

    narrow.on_loop(ask())


def test_a_request_that_waits_too_long_learns_which_setting_limits_it(
    narrow: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = narrow.tenant()
    monkeypatch.setattr(narrow.service.parts[LoadLimits].in_flight, "_wait_s", 0.01)

    async def ask() -> tuple[int, Any]:
        held = await occupied(narrow, tenant)
        late = read(narrow, tenant.key)
        problem = orjson.loads(await late.ended())
        for each in held:
            each.read.set()
            await each.ended()
        return late.status, problem

    status, problem = narrow.on_loop(ask())
    assert (status, problem["code"]) == (429, "tenant-limit")
    assert problem["limit"] == "requests_in_flight_per_tenant_max"


def test_a_body_that_came_while_its_request_waited_is_read(narrow: Gateway) -> None:
    tenant = narrow.tenant()

    async def ask() -> Any:
        held = await occupied(narrow, tenant)
        waiting = Exchange(narrow, tenant.key, "POST", "/sanitize", media_type="application/json")
        body = orjson.dumps({"documents": [{"text": "Mail jane@example.com."}]})
        waiting.body.put_nowait(body[:10])
        waiting.body.put_nowait(body[10:])
        waiting.body.put_nowait(None)
        await waits(narrow, waiting)
        for each in held:
            each.read.set()
        answer = await waiting.ended()
        assert waiting.status == 200, answer
        return orjson.loads(answer)

    assert "jane" not in str(narrow.on_loop(ask()))


def test_a_request_whose_key_ends_while_it_waits_is_refused(narrow: Gateway) -> None:
    tenant = narrow.tenant()
    second = narrow.with_key(tenant)

    async def ask() -> int:
        held = await occupied(narrow, tenant)
        waiting = read(narrow, second.key)
        await waits(narrow, waiting)
        await narrow.service.parts[KeyStore].revoke(tenant.name, second.key_id, by="operator")
        await waiting.ended()
        for each in held:
            each.read.set()
            await each.ended()
        return waiting.status

    assert narrow.on_loop(ask()) == 401


def test_streams_without_an_end_keep_no_place(narrow: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = narrow.tenant()

    async def ask() -> None:
        job = await kept_job(narrow, tenant.name, monkeypatch)
        streams = []
        for _ in range(PLACES):
            streams.append(await Exchange(narrow, tenant.key, "GET", f"/jobs/{job.job_id}/events").begun())
            streams.append(await of_documents(narrow, tenant.key, LINE).begun())
        short = read(narrow, tenant.key)
        await short.ended()
        assert short.status == 200
        for stream in streams:
            stream.task.cancel()
        await asyncio.gather(*(stream.task for stream in streams), return_exceptions=True)

    narrow.on_loop(ask())
