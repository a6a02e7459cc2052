"""Rebuilds a ledger in an empty Redis from the archive alone.

Guarantee: every archived entry counts. The accounts are the sums of the archived entries, and each hold that was open
at their end is spent. Before the first write, the epoch file names a later seal than Redis will have, so that no
gateway starts before an operator has accepted the restored state: what was released after the last archived entry is
not in it.

The restored chain ends with the newest seal all of whose entries are archived. Archived entries after it are not sealed
yet. Not restored: API keys, jobs, stored answers and idempotency keys, kept conversations, the log of administrative
actions, alerts, the entries of packs, models and artifacts (the keys of their files are in Redis alone), what open
holds debited from subjects' accounts (`RestoreReport.lost_subject_holds`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgpack
import orjson

from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger import names
from core.ledger.archive.standalone import ArchivedHistory
from core.ledger.archive.store import ArchiveStore
from core.ledger.client import LedgerClient
from core.ledger.counters import plus
from core.ledger.hash_chain.archived import CHAIN, ArchivedRange
from core.ledger.hash_chain.chain import Head, RawEntry, Seal, SealId, Segment, heads_digest
from core.ledger.hash_chain.epoch import Epoch, EpochFile
from core.ledger.hash_chain.replay import JournalReplay, Key
from core.ledger.hash_chain.verify_history import Entries
from core.ledger.keys import MasterKey
from core.ledger.pages import entry_number, readable_entry

_WRITES = 200  # commands that are sent at a time
RESTORED = "restored"  # the reason in the entries that spend the open holds


@dataclass(frozen=True)
class RestoreReport:
    """What was restored. `later` has, by tenant, how many sealed entries the archive does not have: they are lost.

    `spent_holds` counts the open holds that were spent, and `lost_subject_holds` those of them whose amounts on
    subjects' accounts are unknown.
    """

    seal: int
    tenants: int
    entries: int
    spent_holds: int
    lost_subject_holds: int
    later: Mapping[str, int]


@dataclass
class _Tenant:
    """What the archived entries of one tenant say."""

    replay: JournalReplay
    terms: dict[Key, list[Any]] = field(default_factory=dict)
    created: dict[Key, bytes] = field(default_factory=dict)
    open_holds: dict[bytes, Mapping[bytes, bytes]] = field(default_factory=dict)
    at_ms: bytes = b"0"

    def apply(self, raw: RawEntry) -> set[str]:
        """Apply an entry. Returns the subjects that have rows in it. Raises LedgerNotTrusted."""
        entry = readable_entry(self.replay.tenant, raw)
        if entry is None:
            raise LedgerNotTrusted(f"Entry {entry_number(raw)} of {self.replay.tenant} was not written by the ledger.")
        self.replay.apply(entry)
        fields = raw[1]
        self.at_ms = fields[b"at_ms"]
        if entry.transition == "open":
            for name in (b"amounts", b"subjects"):
                for row in orjson.loads(fields.get(name) or b"[]"):
                    self.terms[row[0], row[1]] = row
                    self.created[row[0], row[1]] = self.at_ms
        elif entry.transition == "reserve":
            self.open_holds[fields[b"release"]] = fields
        elif entry.transition in ("commit", "cancel", "expire"):
            self.open_holds.pop(fields[b"release"], None)
        return {line.subject_hash for line in entry.all_amounts if line.subject_hash}


class Restore:
    """Writes into a Redis without a ledger. A restore that was interrupted starts again from an empty Redis.

    Raises LedgerUnavailable if Redis has a ledger, LedgerNotTrusted if the archive has a fault, StoreUnavailable.
    """

    def __init__(self, client: LedgerClient, master_key: MasterKey, store: ArchiveStore, epoch_file: Path) -> None:
        self._client = client
        self._store = store
        self._epoch_file = EpochFile(epoch_file)
        self._history = ArchivedHistory(store, master_key)
        self._tenants: dict[str, _Tenant] = {}
        self._heads: dict[str, Head] = {}
        self._seal: Seal | None = None  # the newest one all of whose entries are archived
        self._ranges: list[ArchivedRange] = []
        self._segments: list[tuple[int, Segment]] = []
        self._commands: list[list[str | bytes]] = []
        self._entries = 0

    async def run(self) -> RestoreReport:
        """Check the archive, then write everything: first the epoch, last the id of the ledger."""
        await self._check_empty()
        history = self._history
        await history.open()
        await self._find_seal()
        self._check_faults()
        if self._seal is None:
            raise LedgerUnavailable("The archive has no seal all of whose entries are archived.")
        self._write_epoch()  # before the first data: what an interrupted restore leaves is not served
        async for event in history.events():
            if isinstance(event, Entries):
                await self._apply(event)
        self._check_faults()
        holds, lost = 0, 0
        for name, tenant in self._tenants.items():
            spent, unknown = await self._write_tenant(name, tenant)
            holds, lost = holds + spent, lost + unknown
        await self._write_chain(self._seal)
        await self._flush()
        await self._client.call("SET", names.LEDGER_ID_KEY, self._store.ledger)
        later = {
            tenant: sealed - history.archived.get(tenant, 0)
            for tenant, sealed in sorted(history.sealed.items())
            if sealed > history.archived.get(tenant, 0)
        }
        return RestoreReport(self._seal.id.n, len(self._tenants), self._entries, holds, lost, later)

    def _check_faults(self) -> None:
        history = self._history
        faults = [*history.chain_faults, *(fault for found in history.tenant_faults.values() for fault in found)]
        faults += [fault for tenant in self._tenants.values() for fault in tenant.replay.faults]
        if faults:
            raise LedgerNotTrusted(f"The archive has a fault: {faults[0]}.")

    async def _check_empty(self) -> None:
        for key in (names.LEDGER_ID_KEY, names.TENANTS_KEY, names.SEAL_CHAIN_KEY):
            if await self._client.call("EXISTS", key):
                raise LedgerUnavailable("Redis has a ledger, or a part of one. A restore needs an empty Redis.")

    async def _find_seal(self) -> None:
        """Find the newest seal that the archive explains, with the heads and ranges of that time."""
        heads = self._heads
        async for seal in self._history.each_seal():
            if any(one.last > self._history.archived.get(one.tenant, 0) for one in seal.segments):
                return
            for segment in seal.segments:
                before = heads.get(segment.tenant)
                heads[segment.tenant] = Head(segment.last, seal.id.n, before.archived if before else 0)
                self._segments.append((seal.id.n, segment))
            for range_ in seal.archived.ranges:
                self._ranges.append(range_)
                if range_.stream != CHAIN:
                    heads[range_.stream] = replace(heads[range_.stream], archived=range_.last)
            if seal.heads != heads_digest(heads):
                raise LedgerNotTrusted(f"The list of sealed tenants does not match seal {seal.id.n} of the archive.")
            self._seal = seal

    async def _apply(self, event: Entries) -> None:
        """Apply entries, and write those that Redis must have: all that the restored chain does not call archived."""
        tenant = self._tenants.setdefault(event.tenant, _Tenant(JournalReplay(event.tenant)))
        head = self._heads.get(event.tenant, Head(0, 0))
        kept_from = min(head.archived + 1, head.last) if head.last else 1
        for raw in event.raw:
            number = entry_number(raw)
            for subject in tenant.apply(raw):
                await self._write("ZADD", names.subject_entries_key(event.tenant, subject), number, number)
            if number >= kept_from:
                await self._write_entry(event.tenant, number, raw[1])
            self._entries += 1

    async def _write_entry(self, tenant: str, number: int, fields: Mapping[bytes, bytes]) -> None:
        flat = [part for pair in fields.items() for part in pair]
        await self._write("XADD", names.journal_key(tenant), f"{number}-0", *flat)

    async def _write_tenant(self, name: str, tenant: _Tenant) -> tuple[int, int]:
        """Write accounts and the record. Returns how many holds were spent, and how many with unknown amounts."""
        seq, lost = tenant.replay.last_seq, 0
        for fields in tenant.open_holds.values():
            seq += 1
            digest = fields.get(b"subjects", b"")
            lost += bool(digest)
            ended = {**fields, b"transition": b"expire", b"reason": RESTORED.encode(), b"at_ms": tenant.at_ms}
            await self._write_entry(name, seq, ended)
        for key, counters in tenant.replay.counters.items():
            await self._write_account(name, tenant, key, counters)
        record = self._history.records[name]
        flat = [part for pair in record["tenant"].items() for part in pair]
        await self._write("HSET", names.tenant_key(name), *flat, "seq", seq, "holds", 0)
        for unit, current in record["current"].items():
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
        if subject:
            values["indexed"] = "1"
        flat = [part for pair in values.items() for part in pair]
        await self._write("HSET", names.account_key(tenant, account), *flat)
        await self._write("ZADD", names.accounts_key(tenant), 0, account)

    async def _write_chain(self, last: Seal) -> None:
        """Write the seals that are not recorded as archived, and all since the oldest of the tenants' last ones."""
        first = min([last.archived.chain.n + 1, last.id.n, *(head.n for head in self._heads.values())])
        async for seal in self._history.each_seal(first=first):
            if seal.id.n <= last.id.n:
                await self._write("XADD", names.SEAL_CHAIN_KEY, f"{seal.id.n}-0", "body", seal.body, "mac", seal.id.mac)
        for tenant, head in self._heads.items():
            await self._write("HSET", names.SEAL_HEADS_KEY, tenant, head.text)
        for range_ in self._ranges:
            await self._write("ZADD", names.archive_index_key(range_.stream), range_.last, range_.index_row)
        for n, segment in self._segments:
            if segment.last > self._heads[segment.tenant].archived and segment.is_new:
                row = f"{n}:{segment.first}:{segment.last}"
                await self._write("ZADD", names.segments_key(segment.tenant), segment.last, row)

    def _write_epoch(self) -> None:
        """Write an epoch that the restored chain does not have, so that every start waits for `accept-restore`."""
        epoch = self._epoch_file.read()
        if epoch is not None and epoch.ledger != self._store.ledger:
            raise LedgerUnavailable("The epoch file belongs to another ledger. Set EPOCH_FILE to the right one.")
        seen = max(epoch.seal.n if epoch else 0, self._history.last.n)
        self._epoch_file.write(Epoch(self._store.ledger, SealId(seen + 1, secrets.token_hex(32))))

    async def _write(self, *command: str | bytes | int) -> None:
        self._commands.append([part if isinstance(part, bytes) else str(part) for part in command])
        if len(self._commands) >= _WRITES:
            await self._flush()

    async def _flush(self) -> None:
        commands, self._commands = self._commands, []
        packed = msgpack.packb(commands, use_bin_type=False)
        args = {"ledger_key": names.LEDGER_ID_KEY}
        found, _ = await self._client.run("restore", key=names.SEAL_CHAIN_KEY, args=args, blob=packed)
        if found["outcome"] != "written":
            raise LedgerUnavailable("Redis has a ledger. A restore needs an empty Redis.")
