"""Crashes in the middle of a request: the charge stands or nothing came out, and the gateway comes back by itself."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import httpx
import pytest
from gateway_kit import DOCUMENT, Gateway, Tenant, cpu_ticks
from wait_kit import until

MANY = [{"text": DOCUMENT * 8}] * 150  # several seconds of work on two cores
WORKER = "gpu_workers.engine.worker embed"


def test_a_killed_worker_costs_its_request_and_the_next_one_works(real_gateway: Gateway, real_tenant: Tenant) -> None:
    worker = real_gateway.pid_of(WORKER)
    before = cpu_ticks(worker)
    with ThreadPoolExecutor(1) as client:
        pending = client.submit(real_tenant.embed, MANY)
        until(lambda: cpu_ticks(worker) >= before + 20, "it does not work")  # hundredths of a second
        real_gateway.kill(WORKER)
        answer = pending.result()

    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "worker-died"
    assert answer.json()["charged"] is True
    assert answer.headers["idempotency-key"]
    assert real_tenant.committed() == 150.0
    assert real_tenant.account()["reserved"]["epsilon"] == 0.0

    assert real_tenant.embed(epsilon=1).status_code == 200
    assert real_tenant.committed() == 151.0


def test_a_killed_redis_is_back_by_itself_and_covers_every_answer(real_gateway: Gateway, real_tenant: Tenant) -> None:
    delivered, refused = 0, []
    stop = threading.Event()

    def keep_asking() -> None:
        nonlocal delivered
        while not stop.is_set():
            answer = real_tenant.embed([{"text": "One. Two."}], epsilon=1)
            if answer.status_code == 200:
                delivered += 1
            else:
                refused.append(answer)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    until(lambda: delivered > 0, "nothing was released")
    real_gateway.kill("redis-server")
    url, headers = f"{real_gateway.url}/budget", real_tenant.http.headers
    until(lambda: httpx.get(url, headers=headers, timeout=300).status_code == 200, "Redis is not back")
    before = delivered
    until(lambda: delivered > before, "nothing was released afterwards")
    stop.set()
    asking.join()

    for answer in refused:
        assert answer.status_code == 503
        assert answer.json()["code"] == "ledger-unavailable"
        assert "data" not in answer.json()
    account = real_tenant.account()
    assert account["committed"]["epsilon"] + account["reserved"]["epsilon"] >= delivered
    assert real_tenant.embed(epsilon=1).status_code == 200


def until_held(tenant: Tenant, *, more_than: float) -> None:
    """Until more than so much epsilon is reserved, and the work behind it has been passed to its worker.

    The gateway passes work on without waiting, so it has done so once it has answered further requests.
    """
    until(lambda: tenant.account()["reserved"]["epsilon"] > more_than, "nothing is held")
    time.sleep(0.3)
    for _ in range(10):
        tenant.account()


@pytest.mark.slow("crash")
def test_a_client_that_leaves_before_the_work_starts_pays_nothing(real_gateway: Gateway, real_tenant: Tenant) -> None:
    """An earlier request of the same tenant keeps its turn while this client gives up."""
    with ThreadPoolExecutor(1) as client:
        busy = client.submit(real_tenant.embed, MANY[:120], epsilon=1)
        until_held(real_tenant, more_than=0.0)
        impatient = HTTPConnection("127.0.0.1", real_gateway.port)
        headers = {"Authorization": f"Bearer {real_tenant.key}", "Content-Type": "application/json"}
        body = json.dumps({"documents": [{"text": DOCUMENT}], "epsilon": 7.0})
        impatient.request("POST", "/embed/sentdp", body=body, headers=headers)
        until_held(real_tenant, more_than=120.0)
        impatient.close()
        assert busy.result().status_code == 200

    until(lambda: real_tenant.account()["reserved"]["epsilon"] == 0, "the hold stays")
    assert real_tenant.committed() == 120.0
    journal = real_tenant.http.get(f"/budget/{real_tenant.name}/sentence/journal").json()["entries"]
    assert [entry["transition"] for entry in journal if entry["transition"] != "limit"] in (
        ["open", "reserve", "reserve", "cancel", "commit"],
        ["open", "reserve", "reserve", "commit", "cancel"],
    )
    assert next(entry for entry in journal if entry["transition"] == "cancel")["reason"] == "client-gone"
