"""Queries over what was spent, through a gateway that aggregates the journal often."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import httpx
from alert_kit import until as until_true
from command_kit import run_command
from gateway_kit import Tenant, good, pages
from inprocess_kit import Gateway, module_gateway

from core.ledger.hash_chain.chain import JournalDigest
from gpu_workers.engine.protocol import Role
from service.budget.journal import cell

TEXT = "One sentence. Another one."
folding = module_gateway(
    SEAL_INTERVAL_S="0.2", changes={"service.operation.maintenance.SERIES_INTERVAL_S": 0.1, "budget_page_max": 6}
)


def get(tenant: Tenant, path: str, **query: Any) -> dict[str, Any]:
    return good(tenant.http.get(f"/budget/{tenant.name}/{path}", params=query))


def until(condition: Callable[[dict[str, Any]], bool], tenant: Tenant, path: str, **query: Any) -> dict[str, Any]:
    """The answer once `condition` holds for it."""

    def found() -> dict[str, Any] | None:
        answer = get(tenant, path, **query)
        return answer if condition(answer) else None

    return until_true(found)


def release(tenant: Tenant, subject: str | None, epsilon: float, **fields: Any) -> None:
    document = {"text": TEXT} | ({} if subject is None else {"subject": subject})
    answer = tenant.embed([document], epsilon=epsilon, **fields)
    assert answer.status_code == 200, answer.text


def test_another_tenant_sees_what_it_sees_of_a_tenant_that_does_not_exist(folding: Gateway) -> None:
    tenant, other = folding.tenant(), folding.tenant()
    releasing = folding.with_key(tenant, "release").http
    for path in ("subjects", "forecast", "spending", "journal", "journal/export", "bounds", "headroom"):
        url = f"/budget/{tenant.name}/sentence/{path}"
        foreign, unknown = other.http.get(url), other.http.get(f"/budget/nobody/sentence/{path}")
        assert foreign.status_code == 404
        assert {**foreign.json(), "request_id": ""} == {**unknown.json(), "request_id": ""}
        assert folding.anyone.get(url).status_code == 401
        assert folding.admin.get(url).status_code == 403
        assert releasing.get(url).json()["code"] == "role-missing"


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
        ("sentence/subjects", {"near": "nan"}, "near"), ("sentence/subjects", {"near": -1}, "near"),
        ("sentence/subjects", {"cursor": "marker"}, "cursor"), (f"{own}/subjects", {}, "account"),
    ):  # fmt: skip
        answer = tenant.http.get(f"/budget/{tenant.name}/{path}", params=query)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
        assert "marker" not in answer.text


def test_a_new_account_has_no_forecast_and_says_so(folding: Gateway) -> None:
    tenant = folding.tenant(epsilon=10, subject_epsilon=5)
    empty = get(tenant, "sentence/forecast")
    assert (empty["kind"], empty["reason"]) == ("estimate", "too-little-history")
    assert (empty["exhausted_ms"], empty["line"]) == (None, [])
    assert empty["spent"] == {"epsilon": 0.0, "exhausted_at": None}
    release(tenant, "p1", 5)
    release(tenant, "p2", 4)
    assert get(tenant, "sentence/forecast")["spent"] == {"epsilon": 9.0, "exhausted_at": 10.0}
    [own] = until(lambda found: found["up_to_date"], tenant, "sentence/subjects", near=1)["subjects"]
    path = own["account"].removeprefix(f"{tenant.name}/")
    assert get(tenant, f"{path}/forecast")["reason"] == "exhausted"


def test_who_spent_by_mechanism_route_and_key(folding: Gateway) -> None:
    tenant = folding.tenant()
    other = folding.with_key(tenant)
    release(tenant, None, 2)
    release(tenant, None, 3, mechanism="clipped_cosine")
    body = {"model": "minilm-sentdp-eps10", "input": TEXT}
    assert other.http.post("/v1/embeddings", json=body).status_code == 200
    terms = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 1}}
    streamed = other.sanitize_lines(terms, {"text": "words"})
    assert '"usage"' in streamed.text, streamed.text

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
    assert by_key.pop(tenant.key_id) == (5.0, 2)
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
        ({"by": "text"}, "by"), ({"bucket": "minute"}, "bucket"), ({"cursor": "marker"}, "cursor"),
        ({"from": 1, "bucket": "hour"}, "from"), ({"from": 1}, "from"),
        ({"from": hours["to_ms"] + 86_400_000}, "from"), ({"limit": 0}, "limit"),
    ):  # fmt: skip
        refused = tenant.http.get(f"/budget/{tenant.name}/sentence/spending", params=query)
        assert refused.status_code == 422, query
        assert refused.json()["errors"][0]["field"].rpartition(".")[2] == field


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
        return good(tenant.http.get("/budget/integrity"))

    def lost(found: dict[str, Any]) -> dict[str, tuple[float, int]]:
        return {row["unit"]: (row["epsilon"], row["releases"]) for row in found["spent_without_output"]}

    until_true(lambda: not integrity()["journal"]["unsealed"] and lost(integrity())["sentence"][1])
    found = integrity()
    assert found["journal"] == {"entries": 5, "sealed": 5, "unsealed": 0, "seal": found["journal"]["seal"]}
    assert 0 < found["journal"]["seal"] <= found["epoch"]
    assert found["seal_age_s"] >= 0
    assert found["open_holds"] == {"number": 0, "earliest_deadline_ms": None}
    assert lost(found) == {"token": (3.0, 1), "sentence": (3.0, 1), "vector": (0.0, 0), "record": (0.0, 0)}

    audited = run_command(folding.data_dir, "ledger", "audit", "--json")
    assert json.loads(audited.stdout)["ok"]
    assert integrity()["last_audit"]["ok"]
    assert folding.admin.get("/admin/integrity").json()["last_audit"]["ok"]
    every = [one for page in pages(folding.admin, "/admin/integrity", "tenants", limit=2) for one in page]
    [own] = [one for one in every if one["tenant"] == tenant.name]
    assert own["journal"] == integrity()["journal"]
    assert len({one["tenant"] for one in every}) == len(every) > 2
    assert tenant.http.get("/admin/integrity").status_code == 403
    assert folding.admin.get("/budget/integrity").status_code == 403
    assert folding.anyone.get("/budget/integrity").status_code == 401


def entries(tenant: Tenant, account: str = "sentence", **query: Any) -> list[dict[str, Any]]:
    return get(tenant, f"{account}/journal", **query)["entries"]


def until_sealed(tenant: Tenant) -> list[dict[str, Any]]:
    """The entries of the sentence account, once a seal contains each of them."""

    def is_sealed(found: dict[str, Any]) -> bool:
        return all(entry["seal"] is not None for entry in found["entries"])

    return until(is_sealed, tenant, "sentence/journal")["entries"]


def exported(tenant: Tenant, account: str = "sentence", **query: Any) -> httpx.Response:
    answer = tenant.http.get(f"/budget/{tenant.name}/{account}/journal/export", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_journal_is_filtered_and_each_entry_has_its_place_in_the_chain(folding: Gateway) -> None:
    tenant = folding.tenant()
    other = folding.with_key(tenant).http
    release(tenant, None, 2)
    release(tenant, None, 3, mechanism="clipped_cosine")
    assert other.post("/v1/embeddings", json={"model": "minilm-sentdp-eps10", "input": TEXT}).status_code == 200
    every = until_sealed(tenant)
    assert [entry["transition"] for entry in every] == ["open"] + ["reserve", "commit"] * 3
    assert [entry["route"] for entry in every] == [None] + ["embed/sentdp"] * 4 + ["v1/embeddings"] * 2
    assert len({entry["sha256"] for entry in every}) == 7

    numbers = {
        "transition": ("commit", [3, 5, 7]), "mechanism": ("clipped_cosine", [4, 5]),
        "route": ("v1/embeddings", [6, 7]), "key_id": (tenant.key_id, [2, 3, 4, 5]),
        "from": (every[3]["at_ms"], [entry["seq"] for entry in every if entry["at_ms"] >= every[3]["at_ms"]]),
        "to": (every[3]["at_ms"], [entry["seq"] for entry in every if entry["at_ms"] < every[3]["at_ms"]]),
    }  # fmt: skip
    for name, (value, expected) in numbers.items():
        assert [entry["seq"] for entry in entries(tenant, **{name: value})] == expected, name
        assert [json.loads(line)["seq"] for line in exported(tenant, **{name: value}).text.splitlines()] == expected
    assert [entry["seq"] for entry in entries(tenant, order="newest")] == [7, 6, 5, 4, 3, 2, 1]
    page = get(tenant, "sentence/journal", order="newest", limit=3)
    assert [entry["seq"] for entry in entries(tenant, order="newest", cursor=page["next_cursor"])] == [4, 3, 2, 1]
    assert entries(tenant, mechanism="laplace") == []

    # the digests are those that the operator's export gives to an auditor
    lines = run_command(folding.data_dir, "ledger", "export", "--tenant", tenant.name).stdout.splitlines()
    stored = [line for line in map(json.loads, lines) if line["type"] == "entry"]
    raw = [
        (one["stored"]["id"].encode(), {n.encode(): v.encode() for n, v in one["stored"]["fields"].items()})
        for one in stored
    ]
    assert [entry["sha256"] for entry in every] == [JournalDigest([one]).hexdigest() for one in raw]
    seals = [line for line in map(json.loads, lines) if line["type"] == "seal"]
    for entry in every:
        [seal] = [one for one in seals if one["n"] == entry["seal"]]
        assert seal["segments"][0]["first"] <= entry["seq"] <= seal["segments"][0]["last"]

    for query, field in (
        ({"transition": "marker"}, "transition"), ({"mechanism": "Marker of Mine"}, "mechanism"),
        ({"route": "/embed"}, "route"), ({"from": 5, "to": 5}, "from"), ({"order": "marker"}, "order"),
        ({"format": "marker"}, "format"),
    ):  # fmt: skip
        refused = tenant.http.get(f"/budget/{tenant.name}/sentence/journal/export", params=query)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"].rpartition(".")[2] == field
        assert "arker" not in refused.text


def test_an_export_holds_every_entry_in_both_formats(folding: Gateway) -> None:
    tenant = folding.tenant(epsilon=100, subject_epsilon=50)
    for number in range(4):
        release(tenant, f"p{number % 2}", 0.1 + number)
    until_sealed(tenant)
    answer = exported(tenant)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == 'attachment; filename="journal.jsonl"'
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["seq"] for row in rows] == [entry["seq"] for entry in entries(tenant)]
    assert [row["epsilon"] for row in rows if row["transition"] == "commit"] == ["0.1", "1.1", "2.1", "3.1"]
    assert all(row["account"] == f"{tenant.name}/sentence" for row in rows)

    answer = exported(tenant, format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    table = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [{name: str(value) if value is not None else "" for name, value in row.items()} for row in rows] == table
    newest = [json.loads(line)["seq"] for line in exported(tenant, order="newest").text.splitlines()]
    assert newest == [row["seq"] for row in reversed(rows)]

    until(lambda found: found["up_to_date"], tenant, "sentence/subjects")
    subject = get(tenant, "sentence/subjects")["subjects"][0]["account"].rpartition("/")[2]
    own = entries(tenant, subject=subject)
    assert [(entry["transition"], entry["amount"]["epsilon"]) for entry in own] == [("commit", 1.1), ("commit", 3.1)]
    of_subject = [json.loads(line) for line in exported(tenant, f"sentence/{subject}").text.splitlines()]
    assert [row["transition"] for row in of_subject] == ["open", "commit", "commit"]
    refused = tenant.http.get(f"/budget/{tenant.name}/sentence/{subject}/journal", params={"subject": subject})
    assert refused.status_code == 422
    assert tenant.http.get(f"/budget/{tenant.name}/sentence/journal", params={"subject": "0" * 16}).status_code == 404


def test_a_cell_that_begins_like_a_formula_is_text() -> None:
    for start in "=+-@\t\r":
        assert cell(f"{start}1+cmd|'/c calc'!A0").startswith("'")
    assert cell("embed/sentdp") == "embed/sentdp"
    assert (cell(None), cell(7), cell(-7)) == ("", "7", "'-7")
