"""Seals and epoch of a real gateway: a restored old file stops it, commands say why, an operator can go on."""

from __future__ import annotations

import json
from pathlib import Path

from command_kit import run_command
from gateway_kit import LEAN, Gateway
from inprocess_kit import Gateway as InProcessGateway


def epoch(file: Path) -> int:
    return int(json.loads(file.read_text())["epoch"])


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


def test_an_orderly_end_seals_what_is_left(tmp_path: Path) -> None:
    epoch_file = tmp_path / "other-disk" / "ledger.epoch"
    settings = LEAN | {"PRIVACY_GATEWAY_EPOCH_FILE": str(epoch_file), "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "3600"}
    gateway = InProcessGateway(tmp_path / "data", settings)
    assert gateway.tenant().embed().status_code == 200
    assert epoch(epoch_file) == 1
    gateway.stop()
    assert epoch(epoch_file) == 2
    lines = [json.loads(line) for line in run_command(gateway.data_dir, "ledger", "export").stdout.splitlines()]
    assert lines[-2]["type"] == "seal", "nothing comes after the last seal"
