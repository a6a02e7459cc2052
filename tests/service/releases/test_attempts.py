"""Retries of the SDKs, which count their attempts: a call that was paid is delivered, and is paid once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from gateway_kit import DOCUMENT, Tenant
from inprocess_kit import Gateway

from core.errors import ClientGone, TaskFailed

EPSILON = 10.0
MODEL = "minilm-sentdp-eps10"


def embed(http: httpx.Client, attempt: int | str | None = None, text: str = DOCUMENT, **headers: str) -> httpx.Response:
    if attempt is not None:
        headers["X-Stainless-Retry-Count"] = str(attempt)
    return http.post("/v1/embeddings", json={"model": MODEL, "input": text}, headers=headers)


def vector(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["data"][0]["embedding"]


def test_a_retry_gets_the_answer_that_was_paid(tenant: Tenant) -> None:
    answers = [embed(tenant.http, attempt) for attempt in range(4)]
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["idempotency-key"] for answer in answers}) == 1
    assert [answer.headers["idempotency-replayed"] for answer in answers] == ["false", "true", "true", "true"]
    assert tenant.committed() == EPSILON


def test_equal_requests_that_are_no_retries_are_releases_of_their_own(tenant: Tenant) -> None:
    releases = [embed(tenant.http, attempt).headers["release-id"] for attempt in (None, None, 0, 0)]
    assert len(set(releases)) == 4
    assert tenant.committed() == 4 * EPSILON
    assert embed(tenant.http, 1).headers["release-id"] == releases[-1]
    assert tenant.committed() == 4 * EPSILON


def test_a_retry_whose_first_attempt_never_arrived_is_the_first(tenant: Tenant) -> None:
    assert vector(embed(tenant.http, 1)) == vector(embed(tenant.http, 2))
    assert tenant.committed() == EPSILON


def test_a_retry_of_another_request_is_a_request(gateway: Gateway, tenant: Tenant) -> None:
    embed(tenant.http)  # counts no attempts, so that no retry may repeat it
    embed(tenant.http, 1)
    assert tenant.committed() == 2 * EPSILON
    made = gateway.admin.post(f"/admin/tenants/{tenant.name}/keys").json()
    colleague = gateway.new_client({"Authorization": f"Bearer {made['key']}"})
    others = [
        embed(colleague, 1),
        embed(tenant.http, 1, f"{DOCUMENT} "),
        embed(tenant.http, 1, **{"Idempotency-Key": "of-the-caller"}),
        embed(tenant.http, "x"),
        embed(tenant.http, "-1"),
    ]
    assert [answer.headers["idempotency-replayed"] for answer in others] == ["false"] * 5
    assert tenant.committed() == 7 * EPSILON
    assert embed(gateway.tenant().http, 1).headers["idempotency-replayed"] == "false"


def test_a_refused_attempt_leaves_nothing_to_a_retry(gateway: Gateway) -> None:
    poor = gateway.tenant(epsilon=EPSILON - 1)
    for attempt in (0, 1):
        assert embed(poor.http, attempt).status_code == 403


def test_a_retry_joins_the_attempt_that_still_runs(
    gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = gateway.service.engine
    run, begun, goes_on = engine.run, threading.Event(), threading.Event()

    async def held(*given: Any, **options: Any) -> Any:
        begun.set()
        await asyncio.to_thread(goes_on.wait, 60)
        return await run(*given, **options)

    monkeypatch.setattr(engine, "run", held)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(embed, tenant.http, 0)
        assert begun.wait(60)
        retries = [pool.submit(embed, tenant.http, attempt) for attempt in (1, 2)]
        goes_on.set()
        answers = [each.result(120) for each in (first, *retries)]

    assert len({answer.content for answer in answers}) == 1
    assert tenant.committed() == EPSILON


def test_an_attempt_that_was_refunded_is_paid_by_its_retry(
    gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(gateway.service.engine, "run", raising(ClientGone()))
        assert embed(tenant.http, 0).status_code >= 400
    assert tenant.committed() == 0.0
    assert vector(embed(tenant.http, 1)) == vector(embed(tenant.http, 2))
    assert tenant.committed() == EPSILON


def test_a_retry_of_lost_work_is_not_charged_again(
    gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(gateway.service.engine, "run", raising(TaskFailed()))
        assert embed(tenant.http, 0).headers["x-should-retry"] == "false"
    again = embed(tenant.http, 1)
    assert (again.status_code, again.json()["error"]["code"]) == (410, "release-gone")
    assert tenant.committed() == EPSILON
    vector(embed(tenant.http, 0))
    assert tenant.committed() == 2 * EPSILON


def raising(error: Exception) -> Any:
    async def run(*_: Any, **__: Any) -> Any:
        raise error

    return run
