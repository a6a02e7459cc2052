"""Reads the whole history in the order of the seals and verifies every journal entry against its seal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import (
    JournalDigest,
    RawEntry,
    Seal,
    SealChain,
    SealId,
    Segment,
    seal_entry,
)
from core.ledger.hash_chain.epoch import EpochFile, verify_epoch
from core.ledger.hash_chain.history_source import HistoryArchive, HistorySource
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number


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
