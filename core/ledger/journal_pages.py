"""Pages of the journal. The work for a page depends on the page, not on the length of the journal or of its entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from core.accounting.events import Unit
from core.ledger import names, wire
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import RawEntry
from core.ledger.records import JournalEntry, JournalPage

_READS_MAX = 10_000  # entries read for one page, most of which a filter may leave out
_BATCH_MIN, _BATCH_MAX = 8, 1000
_BATCH_ROWS = 2000  # wanted in a batch: one entry may have thousands of rows


class JournalEntries:
    """The entries of one account, or all of a tenant (`account_id` None), and of one API key, if `key_id` is given.

    `subject` is the hash of the account's subject. The journal has an index of each subject's entries, so a page of its
    account reads no others. An account that version 1 opened is not in the index: its page filters all entries.
    """

    def __init__(
        self, client: LedgerClient, tenant: str, account_id: str | None, subject: str | None, key_id: str | None
    ) -> None:
        self._client = client
        self._tenant = tenant
        self._account_id = account_id
        self._subject = subject
        self._key_id = key_id
        self._batch = 32

    async def page(self, *, cursor: int, limit: int, rows_max: int) -> JournalPage:
        """Return up to `limit` entries after `cursor`. Stops after the batch in which `rows_max` rows were read."""
        found: list[JournalEntry] = []
        rows = reads = 0
        async for batch in self._batches(cursor):
            entries = await asyncio.to_thread(self._parsed, batch)
            for raw, entry in zip(batch, entries, strict=True):
                if entry is not None and len(found) == limit:
                    return JournalPage(tuple(found), cursor)
                cursor = _number(raw)
                if entry is not None:
                    found.append(entry)
            reads += len(batch)
            batch_rows = sum(map(_rows, batch))
            rows += batch_rows
            if rows >= rows_max or reads >= _READS_MAX:
                return JournalPage(tuple(found), cursor)
            per_entry = 1 + batch_rows // len(batch)
            self._batch = max(_BATCH_MIN, min(_BATCH_MAX, _BATCH_ROWS // per_entry, 2 * self._batch))
        return JournalPage(tuple(found), None)

    async def _batches(self, cursor: int) -> AsyncIterator[Sequence[RawEntry]]:
        indexed = self._subject is not None and await self._is_indexed()
        while batch := await (self._of_subject(cursor) if indexed else self._all(cursor)):
            yield batch
            cursor = _number(batch[-1])

    async def _is_indexed(self) -> bool:
        unit = Unit((self._account_id or "").split("/")[1])
        key = names.account_key(self._tenant, names.account_name(unit, self._subject))
        return bool(await self._client.call("HGET", key, "indexed"))

    async def _all(self, cursor: int) -> Sequence[RawEntry]:
        key = names.journal_key(self._tenant)
        found: Sequence[RawEntry] = await self._client.call("XRANGE", key, cursor + 1, "+", "COUNT", self._batch)
        return found

    async def _of_subject(self, cursor: int) -> Sequence[RawEntry]:
        index = names.subject_entries_key(self._tenant, self._subject or "")
        numbers = await self._client.call("ZRANGEBYSCORE", index, f"({cursor}", "+inf", "LIMIT", 0, self._batch)
        key = names.journal_key(self._tenant)
        found = await self._client.call_many([("XRANGE", key, number, number) for number in numbers])
        return [raw for entries in found for raw in entries]

    def _parsed(self, batch: Sequence[RawEntry]) -> list[JournalEntry | None]:
        """Parse the entries that the page shows; None for the others."""
        return [self._entry(raw) for raw in batch]

    def _entry(self, raw: RawEntry) -> JournalEntry | None:
        if self._key_id is not None and raw[1].get(b"key", b"").decode() != self._key_id:
            return None
        own = self._account_id is not None and self._subject is None
        entry = wire.journal_entry(self._tenant, raw, subjects=not own)
        shown = self._account_id is None or any(line.account == self._account_id for line in entry.all_amounts)
        return entry if shown else None


def _number(raw: RawEntry) -> int:
    return int(raw[0].partition(b"-")[0])


def _rows(raw: RawEntry) -> int:
    """Return the number of rows of an entry without parsing it: a row starts after the end of another."""
    return sum(1 + raw[1].get(field, b"").count(b'],["') for field in (b"amounts", b"subjects"))
