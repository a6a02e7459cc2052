"""Writes a ledger with the code of a checkout, as `data/ledger-vN.json`, for the test of the versions after it.

    cd CHECKOUT && PYTHONPATH=.:tests/kits:tests/core/ledger python .../write_version.py data/ledger-v2.json

Run it with the code of a release before its schema changes. It uses the bundled Redis, whose dumps newer ones read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

from ledger_kit import MASTER_KEY, charge, claim, limits
from redis_kit import EmbeddedServer

from core.ledger.alerts import AlertStore
from core.ledger.client import LedgerClient, connect
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.jobs import JobStore
from core.ledger.keystore import KeyStore
from core.ledger.ledger import Ledger
from core.ledger.ranks import SubjectRanks
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import SpendingTotals
from core.ledger.vault import Vault

NOW_MS = 1_700_000_000_000
KEPT_MS = 10**13  # nothing of the fixture ends with time


async def fill(client: LedgerClient, folder: Path) -> dict[str, Any]:
    """Two tenants with releases that ended in every way, open holds, an unsealed end, keys, a job, a rule."""
    ledger = Ledger(
        client,
        MASTER_KEY,
        hold_ttl_ms=1000,
        response_retention_ms=KEPT_MS,
        tombstone_ttl_ms=KEPT_MS + 1,
        clock=lambda: NOW_MS,
    )
    sealer = Sealer(client, MASTER_KEY, folder / "epoch")
    await ledger.check()
    await ledger.migrate()
    await sealer.check()
    await ledger.open_tenant("acme", limits=limits(50, 10**9))
    await ledger.open_tenant("people", limits=limits(50), subject_limits=limits(10))
    keys = KeyStore(client, MASTER_KEY)
    made = await keys.create("acme", by="cli", label="of the fixture")
    found: dict[str, Any] = {"api_key": made.key, "releases": {}}

    async def hold(name: str, tenant: str, *subjects: str, **terms: Any) -> str:
        charges = [charge(1, subject=one) for one in subjects] or [charge(1)]
        key_id = made.facts.key_id if tenant == "acme" else None
        hold = await ledger.reserve(tenant, charges, key_id=key_id, route="embed/sentdp", **terms)
        found["releases"][name] = hold.release_id
        return str(hold.release_id)

    await ledger.commit("acme", await hold("committed", "acme", claim=claim("one")), response=b"stored")
    await ledger.cancel("acme", await hold("cancelled", "acme", claim=claim("two")), reason="client-gone")
    await ledger.expire("acme", await hold("expired", "acme", claim=claim("three")), reason="worker-died")
    await ledger.commit("people", await hold("people-committed", "people", "p0", "p1"))
    await ledger.expire("people", await hold("people-expired", "people", "p1"), reason="worker-died")
    await ledger.set_current_limit("acme", "acme/sentence", 40 * 10**9)
    for fold in (LedgerSeries(client), SpendingTotals(client)):
        await fold.fold_all()
    await SubjectRanks(client).rank_all()
    await sealer.seal()
    await hold("open-commit", "people", "p2")
    await hold("open-cancel", "people", "p3")
    await hold("open-expire", "people", "p0")
    await hold("open-own", "acme")
    store = JobStore(client, gateway="fixture", clock=lambda: NOW_MS)
    found["job"] = secrets.token_hex(16)
    await store.create("acme", found["job"], kind="domain", label="law", claim="c", open_max=4)
    await AlertStore(client, MASTER_KEY).put_rule("acme", "near", {"kind": "budget_used", "share": 0.8})
    await Vault(client, MASTER_KEY, entries_max=10, bytes_max=10**6).put("acme", "talk", b"x", lifetime_s=10**9)
    found["epoch"] = json.loads((folder / "epoch").read_text())
    return found


async def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder))
        server.start()
        client = LedgerClient(connect(url=server.url))
        try:
            found = await fill(client, Path(folder))
            names = sorted(await client.call("KEYS", "*"))
            found["keys"] = {
                name.decode(): base64.b64encode(await client.call("DUMP", name)).decode() for name in names
            }
        finally:
            await client.close()
            server.stop()
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
