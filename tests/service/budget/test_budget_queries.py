"""Queries over what was spent, through a gateway that aggregates the journal often."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from command_kit import run_command
from gateway_kit import LEAN, Tenant
from inprocess_kit import Gateway

from gpu_workers.engine.protocol import Role

SETTINGS = LEAN | {
    "PRIVACY_GATEWAY_SERIES_INTERVAL_S": "0.1",
    "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.2",
    "PRIVACY_GATEWAY_BUDGET_PAGE_MAX": "6",
}
TEXT = "One sentence. Another one."


@pytest.fixture(scope="module")
def folding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(tmp_path_factory.mktemp("queries") / "data", SETTINGS)
    yield running
    running.stop()


def get(tenant: Tenant, path: str, **query: Any) -> dict[str, Any]:
    answer = tenant.http.get(f"/budget/{tenant.name}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(condition: Callable[[dict[str, Any]], bool], tenant: Tenant, path: str, **query: Any) -> dict[str, Any]:
    """The answer once `condition` holds for it."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        answer = get(tenant, path, **query)
        if condition(answer):
            return answer
        time.sleep(0.05)
    raise AssertionError(answer)


def release(tenant: Tenant, subject: str | None, epsilon: float, **fields: Any) -> None:
    document = {"text": TEXT} | ({} if subject is None else {"subject": subject})
    answer = tenant.embed([document], epsilon=epsilon, **fields)
    assert answer.status_code == 200, answer.text


def assert_isolated(gateway: Gateway, tenant: Tenant, path: str) -> None:
    """Another tenant sees what it sees of a tenant that does not exist; the operator and nobody see nothing."""
    other = gateway.tenant()
    foreign = other.http.get(f"/budget/{tenant.name}/{path}")
    assert foreign.status_code == 404
    assert foreign.json() == other.http.get(f"/budget/nobody/{path}").json()
    assert gateway.anyone.get(f"/budget/{tenant.name}/{path}").status_code == 401
    assert gateway.admin.get(f"/budget/{tenant.name}/{path}").status_code == 403
    key = gateway.admin.post(f"/admin/tenants/{tenant.name}/keys", json={"roles": ["release"]})
    assert key.status_code == 201, key.text
    spender = gateway.client(key.json()["key"])
    assert spender.get(f"/budget/{tenant.name}/{path}").json()["code"] == "role-missing"


def test_the_subjects_whose_next_request_fails(folding: Gateway) -> None:
    tenant = folding.tenant(epsilon=1000, subject_epsilon=10)
    for number in range(1, 9):
        release(tenant, f"p{number}", number)
    near = until(lambda found: found["up_to_date"], tenant, "sentence/subjects", near=5)
    assert [one["remaining"]["epsilon"] for one in near["subjects"]] == [2, 3, 4]
    assert near["remaining"]["epsilon"] == 964
    assert "p8" not in str(near)
    refused = tenant.embed([{"text": TEXT, "subject": "p8"}], epsilon=5)
    assert refused.json()["account"] == near["subjects"][0]["account"]

    first = get(tenant, "sentence/subjects")
    assert [one["remaining"]["epsilon"] for one in first["subjects"]] == [2, 3, 4, 5, 6, 7]
    second = get(tenant, "sentence/subjects", cursor=first["next_cursor"])
    assert [one["remaining"]["epsilon"] for one in second["subjects"]] == [8, 9]
    assert second["next_cursor"] is None
    assert get(tenant, "record/subjects")["subjects"] == []

    own = near["subjects"][0]["account"].removeprefix(f"{tenant.name}/")
    for path, query, field in (
        ("sentence/subjects", {"near": "nan"}, "near"),
        ("sentence/subjects", {"near": -1}, "near"),
        ("sentence/subjects", {"cursor": "marker"}, "cursor"),
        (f"{own}/subjects", {}, "account"),
    ):
        answer = tenant.http.get(f"/budget/{tenant.name}/{path}", params=query)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
        assert "marker" not in answer.text
    assert_isolated(folding, tenant, "sentence/subjects")


