"""Redis fails under a running gateway: 503, no output, nothing charged twice, and it answers again by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from gateway_kit import DOCUMENT, LEAN, Gateway
from redis_faults import FAULTS, full, hanging
from redis_kit import DeployedServer, installed_server

MANY = [{"text": DOCUMENT * 8}] * 30  # about a second of work on two cores

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
    """One gateway on a Redis of its own, impatient and quick to sweep."""
    settings = LEAN | {
        "REDIS_URL": server.url,
        "PRIVACY_GATEWAY_REDIS_TIMEOUT_S": "0.5",
        "PRIVACY_GATEWAY_READY_CACHE_S": "0",
        "PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": "10",
        "PRIVACY_GATEWAY_HOLD_TTL_S": "11",
    }
    gateway = Gateway(tmp_path_factory.mktemp("gateway") / "data", settings)
    yield gateway
    gateway.stop()


def assert_refused(answer: httpx.Response) -> None:
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "ledger-unavailable"
    assert "data" not in answer.json()


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
        assert httpx.get(f"{deployed.url}/readyz", timeout=15).status_code == 503
        assert httpx.get(f"{deployed.url}/livez").status_code == 200
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
    with ThreadPoolExecutor(1) as client:
        pending = client.submit(tenant.embed, MANY, headers=headers)
        deadline = time.monotonic() + 20
        while tenant.account()["reserved"]["epsilon"] == 0.0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with full(server):
            assert_refused(pending.result())
        assert pending.result().headers["x-should-retry"] == "false", "a retry under a new key would cost again"
    account = tenant.account()
    assert (account["committed"]["epsilon"], account["reserved"]["epsilon"]) == (0.0, len(MANY))
    assert tenant.embed(MANY, headers=headers).status_code == 409
    deadline = time.monotonic() + 40
    while tenant.account()["reserved"]["epsilon"] > 0.0:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert tenant.committed() == len(MANY)
    assert tenant.embed(MANY, headers=headers).status_code == 410
