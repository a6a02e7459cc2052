"""Exports the ledger as JSON lines for auditors: entries, seals, a summary. Format: docs/reference/ledger-export.md."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from core.amounts import FEMTO, NANO
from core.errors import UnknownTenant
from core.ledger.hash_chain.audit import Entries, HistoryArchive, SealedHistory, SegmentEnd
from core.ledger.hash_chain.chain import RawEntry, Seal
from core.ledger.hash_chain.epoch import EpochFile
from core.ledger.pages import entry_number, readable_entry
from core.ledger.records import EntryAmount
from core.master_key import MasterKey
from core.redis import names
from core.redis.client import LedgerClient

FAULTS_MAX = 1000


async def export_ledger(
    client: LedgerClient,
    master_key: MasterKey,
    epoch_file: Path,
    *,
    tenant: str | None = None,
    archive: HistoryArchive | None = None,
) -> AsyncIterator[dict[str, Any]]:
    """Yield one object for each line, the summary last, for one `tenant` or for all. Memory is linear in the tenants.

    The summary's `ok` states that every seal is genuine and that every sealed entry is unchanged. The export does not
    recompute the accounts; the audit does. Raises UnknownTenant, InvalidInput for an invalid name.
    """
    if tenant is not None and not await client.call("EXISTS", names.tenant_key(tenant)):
        raise UnknownTenant
    history = SealedHistory(client, master_key, EpochFile(epoch_file), only=tenant, archive=archive)
    writer = _Writer(history)
    ends: list[SegmentEnd] = []
    async for event in history.sealed():
        if isinstance(event, Entries):
            for raw in event.raw:
                yield writer.entry(event.tenant, raw)
        elif isinstance(event, SegmentEnd):
            ends.append(event)
        elif ends or tenant is None:
            yield _seal(event, ends, whole=tenant is None)
            ends = []
    listed = {name.decode() for name in await client.call("SMEMBERS", names.TENANTS_KEY)}
    for name in sorted(listed) if tenant is None else [tenant]:
        async for entries in history.unsealed(name):
            for raw in entries.raw:
                yield writer.entry(name, raw)
    faults = [
        *history.chain_faults,
        *(f"{name}: {fault}" for name, found in sorted(history.tenant_faults.items()) for fault in found),
    ]
    yield {
        "type": "summary",
        "entries": writer.entries,
        "seals": history.seals,
        "ok": not faults,
        "faults": faults[:FAULTS_MAX],
    }


class _Writer:
    """Converts entries and detects missing ones."""

    def __init__(self, history: SealedHistory) -> None:
        self.entries = 0
        self._history = history
        self._last: dict[str, int] = {}

    def entry(self, tenant: str, raw: RawEntry) -> dict[str, Any]:
        self.entries += 1
        seq, expected = entry_number(raw), self._last.get(tenant, 0) + 1
        self._last[tenant] = seq
        if seq != expected:
            self._history.fault_of(tenant, f"found entry {seq} in place of entry {expected}")
        entry = readable_entry(tenant, raw)
        if entry is None:
            self._history.fault_of(tenant, f"entry {seq} was not written by the ledger")
        return {
            "type": "entry",
            "tenant": tenant,
            "seq": seq,
            "amounts": None if entry is None else [_amount(amount) for amount in entry.all_amounts],
            "stored": {"id": _text(raw[0]), "fields": {_text(name): _text(value) for name, value in raw[1].items()}},
        }


def _amount(amount: EntryAmount) -> dict[str, Any]:
    return {
        "account": amount.account,
        "unit": amount.unit.value,
        "subject_hash": amount.subject_hash,
        "epsilon": decimal_text(amount.amount.epsilon_nano, NANO),
        "delta": decimal_text(amount.amount.delta_femto, FEMTO),
        "vector": amount.vector,
    }


def _seal(seal: Seal, ends: list[SegmentEnd], *, whole: bool) -> dict[str, Any]:
    """Convert a seal. `whole` adds the exact text under the MAC.

    That text names every tenant, so the export of one tenant omits it.
    """
    return {
        "type": "seal",
        "n": seal.id.n,
        "at_ms": seal.at_ms,
        "mac": seal.id.mac,
        "segments": [
            {
                "tenant": end.segment.tenant,
                "first": end.segment.first,
                "last": end.segment.last,
                "sha256": end.segment.digest,
                "matches": end.genuine,
            }
            for end in ends
        ],
        **({"body": seal.body.decode()} if whole else {}),
    }


def decimal_text(number: int, unit: int) -> str | None:
    """Return an amount exactly, without an exponent: 1500000000 nano is "1.5". None for a limit that is not offered."""
    if number < 0:
        return None
    whole, part = divmod(number, unit)
    digits = f"{part:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _text(stored: bytes) -> str:
    return stored.decode(errors="backslashreplace")
