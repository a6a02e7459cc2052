"""Copies sealed entries, and the seals themselves, from Redis to objects of the archive."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from core.accounting.events import Unit
from core.blob_errors import BlobCorrupt, BlobMissing
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.chain_reads import SegmentRow
from core.ledger.archive.objects import SealRow, range_of
from core.ledger.archive.policy import ArchivePolicy
from core.ledger.archive.store import ArchiveStore
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import JournalDigest, RawEntry, SealId, seal_entry
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number, raw_entries

_SEALS = 20
_KEPT_FIELDS = (b"mode", b"operation", b"created_ms", b"schema")


class JournalCopy:
    """Copies consecutive sealed segments of one tenant, in objects of the size that the policy says."""

    def __init__(
        self,
        client: LedgerClient,
        store: ArchiveStore,
        tenant: str,
        segments: Sequence[SegmentRow],
        *,
        policy: ArchivePolicy,
    ) -> None:
        self._client = client
        self._store = store
        self._tenant = tenant
        self._segments = segments
        self._policy = policy
        self._record: Mapping[str, Any] = {}

    async def write(self, *, replace: bool = False) -> list[ArchivedRange]:
        """Write the objects, or with `replace` also those that exist, which may be damaged.

        Raises LedgerNotTrusted if the entries in Redis are not the ones that were sealed.
        """
        self._record = await tenant_record(self._client, self._tenant)
        written = []
        pending = _Pending(self._policy.object_entries, self._policy.object_bytes)
        for n, first, last, sealed in self._segments:
            digest = JournalDigest()
            async for batch in raw_entries(self._client, self._tenant, after=first - 1, last=last):
                await asyncio.to_thread(digest.add, batch)
                written += [await self._put(full, replace) for full in pending.add(batch)]
            if digest.hexdigest() != sealed:
                raise LedgerNotTrusted(
                    f"Entries {first} to {last} of the tenant {self._tenant} are not the ones that seal {n} sealed; "
                    "`privacy-gateway ledger audit` shows where"
                )
        if pending.entries:
            written.append(await self._put(pending.entries, replace))
        return written

    async def _put(self, part: list[RawEntry], replace: bool) -> ArchivedRange:
        range_ = await asyncio.to_thread(range_of, self._tenant, part)
        seals: list[SealRow] = [
            (n, first, last) for n, first, last, _ in self._segments if first <= range_.last and last >= range_.first
        ]
        await self._store.put(range_, part, seals=seals, record=self._record, replace=replace)
        await asyncio.to_thread(_release, part)
        return range_

    async def read_back(self, written: Sequence[ArchivedRange]) -> None:
        """Read the objects from the blob store and compare them with the seals. Raises BlobMissing, BlobCorrupt."""
        at, digest = 0, JournalDigest()
        for range_ in written:
            found = await self._store.read(range_, check=True)
            batches = found.batches(range_.first, range_.last)
            while batch := await asyncio.to_thread(next, batches, None):
                while batch:
                    _, _, last, sealed = self._segments[at]
                    part = [raw for raw in batch if entry_number(raw) <= last]
                    await asyncio.to_thread(digest.add, part)
                    if part and entry_number(part[-1]) == last:
                        if digest.hexdigest() != sealed:
                            raise BlobCorrupt
                        at, digest = at + 1, JournalDigest()
                    batch = batch[len(part) :]
        if at != len(self._segments):
            raise BlobCorrupt


def _release(entries: list[RawEntry]) -> None:
    """Free them in steps: to free an object's entries at once keeps the event loop waiting for some milliseconds."""
    while entries:
        del entries[-250:]


class _Pending:
    """Cuts a stream of entries into objects. Where it cuts depends on the entries alone: a repeated copy is equal."""

    def __init__(self, entries_max: int | None, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self.entries: list[RawEntry] = []

    def add(self, batch: Sequence[RawEntry]) -> list[list[RawEntry]]:
        """Add entries. Returns what fills objects; one entry alone may be larger than an object should be."""
        full: list[list[RawEntry]] = []
        for raw in batch:
            size = len(raw[0]) + sum(len(name) + len(value) for name, value in raw[1].items())
            if self.entries and (len(self.entries) == self._entries_max or self._bytes + size > self._bytes_max):
                full.append(self.entries)
                self.entries, self._bytes = [], 0
            self.entries.append(raw)
            self._bytes += size
        return full


async def copy_chain(
    client: LedgerClient, store: ArchiveStore, *, after: int, last: int, bytes_max: int
) -> list[ArchivedRange]:
    """Copy the seals with numbers after `after` up to `last`, and read them back. Returns their ranges.

    Raises LedgerNotTrusted if they are not in Redis, BlobMissing, BlobCorrupt.
    """
    written: list[ArchivedRange] = []
    pending = _Pending(None, bytes_max)
    start = f"{after + 1}-0"
    while found := await client.call("XRANGE", names.SEAL_CHAIN_KEY, start, f"{last}-0", "COUNT", _SEALS):
        written += [await _put_seals(store, full) for full in pending.add(found)]
        start = f"({found[-1][0].decode()}"
    if pending.entries:
        written.append(await _put_seals(store, pending.entries))
    if after < last and (not written or written[-1].last != last):
        raise LedgerNotTrusted(f"Seal {last} of the ledger is missing.")
    return written


async def _put_seals(store: ArchiveStore, seals: Sequence[RawEntry]) -> ArchivedRange:
    range_ = range_of(CHAIN, seals)
    await store.put(range_, seals)
    await store.read(range_, check=True)
    return range_


async def shows_record(client: LedgerClient, master_key: MasterKey, store: ArchiveStore, recorded: SealId) -> bool:
    """Whether the archive has a copy of the seals after `recorded`, up to one that records it as archived."""
    async for range_ in store.chain_after(recorded.n):
        try:
            found = await store.read(range_, check=True)
        except (BlobMissing, BlobCorrupt):
            continue
        seals = [raw for batch in found.batches(range_.first, range_.last) for raw in batch]
        if (
            seal_entry(seals[0], master_key).previous == recorded
            and seal_entry(seals[-1], master_key).archived.chain == recorded
            and await client.call("XRANGE", names.SEAL_CHAIN_KEY, seals[-1][0], seals[-1][0]) == seals[-1:]
        ):
            return True
    return False


async def tenant_record(client: LedgerClient, tenant: str) -> dict[str, Any]:
    """Return what a restore needs and the journal does not have: the terms of the tenant and its current limits."""
    fields = await client.call("HGETALL", names.tenant_key(tenant))
    current = await client.call_many([("HGET", names.account_key(tenant, unit.value), "current") for unit in Unit])
    return {
        "tenant": {
            name.decode(): value
            for name, value in fields.items()
            if name in _KEPT_FIELDS or name.startswith(b"subject:")
        },
        "current": {unit.value: value for unit, value in zip(Unit, current, strict=True) if value},
    }
