"""Work that is lost: what had started is charged and not drawn again, what had not started is refunded."""

import base64
from pathlib import Path

import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, opened_gateway

from core.errors import NotStarted
from gpu_workers.engine.protocol import Role, RoleStatus
from gpu_workers.engine.task_queue import QueueLimits


def transitions(tenant: Tenant, unit: str) -> list[str]:
    entries = tenant.http.get(f"/budget/{tenant.name}/{unit}/journal").json()["entries"]
    return [entry["transition"] for entry in entries]


def test_a_dead_sanitiser_is_charged_where_a_fill_has_a_price(gateway: Gateway, tenant: Tenant) -> None:
    body = {"documents": [{"text": "one two"}], "mask": {"techniques": ["all"]}}
    priced = body | {"fill": {"mode": "metric_dp", "epsilon": 2.5}}
    for sent, charged in ((body, False), (priced, True)):
        gateway.kill_worker_at_work(Role.SANITIZE)
        lost = tenant.http.post("/sanitize", json=sent)
        assert (lost.status_code, lost.json()["charged"]) == (502, charged)
    assert tenant.committed("vector") == 2.5
    assert tenant.http.post("/sanitize", json=body).status_code == 200


def test_an_answer_that_cannot_be_made_is_charged_whatever_its_error(
    gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: bytes) -> bytes:
        raise NotStarted

    monkeypatch.setattr(base64, "b64encode", refuse)  # with which the answer is written
    answer = tenant.embed(encoding_format="base64")
    assert (answer.status_code, answer.json()["code"], answer.json()["charged"]) == (500, "task-failed", True)
    assert tenant.committed() == 1.0


def test_work_that_finds_no_place_in_the_queue_is_refunded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inprocess_kit.queue_limits", lambda _: QueueLimits(tasks_max=4))
    with opened_gateway(tmp_path) as small:
        tenant = small.tenant()
        unnamed = tenant.embed([{"text": "One."}] * 5)
        assert (unnamed.status_code, unnamed.json()["code"]) == (503, "queue-full")
        assert transitions(tenant, "sentence") == ["open"], "without a key it cannot be a replay, so nothing is held"
        refused = tenant.embed([{"text": "One."}] * 5, headers={"Idempotency-Key": "named"})
        assert (refused.status_code, refused.json()["code"]) == (503, "queue-full")
        assert refused.json()["released"] is False
        assert "retry-after" in refused.headers
        assert tenant.committed() == tenant.account()["reserved"]["epsilon"] == 0.0
        assert transitions(tenant, "sentence") == ["open", "reserve", "cancel"]


def test_a_replay_needs_no_worker(gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"Idempotency-Key": "restarted"}
    first = tenant.embed(headers=headers)
    loading = RoleStatus(ready=False, stage="loading", queued=0, facts=None)
    monkeypatch.setattr(gateway.service.engine, "status", lambda role: loading)
    assert tenant.embed(headers=headers).content == first.content
    assert tenant.committed() == 1.0
