"""Tenants that the operator suspends or closes."""

import secrets
from pathlib import Path
from unittest import mock

import httpx
import pytest
from alert_kit import until
from command_kit import run_command
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

from core.errors import StoreUnavailable, TenantInactive
from core.redis import names
from core.redis.client import LedgerClient
from core.state.alerts import Alert, AlertStore, RuleState, new_alert_id
from core.state.jobs import JobStatus
from core.state.keystore import KeyStore
from core.state.masking_counts import MaskingCounts
from core.state.stored_files import DOMAINS
from core.state.vault import Vault
from service.files.stored import StoredFiles
from service.jobs.runner import JobRunner

ORIGIN = "http://127.0.0.1:8000"
served = module_gateway(changes={"service.tenants.closing.ROUND_S": 0.1})


def change(gateway: Gateway, tenant: Tenant, state: str, reason: str = "the contract has ended") -> dict[str, str]:
    answer = gateway.admin.put(f"/admin/tenants/{tenant.name}/state", json={"state": state, "reason": reason})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_suspended_tenant_reads_and_releases_nothing_until_it_is_resumed(served: Gateway) -> None:
    tenant = served.tenant(epsilon=10)
    assert tenant.embed(epsilon=1).status_code == 200
    session = served.new_client({"Origin": ORIGIN})
    session.base_url = httpx.URL(ORIGIN)
    answer = session.post("/dashboard/session", headers={"Authorization": f"Bearer {tenant.key}"})
    form = {"X-Form-Token": answer.json()["form_token"]}
    assert change(served, tenant, "suspended")["state"] == "suspended"
    body = {"documents": [{"text": "One. Two. Three."}], "epsilon": 1.0}
    for refused in (
        tenant.embed(epsilon=1),
        tenant.http.post("/sanitize", json={"documents": [{"text": "hello"}], "mask": {"technique": "entity"}}),
        tenant.http.delete("/vault"),
        session.post("/embed/sentdp", json=body, headers=form),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "tenant-suspended")
        assert "Ask the operator" in refused.json()["title"]
    for path in ("/budget", f"/budget/{tenant.name}/sentence/journal", "/jobs", "/models", "/vault"):
        assert tenant.http.get(path).status_code == 200, path
    assert session.get("/budget").status_code == 200
    assert tenant.http.post("/budget/estimate", json=body).status_code == 200
    assert tenant.committed() == 1.0
    assert change(served, tenant, "suspended")["state"] == "suspended"
    assert change(served, tenant, "active", "they have paid")["state"] == "active"
    assert tenant.embed(epsilon=1).status_code == 200
    found = [each for each in served.admin_log() if each["target"] == tenant.name][1:]
    assert [(each["action"], each["details"]["reason"]) for each in found] == [
        ("tenant.suspend", "the contract has ended"),
        ("tenant.resume", "they have paid"),
    ]


async def fire(gateway: Gateway, tenant: Tenant) -> None:
    """Store a rule of the tenant and an alert that is over."""
    store, client = gateway.service.parts[AlertStore], gateway.service.parts[LedgerClient]
    await store.put_rule(tenant.name, "low", {})
    while (holder := await client.call("GET", names.alerts_key("lease"))) is None:
        await store.take_lease("test", ttl_ms=60_000)
    alert = Alert(new_alert_id(), "low", "budget_used", tenant.name, f"{tenant.name}/sentence", 1, 2, {})
    before, after = RuleState(), RuleState.of({}, {"seen": 1})
    change = store.change(
        holder.decode(), tenant.name, "low", tenant.name, before, after, alerts=[alert], deliveries=[]
    )
    assert await change == 0


def fill(gateway: Gateway, tenant: Tenant, folder: Path) -> None:
    """Store something of each kind for a tenant."""
    parts = gateway.service.parts
    (folder / "pack").write_bytes(b"weights")
    gateway.on_loop(parts[StoredFiles].put(tenant.name, DOMAINS, "law", {".safetensors": folder / "pack"}))
    gateway.on_loop(parts[Vault].put(tenant.name, "alias", b"Ann", lifetime_s=600))
    gateway.on_loop(fire(gateway, tenant))
    stored = tenant.http.put("/sanitize/recognisers/codes", json={"entity": "CODE", "deny": ["ruby"]})
    assert stored.status_code == 201, stored.text
    store = parts[JobRunner].store
    waiting = store.create(
        tenant.name, secrets.token_hex(16), kind="domain", label="law", claim="c", open_max=9, state="s", size=0
    )
    gateway.on_loop(waiting)
    parts[MaskingCounts].note(tenant.name, "key", None, requests=1)
    gateway.on_loop(parts[MaskingCounts].write())


def kept(gateway: Gateway, tenant: Tenant) -> list[object]:
    """What is left of it."""
    parts = gateway.service.parts
    folder = gateway.data_dir / "recognisers" / "tenants" / tenant.name
    return [
        *gateway.on_loop(parts[StoredFiles].index.names(tenant.name, DOMAINS)),
        *gateway.on_loop(parts[AlertStore].rule_names(tenant.name)),
        *gateway.on_loop(parts[AlertStore].page(tenant.name, None, cursor=None, limit=5)).alerts,
        *["vault"] * gateway.on_loop(parts[Vault].count(tenant.name)).entries,
        *(folder.iterdir() if folder.exists() else ()),
        *gateway.on_loop(parts[JobRunner].store.unfinished_ids(tenant.name)),
        *gateway.on_loop(parts[MaskingCounts].read(tenant.name, 1))[1],
    ]