def test_a_new_account_has_no_forecast_and_says_so(folding: Gateway) -> None:
    tenant = folding.tenant(epsilon=10, subject_epsilon=5)
    empty = get(tenant, "sentence/forecast")
    assert (empty["kind"], empty["reason"], empty["exhausted_ms"], empty["line"]) == (
        "estimate",
        "too-little-history",
        None,
        [],
    )
    assert empty["spent"] == {"epsilon": 0.0, "exhausted_at": None}
    release(tenant, "p1", 5)
    release(tenant, "p2", 4)
    assert get(tenant, "sentence/forecast")["spent"] == {"epsilon": 9.0, "exhausted_at": 10.0}
    [own] = until(lambda found: found["up_to_date"], tenant, "sentence/subjects", near=1)["subjects"]
    path = own["account"].removeprefix(f"{tenant.name}/")
    assert get(tenant, f"{path}/forecast")["reason"] == "exhausted"
    assert_isolated(folding, tenant, "sentence/forecast")


def test_who_spent_by_mechanism_route_and_key(folding: Gateway) -> None:
    tenant = folding.tenant()
    other = folding.client(folding.admin.post(f"/admin/tenants/{tenant.name}/keys").json()["key"])
    release(tenant, None, 2)
    release(tenant, None, 3, mechanism="clipped_cosine")
    body = {"model": "minilm-sentdp-eps10", "input": TEXT}
    assert other.post("/v1/embeddings", json=body).status_code == 200
    lines = '{"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 1}}\n{"text": "words"}\n'
    streamed = other.post("/sanitize/batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert '"usage"' in streamed.text, streamed.text
    first = tenant.key.split("_")[1]

    def spent(by: str, unit: str = "sentence") -> dict[str | None, tuple[float, int]]:
        def is_whole(found: dict[str, Any]) -> bool:
            return sum(row["total"]["releases"] for row in found["rows"]) == (4 if unit == "token" else 3)

        found = until(is_whole, tenant, f"{unit}/spending", by=by)
        assert found["rows"] == sorted(found["rows"], key=lambda row: -row["total"]["epsilon"])
        for row in found["rows"]:
            assert sum(bucket["epsilon"] for bucket in row["buckets"]) == row["total"]["epsilon"]
            assert sum(bucket["releases"] for bucket in row["buckets"]) == row["total"]["releases"]
        return {row[by]: (row["total"]["epsilon"], row["total"]["releases"]) for row in found["rows"]}

    assert spent("mechanism") == {"sentence_codes": (12.0, 2), "clipped_cosine": (3.0, 1)}
    assert spent("route") == {"v1/embeddings": (10.0, 1), "embed/sentdp": (5.0, 2)}
    by_key = spent("key")
    assert by_key.pop(first) == (5.0, 2)
    assert list(by_key.values()) == [(10.0, 1)]
    assert set(spent("route", "token")) == {"v1/embeddings", "embed/sentdp", "sanitize/batch"}

    hours = get(tenant, "sentence/spending", by="route", bucket="hour", limit=1)
    assert (hours["bucket_s"], [row["route"] for row in hours["rows"]]) == (3600, ["v1/embeddings"])
    rest = get(tenant, "sentence/spending", by="route", bucket="hour", cursor=hours["next_cursor"])
    assert ([row["route"] for row in rest["rows"]], rest["next_cursor"]) == (["embed/sentdp"], None)
    past = get(tenant, "sentence/spending", by="route", to=hours["from_ms"] - 30 * 86_400_000)
    assert [row["buckets"] for row in past["rows"]] == [[], []]
    assert get(tenant, "record/spending")["rows"] == []

    for query, field in (
        ({"by": "text"}, "by"),
        ({"bucket": "minute"}, "bucket"),
        ({"cursor": "marker"}, "cursor"),
        ({"from": 1, "bucket": "hour"}, "from"),
        ({"from": 1}, "from"),
        ({"from": hours["to_ms"] + 86_400_000}, "from"),
        ({"limit": 0}, "limit"),
    ):
        refused = tenant.http.get(f"/budget/{tenant.name}/sentence/spending", params=query)
        assert refused.status_code == 422, query
        assert refused.json()["errors"][0]["field"].rpartition(".")[2] == field
    assert_isolated(folding, tenant, "sentence/spending")


def test_who_spent_by_subject(folding: Gateway) -> None:
    tenant = folding.tenant(epsilon=1000, subject_epsilon=20)
    for subject, epsilon in (("p1", 3), ("p2", 5), ("p1", 4), ("p3", 1)):
        release(tenant, subject, epsilon, mechanism="clipped_cosine" if epsilon == 4 else "sentence_codes")
    until(lambda found: found["up_to_date"], tenant, "sentence/subjects")
    found = get(tenant, "sentence/spending", by="subject")
    assert [(row["total"]["epsilon"], row["total"]["releases"]) for row in found["rows"]] == [(7, 2), (5, 1), (1, 1)]
    assert [sum(bucket["epsilon"] for bucket in row["buckets"]) for row in found["rows"]] == [7, 5, 1]
    assert all(row["complete"] for row in found["rows"])
    assert "p1" not in str(found)
    first = get(tenant, "sentence/spending", by="subject", limit=2)
    second = get(tenant, "sentence/spending", by="subject", limit=2, cursor=first["next_cursor"])
    assert first["rows"] + second["rows"] == found["rows"]
    assert second["next_cursor"] is None

    own = found["rows"][0]["subject"].removeprefix(f"{tenant.name}/")
    by_mechanism = get(tenant, f"{own}/spending", by="mechanism")
    assert {row["mechanism"]: row["total"]["epsilon"] for row in by_mechanism["rows"]} == {
        "clipped_cosine": 4.0,
        "sentence_codes": 3.0,
    }
    assert [row["route"] for row in get(tenant, f"{own}/spending", by="route")["rows"]] == ["embed/sentdp"]
    refused = tenant.http.get(f"/budget/{tenant.name}/{own}/spending", params={"by": "subject"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "by")


def test_integrity_of_a_tenant_and_of_all(folding: Gateway) -> None:
    tenant = folding.tenant()
    release(tenant, None, 2)
    folding.kill_worker_at_work(Role.EMBED)
    assert tenant.embed(epsilon=3).status_code == 502
    assert folding.tenant().http.get("/budget/integrity").json()["last_audit"] is None

    def integrity() -> dict[str, Any]:
        answer = tenant.http.get("/budget/integrity")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def lost(found: dict[str, Any]) -> dict[str, tuple[float, int]]:
        return {row["unit"]: (row["epsilon"], row["releases"]) for row in found["spent_without_output"]}

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and (integrity()["journal"]["unsealed"] or not lost(integrity())["sentence"][1]):
        time.sleep(0.05)
    found = integrity()
    assert found["journal"] == {"entries": 5, "sealed": 5, "unsealed": 0, "seal": found["journal"]["seal"]}
    assert 0 < found["journal"]["seal"] <= found["epoch"]
    assert found["seal_age_s"] >= 0
    assert found["open_holds"] == {"number": 0, "earliest_deadline_ms": None}
    assert lost(found) == {"token": (3.0, 1), "sentence": (3.0, 1), "vector": (0.0, 0), "record": (0.0, 0)}

    audited = run_command(folding.data_dir, "ledger", "audit", "--json")
    assert json.loads(audited.stdout)["ok"]
    assert integrity()["last_audit"]["ok"]
    pages: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = folding.admin.get("/admin/integrity", params=cursor | {"limit": 2}).json()
        assert page["last_audit"]["ok"]
        pages += page["tenants"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    [own] = [one for one in pages if one["tenant"] == tenant.name]
    assert own["journal"] == integrity()["journal"]
    assert len({one["tenant"] for one in pages}) == len(pages) > 2
    assert tenant.http.get("/admin/integrity").status_code == 403
    assert folding.admin.get("/budget/integrity").status_code == 403
    assert folding.anyone.get("/budget/integrity").status_code == 401
