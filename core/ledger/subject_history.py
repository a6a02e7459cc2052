"""What was spent on one subject's account, newest first, from the journal's index of the subject's entries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from core.amounts import Amount
from core.ledger import names
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.pages import readable_entry
from core.ledger.records import AccountState, JournalEntry

_BATCH = 250


@dataclass(frozen=True)
class Spent:
    """One release that was spent on an account."""

    entry: JournalEntry
    amount: Amount


@dataclass(frozen=True)
class SubjectHistory:
    """The newest releases of an account, the newest first. `complete`: none in the range is left out."""

    releases: tuple[Spent, ...]
    complete: bool


async def subject_history(
    client: LedgerClient, tenant: str, state: AccountState, *, from_ms: int, entries_max: int
) -> SubjectHistory:
    """Return what was spent on a subject's account since `from_ms`. Reads up to `entries_max` of its entries.

    The journal has no index of an account that version 1 of the ledger opened: its history is empty and not complete.
    """
    subject = state.subject_hash or ""
    account = names.account_key(tenant, names.account_name(state.unit, subject))
    if not await client.call("HGET", account, "indexed"):
        return SubjectHistory((), complete=False)
    found: list[Spent] = []
    before, read = "+inf", 0
    while read < entries_max:
        count = min(_BATCH, entries_max - read)
        index = names.subject_entries_key(tenant, subject)
        numbers = await client.call("ZREVRANGEBYSCORE", index, before, "-inf", "LIMIT", 0, count)
        journal = names.journal_key(tenant)
        batch = await client.call_many([("XRANGE", journal, number, number) for number in numbers])
        raw = [entry for entries in batch for entry in entries]
        for entry in await asyncio.to_thread(_parsed, tenant, raw):
            if entry is not None and entry.at_ms < from_ms:
                return SubjectHistory(tuple(found), complete=True)
            if entry is not None and entry.transition in ("commit", "expire"):
                found += [
                    Spent(entry, line.amount)
                    for line in entry.all_amounts
                    if line.unit is state.unit and line.subject_hash == subject
                ]
        if len(numbers) < count:
            return SubjectHistory(tuple(found), complete=True)
        read += len(numbers)
        before = f"({numbers[-1].decode()}"
    return SubjectHistory(tuple(found), complete=False)


def _parsed(tenant: str, raw: Sequence[RawEntry]) -> list[JournalEntry | None]:
    return [readable_entry(tenant, one) for one in raw]
