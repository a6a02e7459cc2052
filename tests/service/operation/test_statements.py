"""What the operator sees: statements for auditors, all tenants at once, what a limit refuses, audits, failures."""

import json
from pathlib import Path
from typing import Any

from alert_kit import until
from command_kit import run_command
from inprocess_kit import Gateway, module_gateway

from core.master_key import MasterKey
from service.tenants.statement import is_genuine

DAY_MS = 24 * 3600 * 1000
served = module_gateway(changes={"service.operation.maintenance.SERIES_INTERVAL_S": 0.1})


def statement(gateway: Gateway, tenant: str, **query: Any) -> dict[str, Any]:
    answer = gateway.admin.get(f"/admin/tenants/{tenant}/statement", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_statement_has_what_an_auditor_asks_for_and_is_signed(served: Gateway, tmp_path: Path) -> None:
    tenant = served.tenant(epsilon=10)
    assert tenant.embed(epsilon=1.5).status_code == 200
    limit = {"epsilon": 4, "reason": "until the review"}
    assert served.admin.put(f"/admin/tenants/{tenant.name}/budgets/sentence/limit", json=limit).status_code == 200
    run_command(served.data_dir, "ledger", "audit")
    until(lambda: len(statement(served, tenant.name)["statement"]["spending"]) >= 3)
    found = statement(served, tenant.name)
    one = found["statement"]
    spent = [each for each in one["spending"] if each["unit"] == "sentence"]
    assert {(each["by"], each["epsilon"], each["releases"]) for each in spent} == {
        ("mechanism", 1.5, 1), ("key", 1.5, 1), ("route", 1.5, 1),
    }  # fmt: skip
    account = next(each for each in one["accounts"] if each["unit"] == "sentence")
    assert (account["limit"]["epsilon"], account["current_limit"]["epsilon"]) == (10, 4)
    paid = "/sentence: all releases that it ever pays for are together (epsilon 10, delta 0)-differentially private"
    assert any(each.startswith(f"{tenant.name}{paid}") for each in one["promises"])
    assert "masking without a price, carries no guarantee" in one["promises"][-1]
    change = next(each for each in one["changes"] if each["action"] == "tenant.limit")
    assert change["details"]["reason"] == "until the review"
    assert [key["key_id"] for key in one["keys"]] == [tenant.key_id]
    integrity = one["integrity"]
    assert (integrity["audit_ok"], integrity["audited_entries"]) == (True, integrity["entries"])
    assert (integrity["first"], integrity["last"]) == (1, integrity["entries"])
    letters = [each["field"][:3] for each in one["processing"]]
    assert letters == ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)", "(g)"]

    file = tmp_path / "statement.json"
    file.write_text(json.dumps(found))
    assert run_command(served.data_dir, "ledger", "verify-statement", str(file)).returncode == 0
    one["spending"][0]["epsilon"] = 0.5
    file.write_text(json.dumps(found))
    assert run_command(served.data_dir, "ledger", "verify-statement", str(file)).returncode == 1


def test_only_what_the_mac_covers_is_in_a_genuine_statement(served: Gateway) -> None:
    master_key = served.service.parts[MasterKey]
    found = statement(served, served.tenant().name)
    written = json.dumps(found)
    assert is_genuine(json.dumps(found, indent=2).encode(), master_key)
    first = '{"statement": {'
    assert written.startswith(first)
    for changed in (
        json.dumps(found | {"note": "signed as well"}),
        json.dumps(found | {"algorithm": "none"}),
        written.replace(first, '{"statement": {"complete": true}, "statement": {', 1),
        written.replace('"epsilon": ', '"epsilon": 0, "epsilon": ', 1),
        written.replace('"expires_ms": null', '"expires_ms": NaN', 1),
        "[" * 5000,
    ):
        assert changed != written
        assert not is_genuine(changed.encode(), master_key), changed[:80]


def test_the_actions_on_what_all_share_are_in_the_statement_of_no_tenant(served: Gateway) -> None:
    """Although a tenant can have the name that the log gives to it."""
    tenant = served.tenant("operator")
    rule = {"when": {"kind": "integrity"}}
    assert served.admin.put("/admin/alerts/rules/seals", json=rule).status_code == 201
    assert served.admin.post("/admin/sessions/end").status_code == 204
    own = {"label": "own"}
    assert served.admin.post(f"/admin/tenants/{tenant.name}/keys", json=own).status_code == 201
    changes = statement(served, tenant.name)["statement"]["changes"]
    assert [each["action"] for each in changes] == ["tenant.create", "key.create", "key.create"]


