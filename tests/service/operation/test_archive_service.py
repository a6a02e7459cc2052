"""A gateway archives old entries by itself. Its pages, its commands and its budgets do not show where an entry is."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from command_kit import run_command
from gateway_kit import LEAN, Gateway

ARCHIVING = LEAN | {
    "PRIVACY_GATEWAY_ARCHIVE": "on",
    "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.2",
    "PRIVACY_GATEWAY_SERIES_INTERVAL_S": "0.2",
    "PRIVACY_GATEWAY_ARCHIVE_INTERVAL_S": "0.3",
    "PRIVACY_GATEWAY_ARCHIVE_KEEP_ENTRIES": "2",
    "PRIVACY_GATEWAY_ARCHIVE_OBJECT_ENTRIES": "3",
}
WAIT_S = 180


def archived_objects(data_dir: Path) -> list[Path]:
    return sorted((data_dir / "store/archive").glob("*/journal/*/*"))


def test_a_gateway_archives_and_answers_across_the_border(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", ARCHIVING)
    try:
        tenant = gateway.tenant(epsilon=1000)
        deadline = time.monotonic() + WAIT_S
        releases = 0
        while len(archived_objects(gateway.data_dir)) < 3:
            assert time.monotonic() < deadline, gateway.log_path.read_text()
            assert tenant.embed(epsilon=1).status_code == 200
            releases += 1
        account = f"{tenant.name}/sentence"
        page = tenant.http.get(f"/budget/{account}/journal?limit=1000").json()
        numbers = [entry["seq"] for entry in page["entries"]]
        assert numbers == list(range(1, 2 * releases + 2))
        assert all(entry["seal"] for entry in page["entries"][:5])
        exported = tenant.http.get(f"/budget/{account}/journal/export?format=jsonl").text.splitlines()
        assert [json.loads(line)["seq"] for line in exported] == numbers

        assert tenant.committed() == releases

        audit = run_command(gateway.data_dir, "ledger", "audit", "--json")
        assert audit.returncode == 0, audit.stdout  # whatever the archiver removes meanwhile
        report = next(one for one in json.loads(audit.stdout)["tenants"] if one["tenant"] == tenant.name)
        assert report["entries"] == 2 * releases + 1
        spent = json.loads(run_command(gateway.data_dir, "ledger", "spending", tenant.name, "--json").stdout)
        assert sum(row["releases"] for row in spent if row["unit"] == "sentence") == releases
        everything = run_command(gateway.data_dir, "ledger", "archive", "--all")
        assert everything.returncode == 0, everything.stderr
        assert "entries archived" in everything.stdout
        assert "archive-failed" not in gateway.log_path.read_text()
    finally:
        gateway.stop()

    alone = run_command(gateway.data_dir, "ledger", "audit", "--archive-only", "--json")
    assert alone.returncode == 0, alone.stdout
    assert json.loads(alone.stdout)["ok"]
    lost = archived_objects(gateway.data_dir)[1]
    whole = lost.read_bytes()
    lost.write_bytes(whole[:-1])
    for arguments in ((), ("--archive-only",)):
        audit = run_command(gateway.data_dir, "ledger", "audit", *arguments)
        assert audit.returncode == 1
        assert "is not the one that was written" in audit.stdout
    assert run_command(gateway.data_dir, "budget", "show", tenant.name).returncode == 0
    lost.write_bytes(whole)

    shutil.rmtree(gateway.data_dir / "redis")  # the disk of Redis is lost
    restored = run_command(gateway.data_dir, "ledger", "restore", "--from-archive")
    assert restored.returncode == 0, restored.stderr
    assert "1 tenants restored" in restored.stdout
    assert "Not restored: API keys, packs, fine-tuned models, artifacts" in restored.stdout
    shown = run_command(gateway.data_dir, "budget", "show", tenant.name)
    assert "older state" in shown.stderr
    accepted = run_command(gateway.data_dir, "ledger", "accept-restore", "--nothing-was-released-since")
    assert accepted.returncode == 0, accepted.stderr
    assert run_command(gateway.data_dir, "ledger", "audit").returncode == 0
    assert run_command(gateway.data_dir, "budget", "show", tenant.name).returncode == 0
    again = run_command(gateway.data_dir, "ledger", "restore", "--from-archive")
    assert (again.returncode, "empty Redis" in again.stderr) == (1, True)
