"""Reads the whole history in the order of the seals, and verifies every journal entry against its seal.

The history is in Redis, and in the archive what Redis no longer has. Guarantee: an archiver that runs meanwhile in any
process causes no fault. What cannot be read from the archive is reported as a fault, in a fixed sentence.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.errors import BlobCorrupt, BlobMissing, LedgerNotTrusted
from core.ledger.hash_chain.chain import (
    CHAIN_BATCH,
    JournalDigest,
    RawEntry,
    Seal,
    SealChain,
    SealId,
    Segment,
    seal_entry,
)
from core.ledger.hash_chain.epoch import EpochFile, verify_epoch
from core.ledger.pages import ENTRY_BATCH, EntryArchive, entries_of, entry_number
from core.master_key import MasterKey
from core.redis import names
from core.redis.client import Call, LedgerClient

Batch = Sequence[RawEntry] | str  # a text is a fault


class HistoryArchive(EntryArchive, Protocol):
    """What an audit needs of the archive."""

    async def continues(self, known: SealId, next_: Seal, call: Call) -> bool:
        """Whether the archived chain leads from the seal `known` to `next_`."""


class HistorySource:
    """Reads one ledger. A text among the results is a fault. Raises StoreUnavailable, LedgerUnavailable."""

    def __init__(self, client: LedgerClient, archive: EntryArchive | None) -> None:
        self._client = client
        self._archive = archive

    async def seals(self) -> AsyncIterator[RawEntry | str]:
        """Yield every seal as stored, oldest first."""
        async for batch in self._read(names.CHAIN, 1, None, CHAIN_BATCH):
            if isinstance(batch, str):
                yield batch
            else:
                for raw in batch:
                    yield raw

    async def entries(self, tenant: str, first: int, last: int) -> AsyncIterator[Batch]:
        """Yield the entries of a tenant from `first` to `last`, in batches."""
        async for batch in self._read(tenant, first, last, ENTRY_BATCH):
            yield batch

    async def _read(self, stream: str, first: int, last: int | None, count: int) -> AsyncIterator[Batch]:
        try:
            async for batch in entries_of(self._client, self._archive, stream, after=first - 1, last=last, count=count):
                yield batch
        except (BlobMissing, BlobCorrupt, LedgerNotTrusted) as error:
            yield _fault(error, first, last)


def _fault(error: Exception, first: int, last: int | None) -> str:
    if isinstance(error, LedgerNotTrusted):
        return error.detail
    to = "the end" if last is None else last
    what = "is missing" if isinstance(error, BlobMissing) else "is not the one that was written"
    return f"an object of the archive with entries from {first} to {to} {what}"


@dataclass(frozen=True)
class Entries:
    """The next entries of a tenant."""

    tenant: str
    raw: Sequence[RawEntry]


@dataclass(frozen=True)
class SegmentEnd:
    """The end of a segment. `genuine` says whether its entries are the ones that were sealed."""

    seal: Seal
    segment: Segment
    genuine: bool


@dataclass
class History:
    """Reads the chain and the journals once, in memory linear in the number of tenants. Faults are fixed sentences.

    `positions` maps tenants to their last sealed entries. It is complete when `sealed` has finished.
    """

    client: LedgerClient
    master_key: MasterKey
    epoch_file: EpochFile
    only: str | None = None
    archive: HistoryArchive | None = None
    seals: int = 0
    chain_faults: list[str] = field(default_factory=list)
    tenant_faults: dict[str, list[str]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = HistorySource(self.client, self.archive)

    async def sealed(self) -> AsyncIterator[Entries | SegmentEnd | Seal]:
        """Yield the entries of each seal, then the seal. Finally check the end of the chain and the epoch file."""
        chain = SealChain(self.client, self.master_key)
        ledger = await chain.ledger_id()
        previous: SealId | None = SealId()
        async for raw in self.source.seals():
            if isinstance(raw, str):
                self.chain_faults.append(raw)
                continue
            self.seals += 1
            try:
                seal = seal_entry(raw, self.master_key)
            except (LedgerNotTrusted, ValueError, KeyError, TypeError):
                self.chain_faults.append(f"seal {raw[0].decode()} is not genuine")
                previous = None
                continue
            if seal.ledger != ledger:
                self.chain_faults.append(f"seal {seal.id.n} belongs to another ledger")
            if previous is not None:
                self._follows(previous, seal)
            previous = seal.id
            for segment in seal.segments:
                if self.only in (None, segment.tenant):
                    async for event in self._segment(seal, segment):
                        yield event
            yield seal
        await self._end(chain)

    async def unsealed(self, tenant: str) -> AsyncIterator[Entries]:
        """Yield the entries after the tenant's last sealed entry."""
        seq = await self.client.call("HGET", names.tenant_key(tenant), "seq")
        first = self.positions.get(tenant, 0) + 1
        async for batch in self.source.entries(tenant, first, int(seq) if seq else 0):
            if isinstance(batch, str):
                self.fault_of(tenant, batch)
            else:
                yield Entries(tenant, batch)

    def fault_of(self, tenant: str, what: str) -> None:
        self.tenant_faults.setdefault(tenant, []).append(what)

    def _follows(self, previous: SealId, seal: Seal) -> None:
        if seal.previous != previous:
            self.chain_faults.append(
                f"seal {seal.id.n} does not follow seal {previous.n}: seals are missing or changed"
            )
        elif seal.id.n != previous.n + 1 and seal.restored is None:
            self.chain_faults.append(f"seal {seal.id.n} skips numbers after seal {previous.n}")

    async def _segment(self, seal: Seal, segment: Segment) -> AsyncIterator[Entries | SegmentEnd]:
        tenant, position = segment.tenant, self.positions.get(segment.tenant, 0)
        if segment.first != position + 1:
            self.fault_of(tenant, f"seal {seal.id.n} begins at entry {segment.first}, after entry {position}")
        digest = JournalDigest()
        async for batch in self.source.entries(tenant, segment.first, segment.last):
            if isinstance(batch, str):
                self.fault_of(tenant, batch)
                continue
            digest.add(batch)
            yield Entries(tenant, [raw for raw in batch if entry_number(raw) > position])
        genuine = digest.hexdigest() == segment.digest
        if not genuine:
            self.fault_of(
                tenant, f"entries {segment.first} to {segment.last} are not the ones that seal {seal.id.n} sealed"
            )
        self.positions[tenant] = max(position, segment.last)
        yield SegmentEnd(seal, segment, genuine)

    async def _end(self, chain: SealChain) -> None:
        try:
            await chain.head()
        except LedgerNotTrusted as error:
            self.chain_faults.append(error.detail)
        try:
            epoch = self.epoch_file.read()
            if epoch is not None:
                continues = None if self.archive is None else self.archive.continues
                await verify_epoch(self.client.call, epoch, self.master_key, continues)
        except LedgerNotTrusted as error:
            self.chain_faults.append(error.detail)