def test_a_closed_tenant_has_its_journal_and_nothing_else(served: Gateway, tmp_path: Path) -> None:
    tenant = served.tenant(epsilon=10)
    assert tenant.embed(epsilon=1).status_code == 200
    fill(served, tenant, tmp_path)
    assert len(kept(served, tenant)) == 8
    assert change(served, tenant, "closed")["state"] == "closed"
    assert kept(served, tenant) == []
    jobs = served.on_loop(served.service.parts[JobRunner].store.page(tenant.name, cursor=None, limit=5)).jobs
    assert [job.status for job in jobs] == [JobStatus.CANCELLED]
    assert tenant.http.get("/budget").status_code == 401
    admin, path = served.admin, f"/admin/tenants/{tenant.name}"
    assert all(key["revoked_ms"] for key in admin.get(f"{path}/keys").json()["keys"])
    accounts = admin.get(f"{path}/budgets").json()["accounts"]
    assert next(each for each in accounts if each["unit"] == "sentence")["committed"]["epsilon"] == 1.0
    audit = run_command(served.data_dir, "ledger", "audit")
    assert audit.returncode == 0, audit.stdout
    refused = [admin.post(f"{path}/keys"), admin.put(f"{path}/state", json={"state": "active", "reason": "a mistake"})]
    assert {(each.status_code, each.json()["code"]) for each in refused} == {(409, "tenant-closed")}
    assert change(served, tenant, "closed")["state"] == "closed"
    found = [each for each in served.admin_log() if each["target"].startswith(tenant.name)]
    assert [each["action"] for each in found[-3:]] == ["tenant.close", "key.revoke", "tenant.closed"]
    listed = {each["name"]: each["state"] for each in admin.get("/admin/tenants").json()["tenants"]}
    assert listed[tenant.name] == "closed"


def test_a_request_in_flight_stores_nothing_for_a_tenant_that_was_closed(served: Gateway, tmp_path: Path) -> None:
    tenant = served.tenant(epsilon=10)
    parts = served.service.parts
    change(served, tenant, "closed")
    (tmp_path / "pack").write_bytes(b"weights")
    store, keys = parts[JobRunner].store, parts[KeyStore]
    for late in (
        parts[StoredFiles].put(tenant.name, DOMAINS, "law", {".safetensors": tmp_path / "pack"}),
        parts[Vault].put(tenant.name, "alias", b"Ann", lifetime_s=600),
        store.create(
            tenant.name, secrets.token_hex(16), kind="domain", label="law", claim="c", open_max=9, state="s", size=0
        ),
        keys.create(tenant.name, by="key:0"),
    ):
        with pytest.raises(TenantInactive) as refused:
            served.on_loop(late)
        assert refused.value.code == "tenant-closed"
    parts[MaskingCounts].note(tenant.name, "key", None, requests=1)
    served.on_loop(parts[MaskingCounts].write())
    assert kept(served, tenant) == []


def test_closing_that_was_interrupted_goes_on_by_itself(served: Gateway, tmp_path: Path) -> None:
    tenant = served.tenant(epsilon=10)
    fill(served, tenant, tmp_path)
    path = f"/admin/tenants/{tenant.name}/state"
    with mock.patch.object(StoredFiles, "remove", side_effect=StoreUnavailable(reason="unreachable")):
        assert served.admin.put(path, json={"state": "closed", "reason": "a test"}).status_code == 503
        assert tenant.http.get("/budget").status_code == 401
        assert kept(served, tenant) == ["law"]
    until(lambda: kept(served, tenant) == [])
    until(lambda: change(served, tenant, "closed")["state"] == "closed")


def test_states_by_command(served: Gateway) -> None:
    tenant = served.tenant()
    assert run_command(served.data_dir, "tenant", "suspend", tenant.name, "--reason", "unpaid").returncode == 0
    assert tenant.embed().json()["code"] == "tenant-suspended"
    assert f"{tenant.name}\ttenant mode\tsuspended" in run_command(served.data_dir, "tenant", "list").stdout
    assert run_command(served.data_dir, "tenant", "resume", tenant.name, "--reason", "paid").returncode == 0
    assert tenant.embed().status_code == 200
    closed = run_command(served.data_dir, "tenant", "close", tenant.name, "--reason", "over", "--yes")
    assert closed.returncode == 0, closed.stderr
    assert tenant.http.get("/budget").status_code == 401
    unknown = run_command(served.data_dir, "tenant", "suspend", "nobody", "--reason", "unpaid")
    assert (unknown.returncode, unknown.stderr) == (1, "error: There is no such tenant.\n")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"state": "gone", "reason": "x"}, "body.state"),
        ({"state": "closed"}, "body.reason"),
        ({"state": "closed", "reason": " "}, "reason"),
    ],
)
def test_a_state_needs_a_word_and_a_reason(served: Gateway, body: dict[str, str], field: str) -> None:
    answer = served.admin.put(f"/admin/tenants/{served.tenant().name}/state", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
