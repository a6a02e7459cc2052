"""Redis fails under a running gateway: 503, no output, nothing charged twice, and it answers again by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from gateway_kit import DOCUMENT, LEAN, Gateway
from hold_kit import until_held
from redis_faults import FAULTS, full, hanging
from redis_kit import DeployedServer, installed_server

from core.ledger.client import LedgerClient, connect
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger

THREE = [{"text": DOCUMENT}] * 3
HOUR_MS = 3600 * 1000

pytestmark = [
    pytest.mark.slow("outage"),
    pytest.mark.skipif(installed_server() is None, reason="no redis-server of version 7 or later is installed"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedServer]:
    server = DeployedServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def deployed(server: DeployedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway on a Redis of its own, which waits less long for it than for a process that only stalls."""
    settings = LEAN | {
        "REDIS_URL": server.url,
        "PRIVACY_GATEWAY_REDIS_TIMEOUT_S": "8",
        "PRIVACY_GATEWAY_READY_CACHE_S": "0",
    }
    gateway = Gateway(tmp_path_factory.mktemp("gateway") / "data", settings)
    yield gateway
    gateway.stop()


def assert_refused(answer: httpx.Response) -> None:
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "ledger-unavailable"
    assert "data" not in answer.json()


def spent_within_an_hour(deployed: Gateway, server: DeployedServer) -> int:
    """Spend the holds that the gateway would spend within the next hour, at their deadlines; how many there were."""

    async def scenario() -> int:
        client = LedgerClient(connect(url=server.url))
        key = MasterKey.load_or_create(deployed.data_dir)
        ledger = Ledger(client, key, clock=lambda: int(time.time() * 1000) + HOUR_MS)
        try:
            return await ledger.expire_overdue()
        finally:
            await client.close()

    return asyncio.run(scenario())


def test_the_gateway_serves_on_a_redis_of_ones_own(deployed: Gateway) -> None:
    """With the rights of users.acl and nothing else."""
    tenant = deployed.tenant(epsilon=2)
    assert [tenant.embed(epsilon=1).status_code for _ in range(3)] == [200, 200, 403]
    assert tenant.committed() == 2.0
    assert not (deployed.data_dir / "redis").exists(), "no second ledger beside the configured one"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_a_503_and_charges_nothing(deployed: Gateway, server: DeployedServer, fault) -> None:
    tenant = deployed.tenant()
    headers = {"Idempotency-Key": "during"}
    with fault(server):
        refused = tenant.embed(headers=headers)
        assert_refused(refused)
        assert "x-should-retry" not in refused.headers
        assert httpx.get(f"{deployed.url}/readyz", timeout=300).status_code == 503
        assert httpx.get(f"{deployed.url}/livez", timeout=300).status_code == 200
    deployed.wait_ready()

    again = tenant.embed(headers=headers)
    if fault is hanging and again.status_code == 409:  # it held the request when it went on, after the 503
        assert tenant.account()["reserved"]["epsilon"] == 1.0
    else:
        assert again.status_code == 200, again.text
        assert tenant.committed() == 1.0
    assert tenant.embed(headers={"Idempotency-Key": "after"}).status_code == 200


def test_a_redis_that_comes_back_with_weaker_settings_is_refused(deployed: Gateway, server: DeployedServer) -> None:
    tenant = deployed.tenant()
    server.stop()
    server.start("--appendfsync", "everysec")
    for _ in range(2):
        answer = tenant.embed()
        assert_refused(answer)
    assert "appendfsync" in answer.json()["detail"]
    server.stop()
    server.start()
    deployed.wait_ready()
    assert tenant.committed() == 0.0
    assert tenant.embed().status_code == 200


def test_a_fault_during_the_work_keeps_the_output_back(deployed: Gateway, server: DeployedServer) -> None:
    """The hold is durable, the commit is not: nothing leaves, and the hold counts."""
    tenant = deployed.tenant()
    headers = {"Idempotency-Key": "caught"}
    worker = deployed.pid_of("gpu_workers.engine.local.worker embed")
    with ThreadPoolExecutor(1) as client:
        os.kill(worker, signal.SIGSTOP)
        try:
            pending = client.submit(tenant.embed, THREE, headers=headers)
            until_held(tenant)
            with full(server):
                os.kill(worker, signal.SIGCONT)
                assert_refused(pending.result())
        finally:
            os.kill(worker, signal.SIGCONT)
        assert pending.result().headers["x-should-retry"] == "false", "a retry under a new key would cost again"
    account = tenant.account()
    assert (account["committed"]["epsilon"], account["reserved"]["epsilon"]) == (0.0, len(THREE))
    assert tenant.embed(THREE, headers=headers).status_code == 409
    assert spent_within_an_hour(deployed, server) >= 1
    assert tenant.committed() == len(THREE)
    assert tenant.embed(THREE, headers=headers).status_code == 410
