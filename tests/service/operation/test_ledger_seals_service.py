"""Seals and epoch of a real gateway: a restored old file stops it, commands say why, an operator can go on."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from command_kit import run_command
from gateway_kit import LEAN, Gateway, refused_start


def until(condition: Callable[[], bool], *, timeout_s: float = 300) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def epoch(file: Path) -> int:
    return int(json.loads(file.read_text())["epoch"])


@pytest.mark.slow("crash")
def test_an_old_file_restored_under_a_gateway(tmp_path: Path) -> None:
    settings = LEAN | {"PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.2"}
    gateway = Gateway(tmp_path / "data", settings)
    epoch_file = gateway.data_dir / "ledger.epoch"
    ledger_file = gateway.data_dir / "redis" / "ledger.aof"
    try:
        tenant = gateway.tenant(epsilon=10)
        assert tenant.embed().status_code == 200
        until(lambda: epoch(epoch_file) >= 2)
        old = tmp_path / "old.aof"
        shutil.copy(ledger_file, old)
        copied = epoch(epoch_file)
        assert tenant.embed().status_code == 200
        until(lambda: epoch(epoch_file) > copied)

        # renamed over it: the running server goes on with its own file, the one that replaces it reads the old one
        shutil.copy(old, tmp_path / "draft.aof").replace(ledger_file)
        gateway.kill("redis-server")
        until(lambda: "does not match its seals" in tenant.embed().text)
        answer = tenant.embed()
        assert (answer.status_code, answer.json()["code"]) == (503, "ledger-unavailable")
        assert answer.json()["released"] is False
        assert httpx.get(f"{gateway.url}/livez", timeout=300).status_code == 200
        until(lambda: httpx.get(f"{gateway.url}/readyz", timeout=300).status_code == 503)
        alarms = [line for line in gateway.log_path.read_text().splitlines() if "ledger-not-trusted" in line]
        assert len(alarms) == 1
        assert "older state than this gateway has seen" in alarms[0]
    finally:
        gateway.stop()

    assert "older state than this gateway has seen" in refused_start(gateway.data_dir, settings)
    for arguments in (("budget", "show", tenant.name), ("tenant", "create", "other", "--epsilon", "1")):
        refused = run_command(gateway.data_dir, *arguments)
        assert refused.returncode == 1
        assert "older state" in refused.stderr
    audit = run_command(gateway.data_dir, "ledger", "audit")
    assert audit.returncode == 1
    assert "older state" in audit.stdout
    exported = run_command(gateway.data_dir, "ledger", "export")
    assert exported.returncode == 1
    assert json.loads(exported.stdout.splitlines()[-1])["ok"] is False

    refused = run_command(gateway.data_dir, "ledger", "accept-restore")
    assert refused.returncode == 1
    assert "--nothing-was-released-since" in refused.stderr
    accepted = run_command(gateway.data_dir, "ledger", "accept-restore", "--nothing-was-released-since")
    assert accepted.returncode == 0, accepted.stderr
    gateway.start()
    try:
        assert gateway.client(tenant.key).get("/budget").status_code == 200
        assert run_command(gateway.data_dir, "ledger", "audit").returncode == 0
    finally:
        gateway.stop()


def test_seals_and_export_beside_a_running_gateway(real_gateway: Gateway, tmp_path: Path) -> None:
    tenant = real_gateway.tenant(epsilon=10)
    assert tenant.embed().status_code == 200
    sealed = run_command(real_gateway.data_dir, "ledger", "seal")
    assert sealed.returncode == 0, sealed.stderr
    number = int(sealed.stdout.split()[1])
    output = tmp_path / "ledger.jsonl"
    exported = run_command(real_gateway.data_dir, "ledger", "export", "--tenant", tenant.name, "--output", str(output))
    assert exported.returncode == 0, exported.stderr
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["stored"]["fields"]["transition"] for line in lines if line["type"] == "entry"] == [
        "open",
        "reserve",
        "commit",
    ]
    # the gateway may have sealed the entries itself, a moment before the command
    covering = [line for line in lines if line["type"] == "seal" and line["segments"][-1]["last"] == 3]
    assert covering
    assert covering[0]["n"] <= number
    assert lines[-1]["ok"] is True
    audit = json.loads(run_command(real_gateway.data_dir, "ledger", "audit", "--json").stdout)
    assert audit["ok"] is True
    assert audit["seals"] >= number
    assert run_command(real_gateway.data_dir, "ledger", "export", "--tenant", "nobody").returncode == 1


@pytest.mark.slow("crash")
def test_an_orderly_end_seals_what_is_left(tmp_path: Path) -> None:
    epoch_file = tmp_path / "other-disk" / "ledger.epoch"
    settings = LEAN | {"PRIVACY_GATEWAY_EPOCH_FILE": str(epoch_file), "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "3600"}
    gateway = Gateway(tmp_path / "data", settings)
    assert gateway.tenant().embed().status_code == 200
    assert epoch(epoch_file) == 1
    gateway.stop()
    assert epoch(epoch_file) == 2
    lines = [json.loads(line) for line in run_command(gateway.data_dir, "ledger", "export").stdout.splitlines()]
    assert lines[-2]["type"] == "seal", "nothing comes after the last seal"
