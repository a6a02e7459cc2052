"""Crashes in the middle of a request: the charge stands or nothing came out, and the gateway comes back by itself."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import httpx
from gateway_kit import DOCUMENT, Gateway, Tenant

MANY = [{"text": DOCUMENT * 8}] * 150  # several seconds of work on two cores


def _wait_until_held(tenant: Tenant) -> None:
    deadline = time.monotonic() + 20
    while tenant.account()["reserved"]["epsilon"] == 0.0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)  # the batch reaches the worker


def test_a_killed_worker_costs_its_request_and_the_next_one_works(gateway: Gateway, tenant: Tenant) -> None:
    with ThreadPoolExecutor(1) as client:
        pending = client.submit(tenant.embed, MANY)
        _wait_until_held(tenant)
        gateway.kill("gpu_workers.engine.local.worker embed")
        answer = pending.result()

    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "worker-died"
    assert answer.json()["charged"] is True
    assert answer.headers["idempotency-key"]
    assert tenant.committed() == 150.0
    assert tenant.account()["reserved"]["epsilon"] == 0.0

    assert tenant.embed(epsilon=1).status_code == 200
    assert tenant.committed() == 151.0


def test_a_lost_release_is_not_drawn_again_under_its_key(gateway: Gateway, tenant: Tenant) -> None:
    headers = {"Idempotency-Key": "lost"}
    with ThreadPoolExecutor(1) as client:
        pending = client.submit(tenant.embed, MANY, headers=headers)
        _wait_until_held(tenant)
        in_flight = tenant.embed(MANY, headers=headers)
        gateway.kill("gpu_workers.engine.local.worker embed")
        assert pending.result().status_code == 502

    assert in_flight.status_code == 409
    again = tenant.embed(MANY, headers=headers)
    assert again.status_code == 410
    assert tenant.committed() == 150.0


def test_a_killed_sanitiser_worker_leaves_embeddings_alone(gateway: Gateway, tenant: Tenant) -> None:
    gateway.kill("gpu_workers.engine.local.worker sanitize")

    assert tenant.embed().status_code == 200
    answer = tenant.http.post("/sanitize", json={"documents": [{"text": "Mail jo@example.org now."}]})
    assert answer.status_code == 200
    assert "jo@example.org" not in answer.text


def test_a_killed_redis_is_back_by_itself_and_covers_every_answer(gateway: Gateway, tenant: Tenant) -> None:
    delivered, refused = 0, []
    stop = threading.Event()

    def keep_asking() -> None:
        nonlocal delivered
        while not stop.is_set():
            answer = tenant.embed([{"text": "One. Two."}], epsilon=1)
            if answer.status_code == 200:
                delivered += 1
            else:
                refused.append(answer)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    time.sleep(0.7)
    gateway.kill("redis-server")
    killed_at = time.monotonic()
    back_after = None
    while back_after is None and time.monotonic() - killed_at < 10:
        time.sleep(0.05)
        if httpx.get(f"{gateway.url}/budget", headers=tenant.http.headers).status_code == 200:
            back_after = time.monotonic() - killed_at
    time.sleep(0.5)
    stop.set()
    asking.join()

    assert back_after is not None, "not back within 10 s"
    assert delivered > 0
    for answer in refused:
        assert answer.status_code == 503
        assert answer.json()["code"] == "ledger-unavailable"
        assert "data" not in answer.json()
    account = tenant.account()
    assert account["committed"]["epsilon"] + account["reserved"]["epsilon"] >= delivered
    assert tenant.embed(epsilon=1).status_code == 200


def test_while_redis_is_down_nothing_comes_out(gateway: Gateway, tenant: Tenant) -> None:
    gateway.kill("redis-server")

    answers = [
        tenant.embed(),
        tenant.http.post("/sanitize", json={"documents": [{"text": "hello"}]}),
        tenant.http.get("/budget"),
    ]

    assert all(answer.status_code in (200, 503) for answer in answers)
    assert answers[0].status_code == 503
    gateway.wait_ready()
    assert tenant.committed() == 0.0


def test_a_client_that_leaves_before_the_work_starts_pays_nothing(gateway: Gateway, tenant: Tenant) -> None:
    """The queue is kept busy by another tenant while this one's client gives up."""
    other = gateway.tenant()
    with ThreadPoolExecutor(1) as client:
        busy = client.submit(other.embed, MANY[:120])
        _wait_until_held(other)
        impatient = HTTPConnection("127.0.0.1", gateway.port)
        headers = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json"}
        body = json.dumps({"documents": [{"text": DOCUMENT}], "epsilon": 1.0})
        impatient.request("POST", "/embed/sentdp", body=body, headers=headers)
        _wait_until_held(tenant)
        impatient.close()
        assert busy.result().status_code == 200

    deadline = time.monotonic() + 30
    while tenant.account()["reserved"]["epsilon"] > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert tenant.committed() == 0.0
    journal = tenant.http.get(f"/budget/{tenant.name}/sentence/journal").json()["entries"]
    assert [entry["transition"] for entry in journal] == ["open", "reserve", "cancel"]
    assert journal[-1]["reason"] == "client-gone"
