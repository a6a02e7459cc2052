"""`GET /budget/series` and the pages of `GET /budget`, through a gateway with small limits that folds often."""

import json
from typing import Any

import httpx
from alert_kit import until
from command_kit import run_command
from gateway_kit import Tenant, good, pages
from inprocess_kit import Gateway, module_gateway

TEXT = "One sentence. Another one."
SMALL = {
    "service.operation.maintenance.SERIES_INTERVAL_S": 0.1,
    "series_points_max": 200,
    "series_max": 3,
    "budget_page_max": 6,
}
folding = module_gateway(changes=SMALL)


def series(tenant: Tenant, **query: Any) -> httpx.Response:
    return tenant.http.get("/budget/series", params={name.rstrip("_"): value for name, value in query.items()})


def complete(tenant: Tenant, **query: Any) -> dict[str, Any]:
    """The series once they hold everything that has happened so far."""
    last = series(tenant, **query).json()["to_ms"]  # the end of the bucket of now
    entries = tenant.http.get(f"/budget/{tenant.name}/sentence/journal").json()["entries"]

    def found() -> dict[str, Any] | None:
        block = good(series(tenant, **query))
        return block if block["as_of_ms"] >= entries[-1]["at_ms"] and block["to_ms"] >= last else None

    return until(found, "the journal was not folded")


def test_series_show_what_was_released(folding: Gateway) -> None:
    tenant = folding.tenant()
    assert tenant.embed(epsilon=1.5).status_code == 200
    assert tenant.embed(epsilon=2, documents=[{"text": TEXT}] * 2, mechanism="clipped_cosine").status_code == 200
    state = tenant.account()

    for step in (None, 600, 3600, 21600, 86400):
        query = {"unit": "sentence"} | ({} if step is None else {"step": step})
        answer = complete(tenant, **query)
        assert answer["step_s"] == (step or 600)  # a day of minutes is more than 200 points
        points = [one["points"] for one in answer["series"]]
        assert {(one["unit"], one["subject_class"]) for one in answer["series"]} == {("sentence", "tenant")}
        for line in points:
            at_ms = range(answer["from_ms"], answer["to_ms"], answer["step_s"] * 1000)
            assert [point["at_ms"] for point in line] == list(at_ms)
            zero = {"epsilon": 0.0, "delta": 0.0}
            if step != 86400:
                assert line[0] == {"at_ms": at_ms[0], "committed": zero, "reserved": zero, "releases": 0}
        assert sum(line[-1]["committed"]["epsilon"] for line in points) == state["committed"]["epsilon"] == 5.5
        assert sum(line[-1]["reserved"]["epsilon"] for line in points) == 0
        assert sum(line[-1]["releases"] for line in points) == 2


def test_series_of_subjects(folding: Gateway) -> None:
    tenant = folding.tenant(subject_epsilon=10)
    documents = [{"text": TEXT, "subject": subject} for subject in ("p1", "p2", "p1")]
    assert tenant.embed(documents, epsilon=1).status_code == 200
    both = complete(tenant, unit="token")["series"]
    assert [one["subject_class"] for one in both] == ["subject", "tenant"]
    assert [one["points"][-1]["committed"]["epsilon"] for one in both] == [3.0, 3.0]
    [one] = complete(tenant, unit="token", class_="subject", mechanism=both[0]["mechanism"])["series"]
    assert one["points"] == both[0]["points"]
    assert "p1" not in series(tenant, unit="token").text


def assert_problem(answer: httpx.Response, field: str | None = None) -> None:
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid-input"
    if field is not None:
        assert answer.json()["errors"][0]["field"].rpartition(".")[2] == field


def test_queries_that_are_not_supported_are_refused(folding: Gateway) -> None:
    tenant = folding.tenant()
    steps = series(tenant, step=61)
    assert_problem(steps, "step")
    assert "60, 600, 3600, 21600, 86400" in steps.json()["detail"]
    assert_problem(series(tenant, from_=10**15), "from")
    for field, wrong in (
        ("from", "-1"), ("from", "1.0"), ("from", "1_000"), ("from", " 1"), ("from", "2026-01-01T00:00:00Z"),
        ("from", "9" * 30), ("to", "now"), ("step", "60.0"), ("unit", "paragraph"), ("class", "all"),
        ("mechanism", "Marker Of Mine"),
    ):  # fmt: skip
        refused = tenant.http.get("/budget/series", params={field: wrong})
        assert_problem(refused, field)
        assert wrong not in refused.text or wrong.isdigit()
    misspelt = tenant.http.get("/budget/series", params={"mechansim": "laplace"})
    assert_problem(misspelt)
    assert misspelt.json()["errors"][0]["field"] == "query.mechansim"

    assert folding.anyone.get("/budget/series").status_code == 401
    assert folding.admin.get("/budget/series").status_code == 403


def test_budgets_come_in_pages(folding: Gateway) -> None:
    tenant = folding.tenant(subject_epsilon=10)
    documents = [{"text": TEXT, "subject": f"p{number}"} for number in range(8)]
    assert tenant.embed(documents).status_code == 200

    found = pages(tenant.http, "/budget", "accounts")
    assert [len(page) for page in found] == [6, 6, 6, 2]  # 4 of its own, 8 subjects in 2 units
    accounts = [account for page in found for account in page]
    assert [account["account"] for account in accounts[:4]] == [
        f"{tenant.name}/{unit}" for unit in ("token", "sentence", "vector", "record")
    ]
    assert len({account["account"] for account in accounts}) == 20
    assert [len(page) for page in pages(tenant.http, "/budget", "accounts", limit=3)] == [3] * 6 + [2]
    assert [len(page) for page in pages(tenant.http, "/budget", "accounts", limit=1000)] == [6, 6, 6, 2]
    assert pages(folding.admin, f"/admin/tenants/{tenant.name}/budgets", "accounts") == found

    shown = run_command(folding.data_dir, "budget", "show", tenant.name, "--json")
    assert json.loads(shown.stdout)["accounts"] == accounts


def test_a_page_that_cannot_be_is_refused(folding: Gateway) -> None:
    tenant = folding.tenant()
    paths = ((tenant.http, "/budget"), (folding.admin, f"/admin/tenants/{tenant.name}/budgets"))
    for client, path in paths:
        assert_problem(client.get(path, params={"limit": 0}), "limit")
        assert_problem(client.get(path, params={"cursor": "marker"}), "cursor")
    assert folding.admin.get("/admin/tenants/nobody/budgets").status_code == 404
