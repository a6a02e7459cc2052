"""The log of administrative actions: over HTTP and by the command, and what a writer of Redis cannot hide."""

import json
from pathlib import Path
from typing import Any

from command_kit import run_command
from inprocess_kit import Gateway, module_gateway

from core.redis import names
from core.redis.client import LedgerClient, connect
from core.redis.embedded import socket_path

logged = module_gateway()


def in_redis(gateway: Gateway, *command: str) -> Any:
    async def call() -> Any:
        client = LedgerClient(connect(socket_path=socket_path(gateway.data_dir)))
        try:
            return await client.call(*command)
        finally:
            await client.close()

    return gateway.on_loop(call())


def test_each_action_is_logged_with_who_did_it_and_no_secret(logged: Gateway, tmp_path: Path) -> None:
    before = len(logged.admin_log(limit=2))
    tenant = logged.tenant("acme", epsilon=5)
    made = logged.admin.post("/admin/tenants/acme/keys", json={"roles": ["admin"], "label": "self-service"}).json()
    own = logged.client(made["key"])
    second = own.post("/keys", json={"roles": ["read"]}).json()
    rotated = own.post(f"/keys/{second['key_id']}/rotate", json={"overlap_s": 60}).json()
    own.delete(f"/keys/{rotated['key_id']}")
    by_command = run_command(logged.data_dir, "key", "create", "acme", "--role", "jobs", "--label", "by command")
    assert by_command.returncode == 0, by_command.stderr
    logged.admin.delete("/domains/nothing")

    found = logged.admin_log(limit=2)[before:]
    by_key = f"key:{made['key_id']}"
    assert [(each["by"], each["action"]) for each in found] == [
        ("operator", "tenant.create"), ("operator", "key.create"), ("operator", "key.create"), (by_key, "key.create"),
        (by_key, "key.rotate"), (by_key, "key.revoke"), ("cli", "key.create"),
    ]  # fmt: skip
    assert [each["n"] for each in found] == list(range(before + 1, before + 8))
    assert found[0]["target"] == "acme"
    assert found[4]["details"]["replaces"] == second["key_id"]
    assert found[6]["details"]["label"] == "by command"
    assert all(each["genuine"] for each in found)
    text = json.dumps(found)
    for key in (tenant.key, made["key"], second["key"], rotated["key"]):
        assert key.split("_")[2] not in text

    listed = run_command(logged.data_dir, "key", "list", "acme").stdout
    assert "by command" in listed
    assert "jobs" in listed
    exported = tmp_path / "audit.jsonl"
    assert run_command(logged.data_dir, "ledger", "export", "--actions", "--output", str(exported)).returncode == 0
    assert [json.loads(line) for line in exported.read_text().splitlines()][before:] == found


def test_keys_by_command(logged: Gateway) -> None:
    tenant = logged.tenant("clinic")
    key_id = tenant.key_id
    rotated = run_command(logged.data_dir, "key", "rotate", "clinic", key_id, "--overlap-s", "0", "--json")
    assert rotated.returncode == 0, rotated.stderr
    new = json.loads(rotated.stdout)["key"]
    assert tenant.http.get("/budget").status_code == 401
    assert logged.client(new).get("/budget").status_code == 200
    listed = json.loads(run_command(logged.data_dir, "key", "list", "clinic", "--json").stdout)
    assert {key["key_id"]: key for key in listed}[key_id]["expires_ms"] is not None
    assert "expired" in run_command(logged.data_dir, "key", "list", "clinic").stdout
    revoked = run_command(logged.data_dir, "key", "revoke", "clinic", new.split("_")[1])
    assert (revoked.returncode, logged.client(new).get("/budget").status_code) == (0, 401)
    wrong = run_command(logged.data_dir, "key", "create", "clinic", "--role", "owner")
    assert wrong.returncode != 0
    assert "release, read, jobs, admin" in wrong.stderr


def test_only_the_operator_reads_the_log(logged: Gateway) -> None:
    own = logged.with_key(logged.tenant(), "admin")
    assert own.http.get("/admin/audit").json()["code"] == "wrong-scope"


def test_a_log_whose_end_was_cut_off_is_found_by_the_last_seal(logged: Gateway) -> None:
    tenant = logged.tenant()
    assert run_command(logged.data_dir, "ledger", "seal").returncode == 0
    assert tenant.http.get("/budget/statement").status_code == 200
    assert run_command(logged.data_dir, "ledger", "export", "--actions").returncode == 0
    last = logged.admin_log(limit=2)[-1]["n"]
    in_redis(logged, "XDEL", names.ADMIN_LOG_KEY, f"{last}-0")
    found = run_command(logged.data_dir, "ledger", "export", "--actions")
    assert found.returncode == 1
    assert found.stderr.splitlines() == [f"error: the last seal covers entry {last}, which is missing"]
    refused = tenant.http.get("/budget/statement")
    assert (refused.status_code, refused.json()["code"]) == (503, "ledger-unavailable"), "its actions may be missing"
