"""Rebuilds a ledger in an empty Redis from the archive alone.

Guarantee: every archived entry counts. The accounts are the sums of the archived entries, and each hold that was open
at their end is spent. Before the first write, the epoch file names a later seal than Redis will have, so that no
gateway starts before an operator has accepted the restored state: what was released after the last archived entry is
not in it. The id of the ledger is written last: a part of a restore is no ledger.

Redis gets the last sealed entry of each tenant. The entries before it stay in the archive. Not restored: API keys,
jobs, stored answers and idempotency keys, kept conversations, the log of administrative actions, alerts, the entries of
packs, models and artifacts (the keys of their files are in Redis alone), what open holds debited from subjects'
accounts (`RestoreReport.lost_subject_holds`).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import orjson

from core.errors import BlobCorrupt, BlobMissing, LedgerNotTrusted, LedgerUnavailable
from core.ledger.archive.archiver import write_index
from core.ledger.archive.store import ArchiveObject, ArchiveStore, TenantPart
from core.ledger.counters import plus
from core.ledger.hash_chain.chain import Head, RawEntry, Seal, SealId, heads_digest
from core.ledger.hash_chain.epoch import Epoch, EpochFile
from core.ledger.hash_chain.replay import JournalReplay, Key
from core.ledger.pages import entry_number, readable_entry
from core.master_key import MasterKey
from core.redis import names
from core.redis.client import LedgerClient

_WRITES = 200  # commands that are sent at a time
RESTORED = "restored"  # the reason in the entries that spend the open holds


@dataclass(frozen=True)
class RestoreReport:
    """What was restored, up to the last archived seal.

    `spent_holds` counts the open holds that were spent, and `lost_subject_holds` those of them whose amounts on
    subjects' accounts are unknown.
    """

    seal: int
    tenants: int
    entries: int
    spent_holds: int
    lost_subject_holds: int


@dataclass
class _Tenant:
    """What the archived entries of one tenant say."""

    replay: JournalReplay
    terms: dict[Key, list[Any]] = field(default_factory=dict)
    created: dict[Key, bytes] = field(default_factory=dict)
    open_holds: dict[bytes, Mapping[bytes, bytes]] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    last: RawEntry = (b"", {})

    def apply(self, raw: RawEntry) -> set[str]:
        """Apply an entry. Returns the subjects that have rows in it. Raises LedgerNotTrusted."""
        entry = readable_entry(self.replay.tenant, raw)
        if entry is None:
            raise LedgerNotTrusted(f"Entry {entry_number(raw)} of {self.replay.tenant} was not written by the ledger.")
        self.replay.apply(entry)
        self.last, fields = raw, raw[1]
        if entry.transition == "open":
            for name in (b"amounts", b"subjects"):
                for row in orjson.loads(fields.get(name) or b"[]"):
                    self.terms[row[0], row[1]] = row
                    self.created[row[0], row[1]] = fields[b"at_ms"]
        elif entry.transition == "reserve":
            self.open_holds[fields[b"release"]] = fields
        elif entry.transition in ("commit", "cancel", "expire"):
            self.open_holds.pop(fields[b"release"], None)
        return {line.subject_hash for line in entry.all_amounts if line.subject_hash}


class Restore:
    """Writes into a Redis without a ledger. A restore that was interrupted starts again from an empty Redis.

    Raises LedgerUnavailable if Redis has a ledger or the archive has no seal, LedgerNotTrusted if the archive has a
    fault, StoreUnavailable.
    """

    def __init__(self, client: LedgerClient, master_key: MasterKey, store: ArchiveStore, epoch_file: Path) -> None:
        self._client = client
        self._master_key = master_key
        self._store = store
        self._epoch_file = EpochFile(epoch_file)
        self._tenants: dict[str, _Tenant] = {}
        self._heads: dict[str, Head] = {}
        self._last = SealId()
        self._commands: list[list[str | bytes]] = []
        self._entries = 0

    async def run(self) -> RestoreReport:
        """Check every object and write everything: first the epoch, last the id of the ledger."""
        await self._check_empty()
        ranges = await self._ranges()
        if not ranges:
            raise LedgerUnavailable("The archive has no seals.")
        self._write_epoch(ranges[-1][1])  # before the first data: what an interrupted restore leaves is not served
        async for found, seals in self._objects(ranges):
            for seal in seals:
                self._follow(seal)
            entries = self._entries
            for name, part in found.tenants.items():
                await self._apply(name, part)
            await write_index(self._client, found, entries=self._entries - entries)
        faults = [fault for tenant in self._tenants.values() for fault in tenant.replay.faults]
        if faults:
            raise LedgerNotTrusted(f"The archive has a fault: {faults[0]}.")
        holds, lost = 0, 0
        for name, tenant in self._tenants.items():
            spent, unknown = await self._write_tenant(name, tenant)
            holds, lost = holds + spent, lost + unknown
        await self._write_chain(ranges)
        await self._flush()
        await self._client.call("SET", names.LEDGER_ID_KEY, self._store.ledger)
        return RestoreReport(self._last.n, len(self._tenants), self._entries, holds, lost)

    async def _check_empty(self) -> None:
        for key in (names.LEDGER_ID_KEY, names.TENANTS_KEY, names.SEAL_CHAIN_KEY):
            if await self._client.call("EXISTS", key):
                raise LedgerUnavailable("Redis has a ledger, or a part of one. A restore needs an empty Redis.")

    async def _ranges(self) -> list[tuple[int, int]]:
        """Return the objects that have every seal: of those with the next one, that which reaches furthest."""
        found = [one async for one in self._store.ranges()]
        chosen: list[tuple[int, int]] = []
        wanted = 1
        while with_it := [one for one in found if one[0] <= wanted <= one[1]]:
            chosen.append(max(with_it, key=lambda one: one[1]))
            wanted = chosen[-1][1] + 1
        if any(last >= wanted for _, last in found):
            raise LedgerNotTrusted(f"The archive has a fault: no object has seal {wanted}, and later ones exist.")
        return chosen

    async def _objects(self, ranges: list[tuple[int, int]]) -> AsyncIterator[tuple[ArchiveObject, list[Seal]]]:
        for first, last in ranges:
            try:
                found = await self._store.read(first, last)
                yield found, await asyncio.to_thread(found.checked_seals, self._master_key)
            except (BlobMissing, BlobCorrupt):
                raise LedgerNotTrusted(
                    f"The archive has a fault: the object with the seals {first} to {last} is not the one that was "
                    "written."
                ) from None

    def _follow(self, seal: Seal) -> None:
        """Continue the chain and the heads with the next seal. A seal that an object repeats is left out."""
        if seal.id.n <= self._last.n:
            return
        if seal.previous != self._last:
            raise LedgerNotTrusted(f"The archive has a fault: seal {seal.id.n} does not follow seal {self._last.n}.")
        for segment in seal.segments:
            before = self._heads.get(segment.tenant, Head(0, 0))
            if segment.first != before.last + 1:
                raise LedgerNotTrusted(f"The archive has a fault: seal {seal.id.n} begins at entry {segment.first}.")
            self._heads[segment.tenant] = Head(segment.last, seal.id.n)
        if seal.heads != heads_digest(self._heads):
            raise LedgerNotTrusted(f"The list of sealed tenants does not match seal {seal.id.n} of the archive.")
        self._last = seal.id

    async def _apply(self, name: str, part: TenantPart) -> None:
        """Apply a tenant's entries, and write the index of those that have rows of subjects."""
        tenant = self._tenants.setdefault(name, _Tenant(JournalReplay(name)))
        tenant.record = part.record
        for batch in part.batches(tenant.replay.last_seq + 1, part.last):
            for raw in batch:
                number = entry_number(raw)
                for subject in tenant.apply(raw):
                    await self._write("ZADD", names.subject_entries_key(name, subject), number, number)
                self._entries += 1

    async def _write_entry(self, tenant: str, number: int, fields: Mapping[bytes, bytes]) -> None:
        flat = [part for pair in fields.items() for part in pair]
        await self._write("XADD", names.journal_key(tenant), f"{number}-0", *flat)

    async def _write_tenant(self, name: str, tenant: _Tenant) -> tuple[int, int]:
        """Write accounts and the record. Returns how many holds were spent, and how many with unknown amounts."""
        seq, lost = tenant.replay.last_seq, 0
        await self._write_entry(name, seq, tenant.last[1])
        for fields in tenant.open_holds.values():
            seq += 1
            lost += bool(fields.get(b"subjects"))
            at_ms = tenant.last[1][b"at_ms"]
            ended = {**fields, b"transition": b"expire", b"reason": RESTORED.encode(), b"at_ms": at_ms}
            await self._write_entry(name, seq, ended)
        for key, counters in tenant.replay.counters.items():
            await self._write_account(name, tenant, key, counters)
        flat = [part for pair in tenant.record["tenant"].items() for part in pair]
        await self._write("HSET", names.tenant_key(name), *flat, "seq", seq, "holds", 0)
        for unit, current in tenant.record["current"].items():
            await self._write("HSET", names.account_key(name, unit), "current", current)
        await self._write("SADD", names.TENANTS_KEY, name)
        return len(tenant.open_holds), lost

    async def _write_account(self, tenant: str, found: _Tenant, key: Key, counters: Mapping[str, Any]) -> None:
        unit, subject = key
        _, _, _, adjacency, guarantee, orders, plan, *divisions = found.terms[key]
        account = f"{unit}:{subject}" if subject else unit
        nothing = msgpack.packb([0] * len(counters["limit"]))
        values: dict[str, str | bytes] = {
            "unit": unit,
            "subject_hash": subject,
            "adjacency": adjacency,
            "guarantee": guarantee,
            "orders": orders,
            "plan": plan,
            "limit": msgpack.packb(list(counters["limit"])),
            "committed": msgpack.packb(list(plus(counters["committed"], counters["held"]))),
            "held": nothing,
            "created_ms": found.created[key],
            "pending": "",
            # the sums over the history are unknown: estimates of this account show none
            "loss_x": msgpack.packb([]),
            "loss_y": msgpack.packb([]),
            "pure_epsilon": "0",
        }
        if divisions and divisions[0]:
            values["divisions"] = msgpack.packb(divisions[0])
        flat = [part for pair in values.items() for part in pair]
        await self._write("HSET", names.account_key(tenant, account), *flat)
        await self._write("ZADD", names.accounts_key(tenant), 0, account)

    async def _write_chain(self, ranges: list[tuple[int, int]]) -> None:
        """Write the heads, and the seals since the oldest of the tenants' last ones."""
        first = min([self._last.n, *(head.n for head in self._heads.values())])
        written = first - 1
        async for _, seals in self._objects([one for one in ranges if one[1] >= first]):
            for seal in seals:
                if seal.id.n > written:
                    await self._write(
                        "XADD", names.SEAL_CHAIN_KEY, f"{seal.id.n}-0", "body", seal.body, "mac", seal.id.mac
                    )
                    written = seal.id.n
        for tenant, head in self._heads.items():
            await self._write("HSET", names.SEAL_HEADS_KEY, tenant, head.text)
        await self._write("SET", names.ARCHIVE_TRIMMED_KEY, ranges[-1][1])

    def _write_epoch(self, last: int) -> None:
        """Write an epoch that the restored chain does not have, so that every start waits for `accept-restore`."""
        epoch = self._epoch_file.read()
        if epoch is not None and epoch.ledger != self._store.ledger:
            raise LedgerUnavailable("The epoch file belongs to another ledger. Set EPOCH_FILE to the right one.")
        seen = max(epoch.seal.n if epoch else 0, last)
        self._epoch_file.write(Epoch(self._store.ledger, SealId(seen + 1, secrets.token_hex(32))))

    async def _write(self, *command: str | bytes | int) -> None:
        self._commands.append([part if isinstance(part, bytes) else str(part) for part in command])
        if len(self._commands) >= _WRITES:
            await self._flush()

    async def _flush(self) -> None:
        commands, self._commands = self._commands, []
        await self._client.call_many(commands)
