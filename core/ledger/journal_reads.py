"""Reads journal entries by number across the border between Redis and the archive.

Redis has the newest entries of a journal, without a gap. Older ones are in the archive, if they were archived; else
they are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.ledger import names
from core.ledger.archive.reader import EntryRange, LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.pages import entry_number


class JournalReads:
    """Reads one tenant's journal. Without an `archive` entries that were archived are left out.

    `objects` counts the objects of the archive that were used. Methods raise BlobMissing, BlobCorrupt or
    StoreUnavailable if an archived entry cannot be read.
    """

    def __init__(self, client: LedgerClient, tenant: str, archive: LedgerArchive | None) -> None:
        self._client = client
        self._tenant = tenant
        self._archive = archive
        self._key = names.journal_key(tenant)
        self.objects = 0

    async def oldest(self, first: int, last: int, count: int) -> Sequence[RawEntry]:
        """Return up to `count` entries from `first` to `last`, oldest first."""
        found: Sequence[RawEntry] = await self._client.call("XRANGE", self._key, first, last, "COUNT", count)
        if self._archive is None or (found and entry_number(found[0]) == first):
            return found
        archived = await self._archive.part_at(self._tenant, first)
        if archived is None:
            return found
        self.objects += 1
        batch: list[RawEntry] = []
        for part in archived.batches(first, last):
            batch += part
            if len(batch) >= count:
                break
        return batch[:count]

    async def newest(self, first: int, last: int, count: int) -> Sequence[RawEntry]:
        """Return up to `count` entries from `first` to `last`, newest first."""
        found: Sequence[RawEntry] = await self._client.call("XREVRANGE", self._key, last, first, "COUNT", count)
        if self._archive is None or found:
            return found
        archived = await self._archive.part_at(self._tenant, last)
        if archived is None:
            return found
        self.objects += 1
        return archived.newest(first, last, count)

    async def numbered(self, numbers: Sequence[int], *, objects_max: int) -> Sequence[RawEntry]:
        """Return the entries with these numbers, in their order.

        Stops before the entry that needs more than `objects_max` objects of the archive.
        """
        replies = await self._client.call_many([("XRANGE", self._key, number, number) for number in numbers])
        found: list[RawEntry] = []
        used: EntryRange | None = None
        for number, entries in zip(numbers, replies, strict=True):
            if entries or self._archive is None:
                found += entries
                continue
            if used is None or not used.first <= number <= used.last:
                if self.objects >= objects_max:
                    break
                used = await self._archive.range_at(self._tenant, number)
                self.objects += used is not None
            archived = await self._archive.part_at(self._tenant, number) if used is not None else None
            found += archived.newest(number, number, 1) if archived is not None else []
        return found

    async def first_at(self, at_ms: int) -> int:
        """Return the number of the first entry at or after a time, by bisection, or that of the next entry."""
        low, high = 1, int(await self._client.call("HGET", names.tenant_key(self._tenant), "seq") or 0) + 1
        while low < high:
            middle = (low + high) // 2
            found = await self._client.call("XRANGE", self._key, middle, "+", "COUNT", 1)
            if self._archive is not None and not (found and entry_number(found[0]) == middle):
                range_ = await self._archive.range_at(self._tenant, middle)
                if range_ is not None and range_.from_ms < at_ms <= range_.to_ms:
                    archived = await self._archive.part_at(self._tenant, middle)
                    self.objects += 1
                    return (archived.first_at(at_ms) if archived else None) or range_.first
                if range_ is not None:
                    low, high = (range_.last + 1, high) if range_.to_ms < at_ms else (low, range_.first)
                    continue
            if found and int(found[0][1].get(b"at_ms", b"0")) < at_ms:
                low = entry_number(found[0]) + 1
            else:
                high = middle
        return low


async def first_entry_at(client: LedgerClient, tenant: str, at_ms: int, archive: LedgerArchive | None = None) -> int:
    """Return the number of the first entry at or after a time, or that of the next one if there is none."""
    return await JournalReads(client, tenant, archive).first_at(at_ms)
