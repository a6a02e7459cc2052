"""What was spent on one subject's account, newest first, from the journal's index of the subject's entries."""

from __future__ import annotations

from dataclasses import dataclass

from core.amounts import Amount
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.counters import COUNT
from core.ledger.journal_pages import JournalEntries, JournalView
from core.ledger.records import AccountState, JournalEntry


@dataclass(frozen=True)
class Spent:
    """One release that was spent on an account: its cost, and how often the account counts it, once for a document."""

    entry: JournalEntry
    amount: Amount
    count: int


@dataclass(frozen=True)
class SubjectHistory:
    """The newest releases of an account, the newest first. `complete`: none in the range is left out.

    `rows_read` are the charges of accounts in the entries that were read for it.
    """

    releases: tuple[Spent, ...]
    complete: bool
    rows_read: int


async def subject_history(
    client: LedgerClient,
    tenant: str,
    state: AccountState,
    *,
    first: int,
    rows_max: int,
    archive: LedgerArchive | None = None,
) -> SubjectHistory:
    """Return what was spent on a subject's account since the entry `first`. Reads about `rows_max` charges."""
    view = JournalView(state.account, state.subject_hash, newest_first=True, first=first)
    page = await JournalEntries(client, tenant, view, archive).page(cursor=0, limit=rows_max, rows_max=rows_max)
    releases = [
        Spent(entry, line.amount, line.vector[COUNT])
        for entry in page.entries
        if entry.transition in ("commit", "expire")
        for line in entry.all_amounts
        if line.account == state.account
    ]
    return SubjectHistory(tuple(releases), page.next_cursor is None, page.rows_read)
