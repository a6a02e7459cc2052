"""Reads a ledger's history from the archive alone: no Redis takes part.

The archive has the chain of seals up to the last round of the archiver, and the entries of each tenant up to the range
that was recorded last. Seals that cover later entries are in it, too: they show what is missing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.blob_errors import BlobCorrupt, BlobMissing
from core.errors import LedgerNotTrusted
from core.ledger.archive.objects import ArchiveObject
from core.ledger.archive.store import ArchiveStore
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import JournalDigest, Seal, SealId, seal_entry
from core.ledger.hash_chain.verify_history import Entries, SegmentEnd
from core.ledger.keys import MasterKey


@dataclass
class ArchivedHistory:
    """The chain and the recorded ranges of one archive. Faults are fixed sentences.

    `archived` has the last recorded entry of each tenant, and `sealed` the last one that a seal covers.
    """

    store: ArchiveStore
    master_key: MasterKey
    chain: list[ArchivedRange] = field(default_factory=list)
    ranges: dict[str, list[ArchivedRange]] = field(default_factory=dict)
    archived: dict[str, int] = field(default_factory=dict)
    sealed: dict[str, int] = field(default_factory=dict)
    seals: int = 0
    last: SealId = field(default_factory=SealId)
    chain_faults: list[str] = field(default_factory=list)
    tenant_faults: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _end: list[Seal] | None = None  # of the last object of the chain, which an archiver may delete at any time

    async def events(self) -> AsyncIterator[Entries | SegmentEnd | Seal]:
        """Yield the archived entries of each seal, then the seal, as `History.sealed` does. Call `open` first."""
        positions: dict[str, int] = {}
        previous = SealId()
        async for seal in self.each_seal():
            self.seals += 1
            if seal.ledger != self.store.ledger:
                self.chain_faults.append(f"seal {seal.id.n} belongs to another ledger")
            if seal.previous != previous:
                self.chain_faults.append(f"seal {seal.id.n} does not follow seal {previous.n}")
            previous = seal.id
            for segment in seal.segments:
                tenant = segment.tenant
                if segment.last > self.archived.get(tenant, 0):
                    continue
                if segment.first != positions.get(tenant, 0) + 1:
                    self.fault_of(tenant, f"seal {seal.id.n} begins at entry {segment.first}")
                positions[tenant] = segment.last
                digest = JournalDigest()
                async for entries in self._entries(tenant, segment.first, segment.last):
                    digest.add(entries.raw)
                    yield entries
                genuine = digest.hexdigest() == segment.digest
                if not genuine:
                    self.fault_of(
                        tenant,
                        f"entries {segment.first} to {segment.last} are not the ones that seal {seal.id.n} sealed",
                    )
                yield SegmentEnd(seal, segment, genuine)
            yield seal

    async def each_seal(self, *, first: int = 1) -> AsyncIterator[Seal]:
        """Yield the seals from number `first` in order, each genuine."""
        for range_ in self.chain:
            if range_.last < first:
                continue
            if self._end is not None and range_ is self.chain[-1]:
                for seal in self._end:
                    if seal.id.n >= first:
                        yield seal
                return
            found = await self.store.load(range_)
            for batch in found.batches(first, range_.last):
                for raw in batch:
                    yield seal_entry(raw, self.master_key)

    async def check_unused(self) -> None:
        """Read the objects that no seal records, such as copies of the newest seals, and report damaged ones."""
        used = {(one.stream, one.digest) for one in self.chain}
        used |= {(one.stream, one.digest) for ranges in self.ranges.values() for one in ranges}
        async for range_ in self.store.every_range():
            if range_ is None:
                self.chain_faults.append("the folder of the archive has a key that the archiver did not write")
            elif (range_.stream, range_.digest) not in used:
                try:
                    await self.store.read(range_, check=True)
                except BlobMissing:
                    pass  # an archiver has deleted its copy of the newest seals since they were listed
                except BlobCorrupt:
                    place = f"the unused object {range_.first} to {range_.last} of {range_.stream}"
                    self.chain_faults.append(f"{place} is not the one that was written")

    def fault_of(self, tenant: str, what: str) -> None:
        found = self.tenant_faults.setdefault(tenant, [])
        if what not in found[-1:]:
            found.append(what)

    async def open(self) -> None:
        """Find the chain, from its end to its beginning, and the ranges that its seals record."""
        found = await self._chain_objects()
        while not await self._find_chain(found):
            before, found = found, await self._chain_objects()
            if found == before:
                break  # no archiver has replaced its copy of the newest seals since they were listed
        async for seal in self.each_seal():
            for range_ in seal.archived.ranges:
                if range_.stream != CHAIN:
                    self._record(range_)
            for segment in seal.segments:
                self.sealed[segment.tenant] = max(segment.last, self.sealed.get(segment.tenant, 0))

    async def _chain_objects(self) -> list[ArchivedRange]:
        return [one async for one in self.store.chain_after(0)]

    async def _find_chain(self, found: list[ArchivedRange]) -> bool:
        """Find the chain among these objects. Returns whether it has no gap."""
        self.chain, self.chain_faults, self.last, self._end = [], [], SealId(), None
        by_last: dict[int, list[ArchivedRange]] = {}
        for range_ in found:
            by_last.setdefault(range_.last, []).append(range_)
        wanted: SealId | None = None  # the seal with which the next part must end
        number = max(by_last, default=0)
        while number:
            for range_ in by_last.get(number, []):
                seals = await self._seals_of(range_)
                if seals and (wanted is None or seals[-1].id == wanted):
                    break
            else:
                self.chain_faults.append(f"the archive has no readable object whose last seal is number {number}")
                break
            if wanted is None:
                self.last = seals[-1].id
                self._end = seals
            self.chain.append(range_)
            wanted = seals[0].previous
            number = wanted.n
        self.chain.reverse()
        return not self.chain_faults

    async def _seals_of(self, range_: ArchivedRange) -> list[Seal]:
        """Return the seals of an object; none if it cannot be used."""
        try:
            found = await self.store.read(range_, check=True)
            return [
                seal_entry(raw, self.master_key) for batch in found.batches(range_.first, range_.last) for raw in batch
            ]
        except (BlobMissing, BlobCorrupt, LedgerNotTrusted):
            return []

    def _record(self, range_: ArchivedRange) -> None:
        if range_.first != self.archived.get(range_.stream, 0) + 1:
            self.fault_of(range_.stream, f"the ranges that the seals record leave out entries before {range_.first}")
        self.ranges.setdefault(range_.stream, []).append(range_)
        self.archived[range_.stream] = range_.last

    async def _entries(self, tenant: str, first: int, last: int) -> AsyncIterator[Entries]:
        ranges = self.ranges[tenant]
        for range_ in ranges[bisect_left(ranges, first, key=lambda one: one.last) :]:
            if range_.first > last:
                return
            found = await self._object(tenant, range_)
            if found is not None:
                self.records[tenant] = found.record
                for batch in found.batches(first, last):
                    yield Entries(tenant, batch)

    async def _object(self, tenant: str, range_: ArchivedRange) -> ArchiveObject | None:
        try:
            return await self.store.load(range_)
        except BlobMissing:
            what = "is missing"
        except BlobCorrupt:
            what = "is not the one that was written"
        self.fault_of(tenant, f"the object with entries {range_.first} to {range_.last} {what}")
        return None
