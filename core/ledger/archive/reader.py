"""Reads archived entries and seals by their numbers, for the ledger in Redis.

The index in Redis says which object has an entry: a row for each tenant in each complete object. It is not
authenticated; the objects are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from core.blob_errors import BlobMissing
from core.blobs.store import BlobStore
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.objects import TenantPart
from core.ledger.archive.store import ArchiveStore
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import RawEntry, Seal, SealId, seal_entry
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number

Call = Callable[..., Awaitable[Any]]  # one Redis command


class EntryRange(NamedTuple):
    """A tenant's entries in the object that begins with the seal `object`."""

    first: int
    last: int
    from_ms: int
    to_ms: int
    object: int


class SealRange(NamedTuple):
    """A complete object: its seals, and how many entries it has."""

    first: int
    last: int
    entries: int


class LedgerArchive:
    """The archive of the ledger in Redis.

    Methods raise BlobMissing, BlobCorrupt or StoreUnavailable if an object cannot be read, LedgerNotTrusted if the
    index cannot, and LedgerUnavailable.
    """

    def __init__(self, client: LedgerClient, master_key: MasterKey, blobs: BlobStore) -> None:
        self._client = client
        self._master_key = master_key
        self._blobs = blobs
        self._store: ArchiveStore | None = None

    async def store(self, call: Call | None = None) -> ArchiveStore:
        """Return the objects of the ledger that is in Redis."""
        ledger = ((await (call or self._client.call)("GET", names.LEDGER_ID_KEY)) or b"").decode()
        if not ledger:
            raise BlobMissing
        if self._store is None or self._store.ledger != ledger:
            self._store = ArchiveStore(self._blobs, self._master_key, ledger)
        return self._store

    async def complete(self, *, after: int = 0, call: Call | None = None) -> list[SealRange]:
        """Return the complete objects with seals after number `after`, in order."""
        key = names.archive_index_key(names.CHAIN)
        rows = await (call or self._client.call)("ZRANGEBYSCORE", key, f"({after}", "+inf")
        return [SealRange(*_numbers(row, 3)) for row in rows]

    async def last_complete(self) -> int:
        """Return the last seal in a complete object."""
        key = names.archive_index_key(names.CHAIN)
        rows = await self._client.call("ZREVRANGEBYSCORE", key, "+inf", "-inf", "LIMIT", 0, 1)
        return SealRange(*_numbers(rows[0], 3)).last if rows else 0

    async def range_at(self, tenant: str, number: int) -> EntryRange | None:
        """Return the range that contains an entry; None if no complete object has it."""
        key = names.archive_index_key(tenant)
        rows = await self._client.call("ZRANGEBYSCORE", key, number, "+inf", "LIMIT", 0, 1)
        found = EntryRange(*_numbers(rows[0], 5)) if rows else None
        return found if found is not None and found.first <= number <= found.last else None

    async def part_at(self, tenant: str, number: int) -> TenantPart | None:
        """Return the tenant's entries in the object that contains an entry; None if no complete object has it."""
        found = await self.range_at(tenant, number)
        if found is None:
            return None
        store = await self.store()
        for fresh in (False, True):  # a larger object may have replaced the one in memory
            part = (await store.load(found.object, fresh=fresh)).tenants.get(tenant)
            if part is not None and part.first <= number <= part.last:
                return part
        raise BlobMissing

    async def entries(self, stream: str, *, after: int, last: int) -> AsyncIterator[list[RawEntry]]:
        """Yield the archived entries of a tenant, or the seals of CHAIN, after `after` up to `last`, in batches.

        What is not archived is left out.
        """
        if stream == names.CHAIN:
            async for batch in self._seals(after, last):
                yield batch
            return
        while after < last and (part := await self.part_at(stream, after + 1)) is not None:
            for batch in part.batches(after + 1, last):
                yield batch
            after = part.last

    async def continues(self, known: SealId, next_: Seal, call: Call) -> bool:
        """Whether the archived chain contains the seal `known` and leads from there to `next_`."""
        previous: SealId | None = None
        async for batch in self._seals(known.n - 1, next_.id.n - 1, call):
            for raw in batch:
                seal = seal_entry(raw, self._master_key)
                if previous is None:  # `known`, or an operator's acceptance of a state before it
                    follows = seal.id == known or (seal.restored is not None and seal.previous.n < known.n)
                else:
                    follows = seal.previous == previous
                if not follows:
                    return False
                previous = seal.id
        return previous is not None and next_.previous == previous

    async def _seals(self, after: int, last: int, call: Call | None = None) -> AsyncIterator[list[RawEntry]]:
        for row in await self.complete(after=after, call=call):
            if row.first <= last:
                found = await (await self.store(call)).load(row.first)
                batch = [raw for raw in found.raw_seals() if after < entry_number(raw) <= last]
                after = max(after, found.last)
                yield batch


def _numbers(row: bytes, count: int) -> list[int]:
    found = row.split(b":")
    if len(found) != count or not all(part.isdigit() for part in found):
        raise LedgerNotTrusted("The index of the archive cannot be read.")
    return list(map(int, found))
