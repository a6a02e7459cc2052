"""The `privacy-gateway` command, alone on a data directory and beside a running gateway."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import httpx
from command_kit import run_command
from gateway_kit import Gateway


def test_a_data_directory_without_a_gateway(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created = run_command(data, "tenant", "create", "acme", "--epsilon", "10", "--limit", "token=5,1e-6", "--json")
    assert created.returncode == 0, created.stderr
    assert json.loads(created.stdout)["tenant"] == "acme"
    assert json.loads(created.stdout)["key"].startswith("pgw_")

    accounts = json.loads(run_command(data, "budget", "show", "acme", "--json").stdout)["accounts"]
    limits = {account["unit"]: account["limit"] for account in accounts}
    assert limits["sentence"] == {"epsilon": 10.0, "delta": 0.0}
    assert limits["token"] == {"epsilon": 5.0, "delta": 1e-6}

    again = run_command(data, "tenant", "create", "acme", "--epsilon", "10")
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert "acme" in run_command(data, "tenant", "list").stdout
    assert run_command(data, "ledger", "audit").returncode == 0


def test_beside_a_running_gateway(real_gateway: Gateway, tmp_path: Path) -> None:
    key_file = tmp_path / "cli.key"
    created = run_command(
        real_gateway.data_dir, "tenant", "create", "beside", "--epsilon", "3", "--key-file", str(key_file)
    )
    assert created.returncode == 0, created.stderr
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    key = key_file.read_text().strip()
    assert key not in created.stdout

    headers = {"Authorization": f"Bearer {key}"}
    body = {"documents": [{"text": "One. Two. Three."}], "epsilon": 1.0}
    assert httpx.post(f"{real_gateway.url}/embed/sentdp", json=body, headers=headers, timeout=300).status_code == 200
    assert "beside/sentence" in run_command(real_gateway.data_dir, "budget", "show", "beside").stdout
    audit = run_command(real_gateway.data_dir, "ledger", "audit", "--json")
    assert audit.returncode == 0, audit.stdout
    assert json.loads(audit.stdout)["ok"] is True

    revoked = run_command(real_gateway.data_dir, "key", "revoke", "beside", key.split("_")[1])
    assert revoked.returncode == 0, revoked.stderr
    assert httpx.get(f"{real_gateway.url}/budget", headers=headers, timeout=300).status_code == 401


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    for arguments in (
        ("tenant", "create", "Bad Name", "--epsilon", "1"),
        ("tenant", "create", "ok", "--epsilon", "-1"),
        ("tenant", "create", "ok", "--epsilon", "nan"),
        ("tenant", "create", "ok", "--epsilon", "1", "--limit", "paragraph=1"),
        ("budget", "show", "nobody"),
        ("key", "revoke", "nobody", "0123456789abcdef"),
    ):
        failed = run_command(tmp_path / "data", *arguments)
        assert failed.returncode != 0, arguments
        assert "Traceback" not in failed.stderr
