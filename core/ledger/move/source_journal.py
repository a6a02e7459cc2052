"""The whole journal of a tenant that moves, verified against the seals of the ledger that it leaves.

What is not genuine is refused before the tenant arrives anywhere: the target would seal it as genuine.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import LedgerNotTrusted
from core.ledger import wire
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.hash_chain.chain import JournalDigest, RawEntry, Segment, seal_entry
from core.ledger.hash_chain.epoch import EpochFile
from core.ledger.hash_chain.replay import JournalReplay
from core.ledger.hash_chain.verify_history import Entries, History, SegmentEnd
from core.ledger.keys import MasterKey
from core.ledger.move.sides import LedgerSide
from core.ledger.pages import entry_number, readable_entry

_HOW = "`privacy-gateway ledger audit` shows where"


class SourceJournal:
    """Call `read_sealed` while the tenant is still in use, and `read_rest` once it is frozen and sealed.

    `digest` then covers all entries. Raises LedgerNotTrusted for a journal, seals or accounts that do not fit together,
    StoreUnavailable, LedgerUnavailable.
    """

    def __init__(self, side: LedgerSide, tenant: str, master_key: MasterKey) -> None:
        self._side = side
        self._tenant = tenant
        self._master_key = master_key
        self.history = History(side.client, master_key, EpochFile(side.epoch_file), only=tenant, archive=side.archive)
        self._replay = JournalReplay(tenant)
        self._digest = JournalDigest()
        self._last_seal = 0

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    async def read_sealed(self) -> None:
        """Verify what is sealed at this moment, from the first entry on."""
        async for event in self.history.sealed():
            if isinstance(event, Entries):
                self._apply(event.raw)
            elif isinstance(event, SegmentEnd):
                self._compare(event.segment)
            else:
                self._last_seal = event.id.n
        self._refuse([*self.history.chain_faults, *self.history.tenant_faults.get(self._tenant, [])])

    async def read_rest(self, last: int) -> None:
        """Verify the entries after those, up to the sealed entry `last`, and every account."""
        source, position = self.history.source, self.history.positions.get(self._tenant, 0)
        async for raw in source.raw_seals(after=self._last_seal):
            if isinstance(raw, str):
                self._refuse([raw])
                continue
            seal = seal_entry(raw, self._master_key)
            segment = seal.segment(self._tenant)
            if segment is not None and segment.is_new:
                if segment.first != position + 1:
                    self._refuse([f"seal {seal.id.n} begins at entry {segment.first}, after entry {position}"])
                position = segment.last
                await self._read_segment(segment)
            self._last_seal = seal.id.n
        if position != last:
            self._refuse([f"entry {last} is not sealed"])
        report = await audit_tenant(self._side.client, self._tenant, self._replay, sealed=last, source=source)
        if not report.ok:
            self._refuse([*report.faults, "the accounts do not match the journal"])
        if self._replay.open_releases or not self._replay.has_left:
            self._refuse(["the journal does not end with the tenant's departure, without open holds"])

    async def _read_segment(self, segment: Segment) -> None:
        digest = JournalDigest()
        async for batch in self.history.source.entries(self._tenant, segment.first, segment.last):
            if isinstance(batch, str):
                self._refuse([batch])
                continue
            digest.add(batch)
            self._apply(batch)
        if digest.hexdigest() != segment.digest:
            self._refuse([f"entries {segment.first} to {segment.last} are not the ones that were sealed"])
        self._compare(segment)

    def _compare(self, segment: Segment) -> None:
        states = wire.account_states(self._tenant, segment.accounts)
        if any(self._replay.differences_of(state) for state in states):
            self._refuse([f"the sealed accounts do not match the journal up to entry {segment.last}"])

    def _apply(self, batch: Sequence[RawEntry]) -> None:
        self._digest.add(batch)
        for raw in batch:
            entry = readable_entry(self._tenant, raw)
            if entry is None:
                self._refuse([f"entry {entry_number(raw)} was not written by the ledger"])
            else:
                self._replay.apply(entry)
        self._refuse(self._replay.faults)

    def _refuse(self, faults: Sequence[str]) -> None:
        if faults:
            raise LedgerNotTrusted(
                f"The tenant {self._tenant} cannot be moved from the ledger {self._side.name}: {faults[0]}; {_HOW}."
            )
