"""Writes and reads the objects of one ledger's archive, and finds archived entries and seals by their numbers.

An object with more seals may replace one with the same first seal: the newest object grows from round to round. The
index in Redis says which object has an entry: a row for each tenant in each complete object. The index is not
authenticated; the objects are.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from core.blobs.store import BlobStore
from core.errors import BlobExists, BlobMissing, LedgerNotTrusted
from core.ledger.archive.objects import ArchiveObject, Draft, TenantPart, decode, object_key
from core.ledger.hash_chain.chain import RawEntry, Seal, SealId, seal_entry
from core.ledger.pages import entry_number
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.redis.client import Call, LedgerClient

CACHE_BYTES = 32 * 1024 * 1024
_NAME = re.compile(r"(\d{16})-(\d{16})")


class ArchiveStore:
    """The objects of the ledger with the id `ledger`. Keeps up to CACHE_BYTES of decrypted objects in memory.

    Every method raises StoreUnavailable if the blob store does not answer.
    """

    def __init__(self, blobs: BlobStore, master_key: MasterKey, ledger: str) -> None:
        self._blobs = blobs
        self._key = master_key.derive(Purpose.ARCHIVE)
        self._cached: OrderedDict[int, ArchiveObject] = OrderedDict()
        self.ledger = ledger

    async def put(self, draft: Draft, records: Mapping[str, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Write an object. One that exists has the same seals and entries: it is left as it is, unless `replace`."""
        data = await asyncio.to_thread(lambda: draft.encode(ledger=self.ledger, key=self._key, records=records))
        with suppress(BlobExists):  # the caller reads it back in any case
            key = object_key(self.ledger, draft.first, draft.last)
            await self._blobs.put(key, data, create_only=not replace)

    async def read(self, first: int, last: int) -> ArchiveObject:
        """Read one object from the blob store. Raises BlobMissing, BlobCorrupt."""
        data = await self._blobs.get(object_key(self.ledger, first, last))
        return await asyncio.to_thread(lambda: decode(data, ledger=self.ledger, first=first, last=last, key=self._key))

    async def load(self, first: int, *, fresh: bool = False) -> ArchiveObject:
        """Return the largest object that begins with the seal `first`, from memory if it was read before.

        Raises BlobMissing, BlobCorrupt.
        """
        if not fresh and first in self._cached:
            self._cached.move_to_end(first)
            return self._cached[first]
        lasts = [last async for _, last in self.ranges(first=first, to=first)]
        if not lasts:
            raise BlobMissing
        found = self._cached[first] = await self.read(first, max(lasts))
        while sum(one.nbytes for one in self._cached.values()) > CACHE_BYTES and len(self._cached) > 1:
            self._cached.popitem(last=False)
        return found

    async def ranges(self, *, first: int = 0, to: int | None = None) -> AsyncIterator[tuple[int, int]]:
        """Yield the first and the last seal of each object that begins at `first` or later, but not after `to`."""
        folder = f"archive/{self.ledger}"
        async for key, _ in self._blobs.list(folder, after=f"{folder}/{first:016d}"):
            name = _NAME.fullmatch(key.removeprefix(f"{folder}/"))
            if name is not None:
                if to is not None and int(name[1]) > to:
                    return
                yield int(name[1]), int(name[2])

    async def remove_smaller(self, first: int, last: int) -> None:
        """Remove the objects that begin with the same seal as this one and end before it."""
        ranges = [one async for one in self.ranges(first=first, to=first) if one[1] < last]
        await self._blobs.delete([object_key(self.ledger, *one) for one in ranges])


async def ledgers_in(blobs: BlobStore) -> list[str]:
    """Return the ids of the ledgers that have an archive in this blob store."""
    found: list[str] = []
    after: str | None = None
    while True:
        async for key, _ in blobs.list("archive", after=after):
            found.append(key.split("/")[1])
            break
        else:
            return found
        after = f"archive/{found[-1]}/~"  # after all keys of this ledger


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
