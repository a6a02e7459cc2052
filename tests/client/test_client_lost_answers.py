"""Lost connections, 429, 503 and killed gateways: one charge for each call, and the same bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from client_kit import AT_ONCE, Recorder, client_of
from cutting_proxy import ANSWER, REQUEST, CuttingProxy
from gateway_kit import LEAN, Gateway, Tenant
from inprocess_kit import Gateway as InProcessGateway

from privacy_gateway_client import AsyncGateway, ConnectionLost, NotStarted, ReleaseGone, Retry, WorkFailed
from privacy_gateway_client import Gateway as Client

TEXT = "One sentence is here. Another one follows."


@pytest.fixture
def proxy(real_gateway: Gateway) -> Iterator[CuttingProxy]:
    running = CuttingProxy(real_gateway.port)
    yield running
    running.close()


def cut_everywhere(real: Gateway, tenant: Tenant, proxy: CuttingProxy, side: str, places: int) -> None:
    """Cut calls at `places` places of their request or answer: each charges once, and has the bytes of its release."""
    with Client(real.url, tenant.key) as direct, Client(proxy.url, tenant.key, retry=AT_ONCE) as client:
        client.embed_documents([TEXT], epsilon=0.5)
        length = proxy.passed[side]
        for place in range(places):
            proxy.cut(side, place * length // places)
            result = client.embed_documents([TEXT], epsilon=0.5)
            assert proxy.cuts == place + 1
            if place % 10 == 0:
                key = result.releases[0].idempotency_key
                again = direct.embed_documents([TEXT], epsilon=0.5, idempotency_key=key)
                assert again.releases[0].replayed
                assert again.vectors.tobytes() == result.vectors.tobytes()
    assert tenant.committed() == 0.5 * (places + 1)


@pytest.mark.parametrize("side", [ANSWER, REQUEST])
def test_a_connection_that_is_cut_charges_once(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy, side: str
) -> None:
    cut_everywhere(real_gateway, real_tenant, proxy, side, 20)


@pytest.mark.slow("outage")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", [ANSWER, REQUEST])
def test_a_connection_that_is_cut_at_each_of_200_places_charges_once(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy, side: str
) -> None:
    cut_everywhere(real_gateway, real_tenant, proxy, side, 200)


def test_the_asynchronous_client_charges_once(real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy) -> None:
    async def use() -> None:
        async with AsyncGateway(proxy.url, real_tenant.key, retry=AT_ONCE) as client:
            for place in range(10):
                proxy.cut(ANSWER, place * 300)
                await client.embed_documents([TEXT], epsilon=1)

    asyncio.run(use())
    assert proxy.cuts == 10
    assert real_tenant.committed() == 10


def test_files_of_vectors_and_streams_survive_cuts(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy
) -> None:
    with Client(proxy.url, real_tenant.key, retry=AT_ONCE) as client:
        proxy.cut(ANSWER, 100_000)
        result = client.embed_vectors(np.eye(1000, 64, dtype=np.float32), epsilon=0.01)
        assert result.vectors.shape == (1000, 64)
        assert result.releases[0].replayed

        proxy.cut(ANSWER, 2_000)
        texts = [f"Mail number {number} to jane@example.org" for number in range(100)]
        rows: list[Any] = list(client.sanitize_stream(texts, fill={"mode": "class_marker"}))
        assert [row.index for row in rows] == list(range(100))
        assert rows[99].text == "Mail number 99 to [EMAIL_ADDRESS]"
    assert proxy.cuts == 2
    assert real_tenant.committed("vector") == pytest.approx(10)


def test_a_call_without_an_answer_can_be_repeated_under_its_key(
    real_gateway: Gateway, real_tenant: Tenant, proxy: CuttingProxy
) -> None:
    with Client(proxy.url, real_tenant.key, retry=Retry(attempts=1)) as client:
        proxy.cut(ANSWER, 10)
        with pytest.raises(ConnectionLost) as lost:
            client.embed_documents([TEXT], epsilon=1)
        assert lost.value.idempotency_key is not None
        client.embed_documents([TEXT], epsilon=1, idempotency_key=lost.value.idempotency_key)
    assert real_tenant.committed() == 1


def refusing(gateway: InProcessGateway, *refusals: tuple[int, dict[str, Any], dict[str, str]]) -> Recorder:
    """Executes each request, and answers the first ones with these refusals, as a proxy that fails does."""
    waiting = list(refusals)

    def answer(request: httpx.Request) -> httpx.Response:
        if waiting:
            status, members, headers = waiting.pop(0)
            if status == 502:
                gateway.transport.handle_request(request).read()
            return httpx.Response(status, json=members, headers={"Content-Type": "application/problem+json"} | headers)
        return gateway.transport.handle_request(request)

    return Recorder(answer)


def test_refusals_are_waited_for_and_charge_once(gateway: InProcessGateway, tenant: Tenant) -> None:
    sent = refusing(
        gateway,
        (429, {"code": "rate-limited", "status": 429}, {"Retry-After": "0"}),
        (503, {"code": "queue-full", "status": 503, "released": False}, {"Retry-After": "0.01"}),
        (502, {}, {}),
        (409, {"code": "release-in-flight", "status": 409}, {}),
    )
    with client_of(gateway, tenant, transport=sent) as client:
        result = client.embed_documents([TEXT], epsilon=1)

    assert result.releases[0].replayed
    assert len(sent.requests) == 5
    assert len({request.headers["Idempotency-Key"] for request in sent.requests}) == 1
    assert tenant.committed() == 1


@pytest.mark.parametrize(
    ("status", "members", "headers", "kind"),
    [
        (500, {"code": "task-failed", "charged": True}, {}, WorkFailed),
        (503, {"code": "not-started"}, {"X-Should-Retry": "false"}, NotStarted),
        (410, {"code": "release-gone"}, {}, ReleaseGone),
    ],
)
def test_what_was_charged_is_not_repeated(
    gateway: InProcessGateway, tenant: Tenant, status: int, members: dict[str, Any], headers: dict[str, str], kind: Any
) -> None:
    sent = refusing(gateway, (status, members, headers))
    with client_of(gateway, tenant, transport=sent) as client, pytest.raises(kind):
        client.embed_documents([TEXT], epsilon=1)
    assert len(sent.requests) == 1


def test_a_cap_counts_what_may_have_been_charged(gateway: InProcessGateway, tenant: Tenant) -> None:
    """The answer was lost after the charge, and then the gateway refuses: that is no refund."""
    waiting = ["lose", "refuse"]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/embed/sentdp":
            return gateway.transport.handle_request(request)
        if waiting.pop(0) == "refuse":
            return httpx.Response(503, headers={"Retry-After": "0"})
        gateway.transport.handle_request(request).read()
        raise httpx.ReadError("lost", request=request)

    settings = {"transport": Recorder(answer), "retry": Retry(attempts=2, first_s=0.01)}
    with client_of(gateway, tenant, **settings) as client, client.budget_cap(epsilon=5) as cap:
        with pytest.raises(NotStarted) as failure:
            client.embed_documents([TEXT], epsilon=1)
        assert failure.value.uncertain
        assert cap.spent == tenant.committed() == 1


def test_a_key_that_may_have_been_made_is_not_made_again(gateway: InProcessGateway, tenant: Tenant) -> None:
    def lost(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("lost", request=request)

    sent = Recorder(lost)
    with client_of(gateway, tenant, transport=sent) as client:
        with pytest.raises(ConnectionLost):
            client.keys.create()
        assert len(sent.requests) == 1


@pytest.mark.slow("crash")
@pytest.mark.timeout(600)
def test_a_gateway_that_is_killed_and_started_again_charges_once(tmp_path: Path) -> None:
    short = {"PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": "15", "PRIVACY_GATEWAY_HOLD_TTL_S": "20"}
    running = Gateway(tmp_path / "data", LEAN | short | {"PRIVACY_GATEWAY_EXPIRE_INTERVAL_S": "1"})
    tenant = running.tenant()
    patient = Retry(attempts=100_000, first_s=0.05, longest_s=0.3)
    ended: list[str] = []

    def call() -> None:
        with Client(running.url, tenant.key, retry=patient) as client:
            for _ in range(30):
                try:
                    client.embed_documents([TEXT], epsilon=1)
                    ended.append("released")
                except ReleaseGone:
                    ended.append("charged without an answer")

    try:
        caller = threading.Thread(target=call)
        caller.start()
        for count in (5, 15):
            while len(ended) < count:
                caller.join(0.01)
            running.die()
            running.start()
        caller.join(400)
        assert len(ended) == 30
        assert ended.count("released") >= 28
        assert running.reconnected(tenant).committed() == 30
    finally:
        running.stop()
