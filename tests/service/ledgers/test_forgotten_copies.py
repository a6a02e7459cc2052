"""Local copies of deleted files, while one of several ledgers is away."""

from __future__ import annotations

import os
import time
from pathlib import Path

from inprocess_kit import Gateway
from redis_kit import EmbeddedServer
from several_ledgers_kit import until

from core.blobs.local import LocalBlobs
from core.ledger.stored_files import DOMAINS
from service.files.copies import IN_USE_S, LocalCopies
from service.files.forgotten import remove_forgotten
from service.files.stored import StoredFiles

PACK = ".safetensors"


def test_copies_of_other_tenants_are_removed_while_a_ledger_is_away(
    gateway: Gateway, servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    _, east = servers
    for tenant, ledger in (("away", "east"), ("there", "main"), ("too", "main")):
        gateway.tenant(tenant, ledger=ledger)
    own = gateway.service
    other = StoredFiles(  # those of another gateway
        LocalCopies(tmp_path / "other", bytes_max=10**9, free_bytes_min=0),
        LocalBlobs(tmp_path / "store"),
        own.files.index,
        own.master_key,
    )
    source = tmp_path / "source"
    source.write_bytes(b"planted walrus")
    copies = {}
    for tenant in ("away", "there", "too"):
        for name in ("kept", "deleted"):
            gateway.on_loop(own.files.put(tenant, DOMAINS, name, {PACK: source}))
            path = copies[tenant, name] = Path(gateway.on_loop(other.find(tenant, DOMAINS, name)).path)
            os.utime(path, (time.time() - IN_USE_S - 60, path.stat().st_mtime))
        gateway.on_loop(own.files.remove(tenant, DOMAINS, "deleted"))

    east.kill()
    assert gateway.on_loop(remove_forgotten(other)) == 2
    assert {copy for copy, path in copies.items() if not path.exists()} == {("there", "deleted"), ("too", "deleted")}

    east.start()
    until(lambda: gateway.on_loop(remove_forgotten(other)) == 1)
    assert {copy for copy, path in copies.items() if path.exists()} == {
        ("away", "kept"),
        ("there", "kept"),
        ("too", "kept"),
    }
