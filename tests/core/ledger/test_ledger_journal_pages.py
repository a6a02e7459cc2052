"""A page of the journal costs its own rows, is limited in rows, and no reader of the journal blocks the event loop."""

from __future__ import annotations

import threading

import pytest
from ledger_kit import charge, journal_pages, limits, released

from core.accounting.events import Unit
from core.ledger import wire

SUBJECTS = 200  # each with two rows


@pytest.fixture
def clinic(go, ledger):
    go(ledger.open_tenant("clinic", limits=limits(1_000_000), subject_limits=limits(1000)))
    return ledger


@pytest.fixture
def parsing(monkeypatch):
    """The entries that were parsed, each with the thread that did it and the rows of subjects that it gave."""
    seen = []
    parse = wire.journal_entry

    def spy(tenant, raw, **options):
        entry = parse(tenant, raw, **options)
        seen.append((entry.seq, threading.current_thread(), len(entry.subjects)))
        return entry

    monkeypatch.setattr(wire, "journal_entry", spy)
    return seen


def visited(go, ledger, subjects, *, how="commit", unit=Unit.SENTENCE):
    charges = [charge(1, unit=unit, subject=f"person-{n}") for n in subjects]
    return released(go, ledger, charges, how=how, tenant="clinic").accounts[0].account


def test_a_page_of_a_subject_reads_the_entries_of_that_subject_alone(go, clinic, parsing):
    account = visited(go, clinic, [0])
    for number in range(5):
        visited(go, clinic, range(1, SUBJECTS))
        visited(go, clinic, [0, 1], how=("commit", "expire", "cancel")[number % 3])
    visited(go, clinic, [0], unit=Unit.TOKEN)
    parsing.clear()
    (entries,) = journal_pages(go, clinic, "clinic", account)
    assert [entry.transition for entry in entries] == ["open", "commit", "commit", "expire", "commit", "expire"]
    assert len(parsing) == len(entries) + 1  # one entry of the subject debits its token account alone
    both = journal_pages(go, clinic, "clinic", account, limit=2)
    assert [len(page) for page in both] == [2, 2, 2]
    assert sum(both, ()) == entries
    assert all(thread is not threading.main_thread() for _, thread, _ in parsing)


def test_a_page_is_limited_in_rows_and_its_cursor_continues(go, clinic, parsing):
    for _ in range(30):
        visited(go, clinic, range(SUBJECTS))
    everything = go(clinic.journal("clinic", limit=1000, rows_max=10**9))
    assert everything.next_cursor is None
    assert sum(len(entry.all_amounts) for entry in everything.entries) > 30 * 2 * SUBJECTS
    parsing.clear()
    first = go(clinic.journal("clinic", limit=1000, rows_max=500))
    assert first.next_cursor is not None
    assert len(parsing) <= 32 < len(everything.entries)
    assert sum(journal_pages(go, clinic, "clinic", limit=1000, rows_max=500), ()) == everything.entries
    own = sum(journal_pages(go, clinic, "clinic", "clinic/token", limit=1000, rows_max=500), ())
    assert [entry.seq for entry in own] == [
        entry.seq for entry in everything.entries if any(line.account == "clinic/token" for line in entry.amounts)
    ]


def test_a_filter_that_finds_nothing_ends(go, clinic):
    for _ in range(20):
        visited(go, clinic, range(3))
    pages = journal_pages(go, clinic, "clinic", "clinic/token", key_id="a" * 16, rows_max=1)
    assert sum(pages, ()) == ()
    assert len(pages) > 1
