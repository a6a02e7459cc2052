"""A gateway archives old entries by itself. Its pages, its commands and its budgets do not show where an entry is."""

from __future__ import annotations

import json
import time
from pathlib import Path

from command_kit import run_command
from gateway_kit import LEAN, Gateway

ARCHIVING = LEAN | {
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
        assert audit.returncode == 0, audit.stdout
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

    lost = archived_objects(gateway.data_dir)[1]
    lost.write_bytes(lost.read_bytes()[:-1])
    audit = run_command(gateway.data_dir, "ledger", "audit")
    assert audit.returncode == 1
    assert "is not the one that was written" in audit.stdout
    assert run_command(gateway.data_dir, "budget", "show", tenant.name).returncode == 0
