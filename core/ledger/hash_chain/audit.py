"""The full audit: seals against journals, and journals against accounts. It can run while the ledger is in use.

`SealedHistory` reads the whole history in the order of the seals, and verifies every journal entry against its seal.
The history is in Redis, and in the archive what Redis no longer has. Guarantee: an archiver that runs meanwhile in any
process causes no fault. What cannot be read from the archive is reported as a fault, in a fixed sentence.

The result of the last audit is stored in Redis under a MAC, so that a gateway can show it.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgpack
import orjson

from core.errors import BlobCorrupt, BlobMissing, InvalidInput, LedgerNotTrusted, UnknownTenant
from core.ledger.counters import Vector, plus
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
from core.ledger.hash_chain.replay import JournalReplay, Key, TenantAudit, key_of
from core.ledger.pages import (
    ENTRY_BATCH,
    EntryArchive,
    account_batch,
    entries_of,
    entry_number,
    raw_entries,
    readable_entry,
)
from core.ledger.records import account_states, subject_amounts
from core.master_key import MasterKey, Purpose
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
class SealedHistory:
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


_BATCH = 32  # a record may have thousands of rows
_Rows = tuple[tuple[Key, Vector], ...]


class OpenHolds:
    """Reads the records of one tenant's holds, for what they debit from subjects' accounts. A hold may end meanwhile.

    The journal has only a digest of these amounts until a hold is spent (`reserve.lua`).
    """

    def __init__(self, client: LedgerClient, tenant: str) -> None:
        self._client = client
        self._tenant = tenant
        self._rows: dict[str, _Rows] = {}
        self._ended: set[str] = set()
        self._forged: set[str] = set()

    async def held_by_subjects(self, digests: Mapping[str, str]) -> dict[Key, Vector] | None:
        """Return the sums over the releases in `digests`. Returns None if one of them is no longer open."""
        self._rows = {release: rows for release, rows in self._rows.items() if release in digests}
        unread = [release for release in digests if release not in self._rows]
        self._ended, self._forged = set(), set()
        for start in range(0, len(unread), _BATCH):
            batch = unread[start : start + _BATCH]
            records = await self._client.call_many(
                [("GET", names.release_key(self._tenant, release)) for release in batch]
            )
            for release, record in zip(batch, records, strict=True):
                self._read(release, record, digests[release])
        if self._ended or self._forged:
            return None
        sums: dict[Key, Vector] = {}
        for rows in self._rows.values():
            for key, vector in rows:
                sums[key] = plus(sums[key], vector) if key in sums else vector
        return sums

    async def faults(self, *, after: int) -> list[str]:
        """Return the faults of the last read: each release must be open, or end in an entry after `after`."""
        seq = int(await self._client.call("HGET", names.tenant_key(self._tenant), "seq") or 0)
        missing = set(self._ended)
        async for batch in raw_entries(self._client, self._tenant, after=after, last=seq):
            missing -= {fields.get(b"release", b"").decode() for _, fields in batch}
        return [
            *(f"the record of the hold {release} is missing" for release in sorted(missing)),
            *(f"the hold {release} does not have the amounts in the journal" for release in sorted(self._forged)),
        ]

    def _read(self, release: str, stored: bytes | None, digest: str) -> None:
        try:
            record = msgpack.unpackb(stored, raw=True) if stored else {}  # `reserved` in it is not text
            if record.get(b"state") != b"held":
                self._ended.add(release)
                return
            rows = record[b"subject_rows"]
            if hashlib.sha256(rows).hexdigest() == digest:
                amounts = subject_amounts(self._tenant, rows)
                self._rows[release] = tuple((key_of(amount), amount.vector) for amount in amounts)
                return
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            pass
        self._forged.add(release)


@dataclass(frozen=True)
class LedgerAudit:
    """`faults` are those of the chain of seals. Each tenant's report contains the tenant's own faults. Every entry from
    before `began_ms`, on the clock of Redis, was read."""

    tenants: tuple[TenantAudit, ...]
    seals: int
    faults: tuple[str, ...]
    began_ms: int = 0

    @property
    def ok(self) -> bool:
        return not self.faults and all(tenant.ok for tenant in self.tenants)


async def audit_ledger(
    client: LedgerClient, master_key: MasterKey, epoch_file: Path, *, archive: HistoryArchive | None = None
) -> LedgerAudit:
    """Check every seal, every entry and every account. Memory is linear in the number of accounts.

    The audit verifies three things. The chain of MACs has no gap and continues from the epoch file. Every sealed range
    of every journal is unchanged since it was sealed. At each seal, and now, the accounts are the sums of the journal.
    Archived entries are read from `archive`. Raises StoreUnavailable.
    """
    began_ms = await client.now_ms()
    history = SealedHistory(client, master_key, EpochFile(epoch_file), archive=archive)
    replays = await replay_history(history.sealed(), history.fault_of)
    listed = {name.decode() for name in await client.call("SMEMBERS", names.TENANTS_KEY)}
    reports = []
    for tenant in sorted(listed | replays.keys()):
        replay = replays.get(tenant) or JournalReplay(tenant)
        if tenant not in listed:
            history.fault_of(tenant, "the tenant was sealed and is not in the list of tenants")
        replay.faults += history.tenant_faults.get(tenant, [])
        try:
            sealed = history.positions.get(tenant, 0)
            reports.append(await audit_tenant(client, tenant, replay, sealed=sealed, source=history.source))
        except InvalidInput:
            history.chain_faults.append("the list of tenants has a name that no tenant can have")
        except UnknownTenant:
            if tenant in replays:
                replay.faults.append("the record of the tenant is missing")
                reports.append(replay.report(last_seq=replay.last_seq))
    return LedgerAudit(tuple(reports), history.seals, tuple(history.chain_faults), began_ms)


async def replay_history(
    events: AsyncIterator[Entries | SegmentEnd | Seal], fault_of: Callable[[str, str], None]
) -> dict[str, JournalReplay]:
    """Apply the entries of each tenant, and compare the accounts in every seal with them."""
    replays: dict[str, JournalReplay] = {}
    async for event in events:
        if isinstance(event, Entries):
            _apply(replays.setdefault(event.tenant, JournalReplay(event.tenant)), event.raw)
        elif isinstance(event, SegmentEnd):
            segment = event.segment
            replay = replays.setdefault(segment.tenant, JournalReplay(segment.tenant))
            if any(replay.differences_of(state) for state in account_states(segment.tenant, segment.accounts)):
                fault_of(
                    segment.tenant,
                    f"the accounts in seal {event.seal.id.n} do not match the journal up to entry {segment.last}",
                )
    return replays


async def audit_tenant(
    client: LedgerClient,
    tenant: str,
    replay: JournalReplay | None = None,
    *,
    sealed: int = 0,
    source: HistorySource | None = None,
) -> TenantAudit:
    """Compare every account with the journal. Accounts are compared page by page, each at the page's own entry.

    If a hold is refunded between the read of a page and that of the hold's record, the held amounts of the subjects'
    accounts on that page are not compared.

    `replay` may already have applied a part of the journal. `source` also reads what an archiver removes meanwhile.
    Raises UnknownTenant.
    """
    source = source or HistorySource(client, None)
    replay = replay or JournalReplay(tenant)
    holds = OpenHolds(client, tenant)
    page = await account_batch(client, tenant)
    if page.seq < sealed:
        replay.faults.append(f"the tenant is at entry {page.seq} and was sealed up to entry {sealed}")
    while True:
        async for batch in source.entries(tenant, replay.last_seq + 1, page.seq):
            if isinstance(batch, str):
                replay.faults.append(batch)
            else:
                _apply(replay, batch)
        replay.faults += page.faults
        replay.compare(page.states, await holds.held_by_subjects(replay.open_digests))
        if not page.last:
            replay.faults += await holds.faults(after=page.seq)
            return replay.report(last_seq=page.seq)
        page = await account_batch(client, tenant, after=page.last)


def _apply(replay: JournalReplay, batch: Sequence[RawEntry]) -> None:
    for raw in batch:
        entry = readable_entry(replay.tenant, raw)
        if entry is None:
            replay.skip(entry_number(raw), "was not written by the ledger")
        else:
            replay.apply(entry)


_LISTED_MAX = 1000


@dataclass(frozen=True)
class LastAudit:
    """`chain_ok` is about the seals, `faulty` lists up to 1,000 tenants whose journal or accounts differ. `began_ms` is
    0 for an audit that an earlier version stored."""

    at_ms: int
    ok: bool
    chain_ok: bool
    seals: int
    entries: int
    tenants: int
    faulty: tuple[str, ...]
    began_ms: int = 0

    def ok_for(self, tenant: str) -> bool:
        """Whether the chain and this tenant had no fault. A tenant that was opened later had none."""
        return self.chain_ok and tenant not in self.faulty and (self.ok or len(self.faulty) < _LISTED_MAX)


async def store_audit(client: LedgerClient, master_key: MasterKey, audit: LedgerAudit) -> None:
    """Store the result of an audit that has just ended, in place of the one before. Raises LedgerUnavailable."""
    body = orjson.dumps(
        {
            "at_ms": await client.now_ms(),
            "began_ms": audit.began_ms,
            "ok": audit.ok,
            "chain_ok": not audit.faults,
            "seals": audit.seals,
            "entries": sum(tenant.entries for tenant in audit.tenants),
            "tenants": len(audit.tenants),
            "faulty": [tenant.tenant for tenant in audit.tenants if not tenant.ok][:_LISTED_MAX],
        }
    )
    mac = master_key.mac(Purpose.AUDIT, body)
    await client.call("SET", names.LAST_AUDIT_KEY, mac.encode() + body)


async def last_audit(client: LedgerClient, master_key: MasterKey) -> LastAudit | None:
    """Return the result of the last audit; None if there was none, or if what is stored is not genuine."""
    stored = await client.call("GET", names.LAST_AUDIT_KEY) or b""
    mac, body = stored[:64], stored[64:]
    if not hmac.compare_digest(master_key.mac(Purpose.AUDIT, body).encode(), mac):
        return None
    found = orjson.loads(body)
    return LastAudit(**{**found, "faulty": tuple(found["faulty"])})
