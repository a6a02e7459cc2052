"""Tenants on several ledgers: each tenant is served by its own Redis, and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from command_kit import run_command
from gateway_kit import refused_start
from inprocess_kit import Gateway
from redis_kit import EmbeddedServer
from several_ledgers_kit import BODY, series, settings, until

from core.ledger import names


def test_each_tenant_is_on_its_ledger_alone(
    gateway: Gateway, servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    main, east = servers
    first = gateway.tenant("first", epsilon=10, ledger="main")
    second = gateway.tenant("second", epsilon=10, ledger="east", subject_epsilon=5)
    for tenant, fields in ((first, {}), (second, {"subject": "someone"})):
        headers = {"Idempotency-Key": "once"}
        body = BODY | {"documents": [BODY["documents"][0] | fields]} if fields else BODY
        answer = tenant.http.post("/embed/sentdp", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        again = tenant.http.post("/embed/sentdp", json=body, headers=headers)
        assert again.content == answer.content
        assert tenant.committed() == 1
        entries = tenant.http.get(f"/budget/{tenant.name}/sentence/journal").json()["entries"]
        assert [entry["transition"] for entry in entries][-1] == "commit"
        until(lambda tenant=tenant: series(tenant) == 1)  # folded by the duties of its ledger
        until(lambda tenant=tenant: tenant.http.get("/budget/integrity").json()["journal"]["sealed"] >= 3)

    for server, own, other in ((main, "first", "second"), (east, "second", "first")):
        held = {key.decode() for key in server.admin().scan_iter("{*}:*")}
        assert names.journal_key(own) in held
        assert {key for key in held if key.startswith(f"{{{other}}}")} <= {names.tenant_api_keys_key(other)}
    listed = gateway.admin.get("/admin/tenants").json()["tenants"]
    assert [one["name"] for one in listed] == ["first", "second"]

    taken = gateway.admin.post("/admin/tenants", json={"name": "second", "epsilon": 10})
    assert taken.status_code == 409
    elsewhere = gateway.admin.post("/admin/tenants", json={"name": "second", "epsilon": 10, "ledger": "main"})
    assert elsewhere.status_code == 422
    unknown = gateway.admin.post("/admin/tenants", json={"name": "nowhere", "epsilon": 10, "ledger": "west"})
    assert unknown.status_code == 422

    environment = settings(main, east=east)
    audit = run_command(tmp_path / "data", "ledger", "audit", "--json", environment=environment)
    assert audit.returncode == 0, audit.stdout
    found = json.loads(audit.stdout)["ledgers"]
    assert {name: [one["tenant"] for one in found[name]["tenants"]] for name in found} == {
        "main": ["first"],
        "east": ["second"],
    }
    homes = run_command(tmp_path / "data", "ledger", "homes", environment=environment)
    assert homes.stdout == "first\tmain\nsecond\teast\n"


def test_a_ledger_that_is_away_stops_its_own_tenants_alone(
    gateway: Gateway, servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    main, east = servers
    first, second = gateway.tenant("first", ledger="main"), gateway.tenant("second", ledger="east")
    east.kill()
    refused = second.http.post("/embed/sentdp", json=BODY)
    assert refused.status_code == 503
    assert refused.json()["type"].endswith("ledger-unavailable")
    environment = settings(main, east=east) | admin_key(gateway)
    created = run_command(tmp_path / "data", "key", "create", "first", environment=environment)
    assert created.returncode == 0, created.stderr
    assert "the ledger east is not used: Redis cannot be reached" in created.stderr
    assert first.http.post("/embed/sentdp", json=BODY).status_code == 200

    other = Gateway(tmp_path / "other", settings(main, east=east) | admin_key(gateway))
    try:  # it starts without that ledger, and opens it when it is back
        assert other.reconnected(first).http.post("/embed/sentdp", json=BODY).status_code == 200
        assert other.reconnected(second).http.post("/embed/sentdp", json=BODY).status_code == 503
        east.start()
        until(lambda: other.reconnected(second).http.post("/embed/sentdp", json=BODY).status_code == 200)
        assert second.http.post("/embed/sentdp", json=BODY).status_code == 200
        assert second.committed() == 2
        assert first.committed() == 2
    finally:
        other.stop()


def admin_key(gateway: Gateway) -> dict[str, str]:
    return {"PRIVACY_GATEWAY_ADMIN_KEY": (gateway.data_dir / "admin.key").read_text().strip()}


def test_settings_that_lack_a_ledger_with_tenants_are_refused(
    gateway: Gateway, servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    main, east = servers
    second = gateway.tenant("second", ledger="east")
    assert "LEDGERS lacks east" in refused_start(tmp_path / "other", settings(main))
    created = run_command(
        tmp_path / "other", "tenant", "create", "second", "--epsilon", "5", environment=settings(main)
    )
    assert created.returncode == 1
    assert "LEDGERS lacks east" in created.stderr

    # the Redis of another name, and the main one under a second name, are not used
    swapped = run_command(
        tmp_path / "other", "tenant", "list", environment=settings(main, west=east, east=main) | admin_key(gateway)
    )
    assert "the ledger west is not used" in swapped.stderr
    assert "the ledger east is not used" in swapped.stderr
    assert not swapped.stdout
    environment = settings(main, east=main)
    environment.pop("PRIVACY_GATEWAY_STORE_URL")  # whose epoch of `east` would be refused before
    twice = run_command(tmp_path / "fresh", "tenant", "list", environment=environment)
    assert "is that of the ledger main" in twice.stderr
    assert second.committed() == 0
