"""Entries of files that expire, with the rights of the ledger."""

from __future__ import annotations

from core.ledger.client import LedgerClient
from core.ledger.stored_files import ARTIFACTS, NamedEntry, StoredEntry, StoredFileIndex, StoredPart

LATE_MS = 10**15


def entry(ends_ms: int) -> StoredEntry:
    return StoredEntry({".safetensors": StoredPart("blob", "digest", 100)}, "key", ends_ms)


def test_entries_that_have_expired_are_gone_and_count_no_more(go, client: LedgerClient) -> None:
    index = StoredFileIndex(client, bytes_max=10**6)
    for number in range(250):  # a script removes 100
        go(index.put("acme", NamedEntry(ARTIFACTS, f"{number:032x}", entry(LATE_MS))))
    assert go(index.used("acme")) == 25_000
    go(client.call("ZADD", "{acme}:files:ends", *[part for n in range(249) for part in (1, f"artifacts/{n:032x}")]))
    assert go(index.used("acme")) == 100
    assert set(go(index.of_owner("acme", ARTIFACTS))) == {f"{249:032x}"}
    assert go(index.remove("acme", ARTIFACTS, f"{0:032x}")) is None
