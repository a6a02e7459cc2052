"""A key that is revoked, has expired or is beyond its rate ends what it has open, by one mechanism for all streams."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from exchange_kit import HANG_S, Exchange, kept_job, of_documents
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.records import TenantState
from core.ledger.transitions import Ledger
from core.state.keystore import KeyStore
from service.app import create_app
from service.releases.pipeline import ReleasePipeline
from service.tenants.closing import change_state

LINE = orjson.dumps({"text": "Mail jane@example.com."}) + b"\n"


# a limit that is refilled so slowly that it is seen to be exceeded
watched = module_gateway(
    RATE_LIMIT_PER_MINUTE="4", changes={"stream_key_check_s": 0.05, "service.tenants.closing.ROUND_S": 3600.0}
)


async def revoke(gateway: Gateway, tenant: Tenant) -> None:
    await gateway.service.parts[KeyStore].revoke(tenant.name, tenant.key_id, by="operator")


async def rotate(gateway: Gateway, tenant: Tenant) -> None:
    await gateway.service.parts[KeyStore].rotate(tenant.name, tenant.key_id, by="operator", overlap_s=0)


async def exceed_the_rate(gateway: Gateway, tenant: Tenant) -> None:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(gateway.service)),
        base_url="http://gateway",
        headers={"Authorization": f"Bearer {tenant.key}"},
    ) as client:
        while (await client.get("/keys")).status_code != 429:
            pass


async def close(gateway: Gateway, tenant: Tenant) -> None:
    """As the command does; a gateway then revokes the keys."""
    parts = gateway.service.parts
    await change_state(
        parts[Ledger], parts[AdminLog], tenant.name, TenantState.CLOSING, by="cli", reason="the contract has ended"
    )


ENDINGS = [
    (close, "unauthorized"),
    (revoke, "unauthorized"),
    (rotate, "unauthorized"),
    (exceed_the_rate, "rate-limited"),
]


@pytest.mark.parametrize(("end", "code"), ENDINGS)
def test_a_stream_of_documents_ends_with_a_summary_that_says_why(watched: Gateway, end: Any, code: str) -> None:
    tenant = watched.tenant()

    async def ask() -> bytes:
        exchange = await of_documents(watched, tenant.key, LINE).begun()
        await end(watched, tenant)
        lines = await exchange.ended()
        assert exchange.is_complete
        return lines

    *rows, last = (orjson.loads(line) for line in watched.on_loop(ask()).splitlines())
    assert len(rows) == 1
    assert last["summary"]["problem"]["code"] == code
    assert (last["summary"]["complete"], last["summary"]["released"]) == (False, 1)


def test_a_stream_ends_while_a_group_is_at_work(watched: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = watched.tenant()
    at_work, released = asyncio.Event(), asyncio.Event()
    run_free = watched.service.parts[ReleasePipeline].run_free

    async def slow(*arguments: Any) -> Any:
        at_work.set()
        await released.wait()
        return await run_free(*arguments)

    monkeypatch.setattr(watched.service.parts[ReleasePipeline], "run_free", slow)

    async def ask() -> bytes:
        exchange = of_documents(watched, tenant.key, LINE)
        await asyncio.wait_for(at_work.wait(), HANG_S)
        await revoke(watched, tenant)
        answer = await exchange.ended()
        released.set()
        return answer

    (last,) = (orjson.loads(line) for line in watched.on_loop(ask()).splitlines())
    assert last["summary"]["problem"]["code"] == "unauthorized"


def assert_ends_unauthorized(events: str) -> None:
    last = events.strip().split("\n\n")[-1]
    assert "event: problem" in last
    assert '"code":"unauthorized"' in last.replace('": "', '":"')


def test_a_stream_of_events_ends_with_an_event_that_says_why(watched: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = watched.tenant()

    async def ask() -> str:
        job = await kept_job(watched, tenant.name, monkeypatch)
        exchange = await Exchange(watched, tenant.key, "GET", f"/jobs/{job.job_id}/events").begun()
        await revoke(watched, tenant)
        text = (await exchange.ended()).decode()
        assert exchange.is_complete
        return text

    assert_ends_unauthorized(watched.on_loop(ask()))


def test_a_stream_of_a_browser_ends_when_its_person_signs_out(watched: Gateway) -> None:
    tenant = watched.tenant()
    origin = "http://127.0.0.1"

    async def ask() -> str:
        transport = httpx.ASGITransport(watched.app)
        async with httpx.AsyncClient(transport=transport, base_url=origin, headers={"Origin": origin}) as browser:
            signed_in = await browser.post("/dashboard/session", headers={"Authorization": f"Bearer {tenant.key}"})
            cookie = f"pgw_session={browser.cookies['pgw_session']}"
            headers = {"host": "127.0.0.1", "cookie": cookie}
            exchange = await Exchange(watched, "", "GET", "/budget/events", instead=headers).begun()
            form = {"X-Form-Token": signed_in.json()["form_token"]}
            assert (await browser.post("/dashboard/session/end", headers=form)).status_code == 204
            return (await exchange.ended()).decode()

    assert_ends_unauthorized(watched.on_loop(ask()))


def test_an_answer_that_nobody_reads_is_cut_off(watched: Gateway) -> None:
    tenant = watched.tenant()

    async def ask() -> None:
        exchange = of_documents(watched, tenant.key, LINE)
        exchange.reads = False
        await exchange.begun()
        await revoke(watched, tenant)
        await exchange.ended()
        assert not exchange.is_complete, "the server closes such a connection"

    watched.on_loop(ask())


def test_a_body_that_is_still_arriving_is_refused(watched: Gateway) -> None:
    tenant = watched.tenant()

    async def ask() -> tuple[int, bytes]:
        exchange = Exchange(
            watched, tenant.key, "POST", "/embed/vector/safetensors", media_type="application/octet-stream"
        )
        exchange.body.put_nowait(bytes(1000))
        while exchange.body.qsize():
            await asyncio.sleep(0.01)
            assert not exchange.task.done()
        await revoke(watched, tenant)
        content = await exchange.ended()
        return exchange.status, content

    status, content = watched.on_loop(ask())
    assert (status, orjson.loads(content)["code"]) == (401, "unauthorized")


def test_a_stream_of_a_valid_key_goes_on(watched: Gateway) -> None:
    tenant = watched.tenant()

    async def ask() -> bytes:
        exchange = of_documents(watched, tenant.key)
        for _ in range(3):
            exchange.body.put_nowait(LINE)
            await asyncio.sleep(0.2)
        exchange.body.put_nowait(None)
        return await exchange.ended()

    *rows, last = (orjson.loads(line) for line in watched.on_loop(ask()).splitlines())
    assert len(rows) == 3
    assert last["summary"]["complete"]
