"""Rules over HTTP: who may store and read them, what is refused, and that secrets are shown once."""

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from table_kit import texts

HOOK = {"url": "https://hooks.example/alerts"}
NEAR = {"when": {"kind": "budget_used", "share": 0.8}, "webhook": HOOK}
CANARY = "Zimtstern-4711"


@pytest.fixture
def admin(gateway: Gateway, tenant: Tenant) -> httpx.Client:
    """A client with the role `admin` of the tenant."""
    return gateway.with_key(tenant, "admin", "read").http


def test_a_rule_is_stored_read_replaced_and_deleted(admin: httpx.Client) -> None:
    stored = admin.put("/alerts/rules/near", json=NEAR)
    assert stored.status_code == 201
    secret = stored.json()["webhook"].pop("secret")
    assert secret.startswith("whsec_")
    again = admin.put("/alerts/rules/near", json={**NEAR, "when": {"kind": "budget_used", "share": 0.9}})
    assert (again.status_code, again.json()["webhook"]) == (200, HOOK)
    read = admin.get("/alerts/rules/near")
    assert secret not in read.text
    assert read.json() == {
        "name": "near",
        "when": {"kind": "budget_used", "share": 0.9, "accounts": None},
        "webhook": HOOK,
        "last_delivery": {},
    }
    renewed = admin.put("/alerts/rules/near", json={**NEAR, "webhook": {**HOOK, "new_secret": True}})
    assert renewed.json()["webhook"]["secret"] not in ("", secret)
    assert [rule["name"] for rule in admin.get("/alerts/rules").json()["rules"]] == ["near"]
    assert admin.delete("/alerts/rules/near").status_code == 204
    for answer in (admin.get("/alerts/rules/near"), admin.delete("/alerts/rules/near")):
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-alert-rule")
    assert admin.post("/alerts/rules/near/test").json()["code"] == "unknown-alert-rule"


def test_every_kind_is_stored_with_its_defaults(admin: httpx.Client) -> None:
    for kind, fields in {
        "budget_used": {"share": 1.0}, "forecast": {"days": 7.0}, "spent_without_output": {}, "unusual_spending": {},
        "integrity": {}, "job_ended": {"statuses": ["failed"]},
    }.items():  # fmt: skip
        stored = admin.put(f"/alerts/rules/{kind}", json={"when": {"kind": kind, **fields}})
        assert stored.status_code == 201, stored.text
        assert fields.items() <= stored.json()["when"].items()
    assert len(admin.get("/alerts/rules").json()["rules"]) == 6


def test_a_wrong_rule_is_refused_without_an_echo(admin: httpx.Client) -> None:
    for body, field in [
        ({}, "when"), ({"when": {"kind": CANARY}}, "when"), ({"when": {"kind": "budget_used"}}, "share"),
        ({"when": {"kind": "budget_used", "share": 0}}, "share"),
        ({"when": {"kind": "budget_used", "share": 1.1}}, "share"),
        ({"when": {"kind": "budget_used", "share": "0.5"}}, "share"),
        ({"when": {"kind": "budget_used", "share": 0.5, "accounts": ["x"] * 17}}, "accounts"),
        ({"when": {"kind": "forecast", "days": 1e9}}, "days"),
        ({"when": {"kind": "forecast", "days": 1, "case": CANARY}}, "case"),
        ({"when": {"kind": "job_ended", "statuses": []}}, "statuses"),
        ({**NEAR, "tenants": ["acme"]}, "extra_forbidden"), ({**NEAR, "webhook": {"url": "x" * 2001}}, "url"),
        ({**NEAR, "webhook": {"url": f"ftp://{CANARY}"}}, "url"),
        ({**NEAR, "webhook": {"url": f"https://{CANARY}:secret@h.example/"}}, "url"),
        ({**NEAR, "webhook": {"url": f"https://h.example/#{CANARY}"}}, "url"),
        ({**NEAR, "webhook": {"url": "https://h.example:0/"}}, "url"),
        ({**NEAR, "webhook": {"url": "https://h.example/\r\nx: y"}}, "url"),
    ]:  # fmt: skip
        answer = admin.put("/alerts/rules/near", json=body)
        assert answer.status_code == 422
        assert field in answer.text
        assert CANARY not in answer.text
        assert admin.get("/alerts/rules").json() == {"rules": []}


