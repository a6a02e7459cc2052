"""The operator raises and lowers what an account may spend, by the API and by the command, within its guarantee."""

from typing import Any

import httpx
from command_kit import run_command
from gateway_kit import Tenant
from inprocess_kit import Gateway

CANARY = "Zimtstern-4711"


def put(gateway: Gateway, tenant: Tenant, epsilon: Any, unit: str = "sentence") -> httpx.Response:
    return gateway.admin.put(f"/admin/tenants/{tenant.name}/budgets/{unit}/limit", json={"epsilon": epsilon})


def logged(gateway: Gateway, tenant: Tenant) -> list[dict[str, Any]]:
    entries = gateway.admin_log()
    return [entry for entry in entries if entry["action"] == "tenant.limit" and tenant.name in entry["target"]]


def test_a_refused_request_is_admitted_after_the_limit_was_raised(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=40)
    lowered = put(gateway, tenant, 12)
    assert lowered.status_code == 200
    block = lowered.json()
    assert (block["limit"]["epsilon"], block["current_limit"]["epsilon"]) == (40, 12)
    assert (block["remaining"]["epsilon"], tenant.account()["remaining"]["epsilon"]) == (12, 12)

    assert tenant.embed(epsilon=10).status_code == 200
    refused = tenant.embed(epsilon=10)
    assert (refused.status_code, refused.json()["code"]) == (403, "budget-exhausted")
    assert refused.json()["remaining"]["epsilon"] == 2
    found = tenant.http.get(f"/budget/{tenant.name}/sentence/headroom", params={"epsilon": 1}).json()
    assert {row["fits"] for row in found["requests"] if row["mechanism"] == "clipped_cosine"} == {2}

    assert put(gateway, tenant, 20).json()["remaining"]["epsilon"] == 10
    assert tenant.embed(epsilon=10).status_code == 200
    assert "current_limit" not in put(gateway, tenant, 40).json()


def test_no_limit_is_above_the_guarantee(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=5)
    for epsilon in (5.1, -1, "5", CANARY, 1e300):
        answer = put(gateway, tenant, epsilon)
        assert answer.status_code == 422, epsilon
        assert CANARY not in answer.text
    assert put(gateway, tenant, 1, unit="page").status_code == 422
    assert gateway.admin.put(f"/admin/tenants/{tenant.name}/budgets/token/limit", json={}).status_code == 422
    assert gateway.admin.put("/admin/tenants/nobody/budgets/token/limit", json={"epsilon": 1}).status_code == 404
    assert logged(gateway, tenant) == []
    assert tenant.account()["remaining"]["epsilon"] == 5


def test_only_the_operator_sets_a_limit_and_the_audit_log_has_it(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=5)
    path = f"/admin/tenants/{tenant.name}/budgets/token/limit"
    assert tenant.http.put(path, json={"epsilon": 1}).json()["code"] == "wrong-scope"
    assert gateway.anyone.put(path, json={"epsilon": 1}).status_code == 401
    assert put(gateway, tenant, 2.5, unit="token").status_code == 200
    [entry] = logged(gateway, tenant)
    assert (entry["by"], entry["target"], entry["details"]) == ("operator", f"{tenant.name}/token", {"epsilon": "2.5"})


def test_the_command_sets_and_shows_a_limit(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=8)
    done = run_command(gateway.data_dir, "tenant", "limit", tenant.name, "sentence", "3")
    assert done.stdout == f"{tenant.name}/sentence may spend 3 of 8; 3 is left\n"
    shown = run_command(gateway.data_dir, "budget", "show", tenant.name)
    [line] = [line for line in shown.stdout.splitlines() if line.startswith(f"{tenant.name}/sentence")]
    assert line.split() == [f"{tenant.name}/sentence", "8", "0", "0", "3", "(current", "limit", "3)"]
    assert run_command(gateway.data_dir, "tenant", "limit", tenant.name, "sentence", "9").returncode != 0
    assert run_command(gateway.data_dir, "tenant", "limit", tenant.name, "page", "1").returncode != 0
    assert tenant.account()["current_limit"]["epsilon"] == 3
