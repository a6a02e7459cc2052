"""A gateway archives its journal by itself. Its pages, its commands and its budgets do not show where an entry is."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import redis
from alert_kit import until
from command_kit import run_command
from constants_kit import constants
from event_kit import event
from gateway_kit import LEAN, Gateway

from core.ledger.records import Charge
from core.redis.embedded import socket_path
from service.config.settings import Settings
from service.ledger_connection import ledger_access

ARCHIVING = LEAN | {
    "PRIVACY_GATEWAY_ARCHIVE": "on",
    "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "0.2",
    "PRIVACY_GATEWAY_ARCHIVE_INTERVAL_S": "0.3",
    "PRIVACY_GATEWAY_ARCHIVE_KEEP_ENTRIES": "2",
    **constants({"service.operation.maintenance.SERIES_INTERVAL_S": 0.2}),
}
RELEASES = 9_600  # more than an object of the archive has
AT_ONCE = 64


async def spend(data_dir: Path, tenant: str) -> None:
    """Make releases beside the gateway, with its ledger."""
    async with ledger_access(Settings(data_dir=data_dir)) as parts:

        async def some() -> None:
            for _ in range(RELEASES // AT_ONCE):
                hold = await parts.ledger.reserve(tenant, [Charge(event("exponential", 0.01))])
                await parts.ledger.commit(tenant, hold.release_id)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))


@pytest.mark.usefixtures("processes")
def test_a_gateway_archives_and_answers_across_the_border(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", ARCHIVING)
    data_dir, every = gateway.data_dir, 2 * RELEASES + 3
    try:
        tenant = gateway.tenant(epsilon=1000)
        assert tenant.embed(epsilon=1).status_code == 200
        asyncio.run(spend(data_dir, tenant.name))
        server = redis.Redis(unix_socket_path=str(socket_path(data_dir)))
        until(lambda: server.xlen(f"{{{tenant.name}}}:journal") != every, "nothing is archived")
        account = f"{tenant.name}/sentence"
        page = tenant.http.get(f"/budget/{account}/journal?limit=1000").json()
        assert [entry["seq"] for entry in page["entries"]] == list(range(1, 1001))
        assert all(entry["seal"] for entry in page["entries"])
        newest = tenant.http.get(f"/budget/{account}/journal?limit=100&order=newest").json()["entries"]
        assert [entry["seq"] for entry in newest] == list(range(every, every - 100, -1))

        audit = run_command(data_dir, "ledger", "audit", "--json")
        assert audit.returncode == 0, audit.stdout  # whatever the archiver removes meanwhile
        report = next(one for one in json.loads(audit.stdout)["tenants"] if one["tenant"] == tenant.name)
        assert report["entries"] == every
        committed = tenant.committed()
        assert "archive-failed" not in gateway.log_path.read_text()
    finally:
        gateway.stop()

    copied = run_command(data_dir, "ledger", "archive")
    assert "entries copied" in copied.stdout
    lost = sorted((data_dir / "store/archive").glob("*/*-*"))[0]
    whole = lost.read_bytes()
    lost.write_bytes(whole[:-1])
    audit = run_command(data_dir, "ledger", "audit")
    assert (audit.returncode, "is not the one that was written" in audit.stdout) == (1, True)
    assert run_command(data_dir, "budget", "show", tenant.name).returncode == 0

    shutil.rmtree(data_dir / "redis")  # the disk of Redis is lost
    refused = run_command(data_dir, "ledger", "restore", "--from-archive")
    assert (refused.returncode, "The archive has a fault" in refused.stderr) == (1, True)
    lost.write_bytes(whole)
    shutil.rmtree(data_dir / "redis")
    restored = run_command(data_dir, "ledger", "restore", "--from-archive")
    assert restored.returncode == 0, restored.stderr
    assert f"1 tenants restored from {every} entries" in restored.stdout
    assert "Not restored: API keys, packs, fine-tuned models, artifacts" in restored.stdout
    shown = run_command(data_dir, "budget", "show", tenant.name)
    assert "older state" in shown.stderr
    accepted = run_command(data_dir, "ledger", "accept-restore", "--nothing-was-released-since")
    assert accepted.returncode == 0, accepted.stderr
    assert run_command(data_dir, "ledger", "audit").returncode == 0
    shown = run_command(data_dir, "budget", "show", tenant.name, "--json")
    [row] = [one for one in json.loads(shown.stdout)["accounts"] if one["account"] == account]
    assert row["committed"]["epsilon"] == committed
    again = run_command(data_dir, "ledger", "restore", "--from-archive")
    assert (again.returncode, "empty Redis" in again.stderr) == (1, True)