def test_addresses_of_this_network_are_refused_by_default(admin: httpx.Client) -> None:
    for url in texts("""
        http://hooks.example/ || https://127.0.0.1/ || https://[::1]/ || https://10.0.0.1:8443/
        https://169.254.169.254/latest || https://[::ffff:127.0.0.1]/ || http://127.0.0.1:6379/
    """):
        answer = admin.put("/alerts/rules/near", json={**NEAR, "webhook": {"url": url}})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "webhook.url"), url
    # a name that leads to this machine is refused at the delivery
    admin.put("/alerts/rules/near", json={**NEAR, "webhook": {"url": "https://localhost:1/"}})
    assert admin.post("/alerts/rules/near/test").json() == {"results": {"webhook": "address-refused"}}


def test_samples_of_a_tenant_are_few(gateway: Gateway) -> None:
    """Each is a message to receivers of the tenant's choice."""
    http = gateway.with_key(gateway.tenant(), "admin").http
    http.put("/alerts/rules/near", json={**NEAR, "webhook": {"url": "https://localhost:1/"}})
    statuses = [http.post("/alerts/rules/near/test").status_code for _ in range(20)]
    assert statuses[:10] == [200] * 10
    assert 429 in statuses


def test_accounts_of_another_tenant_do_not_exist(gateway: Gateway, admin: httpx.Client) -> None:
    other = gateway.tenant()
    body = {"when": {"kind": "budget_used", "share": 0.5, "accounts": [f"{other.name}/sentence"]}}
    assert admin.put("/alerts/rules/near", json=body).json()["code"] == "unknown-account"


def test_rules_need_the_role_admin_and_the_list_the_role_read(gateway: Gateway, tenant: Tenant) -> None:
    reader, own = (gateway.with_key(tenant, role).http for role in ("read", "admin"))
    assert reader.get("/alerts").json() == {"alerts": [], "next_cursor": None}
    for answer in (
        reader.get("/alerts/rules"), reader.get("/alerts/rules/near"), reader.put("/alerts/rules/near", json=NEAR),
        reader.delete("/alerts/rules/near"), reader.post("/alerts/rules/near/test"), own.get("/alerts"),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (403, "role-missing")
    for method, path in (("GET", "/admin/alerts"), ("GET", "/admin/alerts/rules"), ("PUT", "/admin/alerts/rules/near")):
        assert own.request(method, path, json=NEAR).json()["code"] == "wrong-scope"
    assert gateway.admin.get("/alerts").json()["code"] == "wrong-scope"


def test_the_operators_rules_are_its_own(gateway: Gateway, admin: httpx.Client) -> None:
    name = "operators-own"
    body = {**NEAR, "tenants": ["nobody"]}
    assert gateway.admin.put(f"/admin/alerts/rules/{name}", json=body).status_code == 201
    assert gateway.admin.get(f"/admin/alerts/rules/{name}").json()["tenants"] == ["nobody"]
    assert name in gateway.admin.get("/admin/alerts/rules").text
    assert admin.get("/alerts/rules").json() == {"rules": []}
    assert admin.get(f"/alerts/rules/{name}").status_code == 404
    assert gateway.admin.delete(f"/admin/alerts/rules/{name}").status_code == 204
    assert {entry["action"] for entry in gateway.admin_log() if entry["target"] == f"operator/{name}"} == {
        "alert.put",
        "alert.delete",
    }


def test_a_cursor_and_a_status_are_checked(admin: httpx.Client) -> None:
    assert admin.get("/alerts", params={"cursor": CANARY}).json()["code"] == "invalid-input"
    assert admin.get("/alerts", params={"status": CANARY}).status_code == 422