def test_a_statement_is_also_a_page_and_a_table_and_covers_its_period(served: Gateway) -> None:
    tenant = served.tenant(epsilon=10)
    assert tenant.embed(epsilon=1.5).status_code == 200
    until(lambda: statement(served, tenant.name)["statement"]["spending"] != [])
    page = tenant.http.get("/budget/statement", params={"format": "html"})
    assert page.headers["content-type"].startswith("text/html")
    table = tenant.http.get("/budget/statement", params={"format": "csv"})
    assert table.headers["content-type"].startswith("text/csv")
    for part in ("Promises", "Limits", "Spending of the period", "API keys", "Integrity", "Article 30 GDPR"):
        assert part in page.text
        assert part in table.text
    assert "route,embed/sentdp,sentence,1.5,0,1\r\n" in table.text
    now_ms = statement(served, tenant.name)["statement"]["at_ms"]
    before = statement(served, tenant.name, **{"from": now_ms - 9 * DAY_MS, "to": now_ms - 3 * DAY_MS})["statement"]
    assert (before["spending"], before["changes"]) == ([], [])
    assert tenant.http.get("/budget/statement", params={"from": now_ms, "to": now_ms - DAY_MS}).status_code == 422
    releases = served.with_key(tenant, "release").http
    assert releases.get("/budget/statement").json()["code"] == "role-missing"


def test_what_a_lower_limit_refuses_is_known_before_it_is_set(served: Gateway) -> None:
    tenant = served.tenant(epsilon=10)
    path = f"/admin/tenants/{tenant.name}/budgets/sentence/limit"
    assert served.admin.get(path, params={"epsilon": 3}).json()["requests_then"] is None
    assert [tenant.embed(epsilon=1).status_code for _ in range(2)] == [200, 200]
    found = served.admin.get(path, params={"epsilon": 3}).json()
    assert (found["remaining"], found["remaining_then"]) == (8, 1)
    assert (found["mean_epsilon"], found["requests"], found["requests_then"]) == (1, 8, 1)
    assert tenant.embed(epsilon=2).status_code == 200  # nothing was set
    assert served.admin.get(path, params={"epsilon": 3}).json()["requests_then"] == 0
    assert served.admin.get(path, params={"epsilon": 11}).json()["errors"][0]["field"] == "epsilon"


def test_all_tenants_are_read_in_pages_with_their_pace(served: Gateway) -> None:
    tenant, idle = served.tenant("a-spender", epsilon=10), served.tenant("a-idler")
    assert tenant.embed(epsilon=2).status_code == 200

    def page(cursor: str) -> dict[str, Any]:
        return served.admin.get("/admin/outlook", params={"limit": 1, "cursor": cursor}).json()

    def account() -> dict[str, Any]:
        return page(idle.name)["tenants"][0]["accounts"][0]

    until(lambda: account()["per_day"] == 2)
    assert (account()["spent"], account()["remaining"], account()["used_share"]) == (2, 8, 0.2)
    at_ms = page(idle.name)["at_ms"]
    assert abs(page(idle.name)["tenants"][0]["ends_ms"] - at_ms - 4 * DAY_MS) < 60_000
    first = page("a-")
    assert [each["name"] for each in first["tenants"]] == ["a-idler"]
    assert (first["next_cursor"], first["tenants"][0]["ends_ms"]) == ("a-idler", None)


def test_requests_that_a_budget_refused_are_counted_by_day(served: Gateway) -> None:
    tenant, other = served.tenant(epsilon=2), served.tenant(epsilon=2)
    assert [tenant.embed(epsilon=2).status_code for _ in range(3)] == [200, 403, 403]
    terms = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 2.5}}
    assert '"budget-exhausted"' in tenant.sanitize_lines(terms, {"text": "One."}, {"text": "Two."}).text
    assert tenant.http.post("/embed/sentdp", json={"documents": []}).status_code == 422

    def refused(name: str) -> list[int]:
        rows = served.admin.get("/admin/outlook").json()["tenants"]
        return next(row["refused"] for row in rows if row["name"] == name)

    until(lambda: refused(tenant.name)[-1] == 3)
    assert (refused(tenant.name), refused(other.name)) == ([0] * 6 + [3], [0] * 7)
    assert tenant.http.get("/masking/counts").json()["rows"] == [], "what is shown to the tenant is of the policy"


def test_an_audit_on_request_reads_what_is_new(served: Gateway) -> None:
    tenant = served.tenant()
    run_command(served.data_dir, "ledger", "audit")
    assert tenant.embed().status_code == 200

    def read() -> tuple[int, int]:
        found = tenant.http.get("/budget/integrity").json()
        return found["last_audit"]["entries"], found["journal"]["entries"]

    assert read() == (1, 3)
    assert served.admin.post("/admin/integrity/audit").json() == {"auditing": True}
    until(lambda: not served.admin.get("/admin/integrity").json()["auditing"])
    assert read() == (3, 3)
    found = served.admin.get("/admin/integrity").json()
    assert found["last_audit"]["entries"] == found["entries"]


def test_an_action_that_failed_has_a_second_entry(served: Gateway) -> None:
    tenant = served.tenant()
    assert served.admin.post("/admin/tenants", json={"name": tenant.name, "epsilon": 1}).status_code == 409
    first, last = served.admin_log()[-2:]
    assert (first["action"], last["action"]) == ("tenant.create", "tenant.create.failed")
    assert last["details"] == {"entry": first["n"], "code": "tenant-exists"}
