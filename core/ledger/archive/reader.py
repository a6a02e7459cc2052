"""Reads archived entries by their numbers, for the ledger in Redis.

The index in Redis names the objects. It is not authenticated; the objects are, and the audit compares the index with
the seals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.blob_errors import BlobMissing
from core.blobs.store import BlobStore
from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.objects import ArchiveObject
from core.ledger.archive.store import CACHE_BYTES, ArchiveStore
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import RawEntry, Seal, SealId, seal_entry
from core.ledger.hash_chain.epoch import Call
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number

_BATCH = 500


class LedgerArchive:
    """The archive of the ledger in Redis.

    Methods raise BlobMissing, BlobCorrupt or StoreUnavailable if an object cannot be read, LedgerNotTrusted if the
    index cannot, and LedgerUnavailable.
    """

    def __init__(
        self, client: LedgerClient, master_key: MasterKey, blobs: BlobStore, *, cache_bytes_max: int = CACHE_BYTES
    ) -> None:
        self._client = client
        self._master_key = master_key
        self._blobs = blobs
        self._cache_bytes_max = cache_bytes_max
        self._store: ArchiveStore | None = None

    async def store(self, call: Call | None = None) -> ArchiveStore:
        """Return the objects of the ledger that is in Redis."""
        ledger = ((await (call or self._client.call)("GET", names.LEDGER_ID_KEY)) or b"").decode()
        if not ledger:
            raise BlobMissing
        if self._store is None or self._store.ledger != ledger:
            self._store = ArchiveStore(self._blobs, self._master_key, ledger, cache_bytes_max=self._cache_bytes_max)
        return self._store

    async def range_at(self, stream: str, number: int) -> ArchivedRange | None:
        """Return the range that contains an entry; None if the entry is not archived."""
        range_ = await self._range_with_last(stream, number)
        return range_ if range_ is not None and range_.first <= number else None

    async def _range_with_last(self, stream: str, number: int) -> ArchivedRange | None:
        """Return the first range whose last entry has this number or a higher one."""
        key = names.archive_index_key(stream)
        found = await self._client.call("ZRANGEBYSCORE", key, number, "+inf", "LIMIT", 0, 1)
        range_ = ArchivedRange.of_index(stream, found[0]) if found else None
        if range_ is not None and range_.last < number:
            raise LedgerNotTrusted("The index of the archive cannot be read.")
        return range_

    async def object_at(self, stream: str, number: int) -> ArchiveObject | None:
        """Return the object that contains an entry; None if the entry is not archived."""
        range_ = await self.range_at(stream, number)
        return None if range_ is None else await (await self.store()).load(range_)

    async def ranges(self, stream: str, *, after: int = 0, call: Call | None = None) -> AsyncIterator[ArchivedRange]:
        """Yield the ranges of a stream with entries after the number `after`, in order."""
        while True:
            rows = await (call or self._client.call)(
                "ZRANGEBYSCORE", names.archive_index_key(stream), f"({after}", "+inf", "LIMIT", 0, _BATCH
            )
            for row in rows:
                range_ = ArchivedRange.of_index(stream, row)
                if range_.last <= after:
                    raise LedgerNotTrusted("The index of the archive cannot be read.")
                after = range_.last
                yield range_
            if len(rows) < _BATCH:
                return

    async def entries(self, stream: str, *, after: int, last: int) -> AsyncIterator[list[RawEntry]]:
        """Yield the archived entries after `after` up to `last`, in batches. What is not archived is left out."""
        while after < last:
            range_ = await self._range_with_last(stream, after + 1)
            if range_ is None or range_.first > last:
                return
            for batch in (await (await self.store()).load(range_)).batches(after + 1, last):
                yield batch
            after = range_.last

    async def seals(self, first: int, last: int, *, call: Call | None = None) -> AsyncIterator[Seal]:
        """Yield the archived seals with numbers from `first` to `last`, each genuine. Raises LedgerNotTrusted."""
        async for range_ in self.ranges(CHAIN, after=first - 1, call=call):
            if range_.first > last:
                return
            found = await (await self.store(call)).load(range_)
            for batch in found.batches(first, last):
                for raw in batch:
                    yield seal_entry(raw, self._master_key)

    async def seal(self, n: int) -> Seal | None:
        """Return an archived seal, genuine; None if the archive does not have it."""
        async for seal in self.seals(n, n):
            return seal
        return None

    async def continues(self, known: SealId, next_: Seal, call: Call) -> bool:
        """Whether the archived chain contains the seal `known` and leads from there to `next_`."""
        previous: SealId | None = None
        async for seal in self.seals(known.n, next_.id.n - 1, call=call):
            if previous is None:  # `known`, or an operator's acceptance of a state before it
                follows = seal.id == known or (seal.restored is not None and seal.previous.n < known.n)
            else:
                follows = seal.previous == previous
            if not follows:
                return False
            previous = seal.id
        return previous is not None and next_.previous == previous


async def entries_of(
    client: LedgerClient, archive: LedgerArchive | None, stream: str, *, after: int, last: int | None, count: int
) -> AsyncIterator[Sequence[RawEntry]]:
    """Yield the entries of a stream after `after` up to `last` (None: to its end), in batches.

    Guarantee: an archiver that runs meanwhile in any process hides no entry. Redis is read first, and what it no longer
    has is read from the archive, which had it before it was removed. What neither has is left out.
    """
    key = names.SEAL_CHAIN_KEY if stream == CHAIN else names.journal_key(stream)
    start, end = str(after + 1), "+" if last is None else str(last)
    while last is None or after < last:
        found = await client.call("XRANGE", key, start, end, "COUNT", count)
        gap = entry_number(found[0]) - 1 if found else last
        if archive is not None and gap is not None and gap > after:
            async for batch in archive.entries(stream, after=after, last=gap):
                yield batch
        if not found:
            return
        yield found
        start, after = f"({found[-1][0].decode()}", entry_number(found[-1])
