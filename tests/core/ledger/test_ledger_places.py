"""Where an entry of the journal is: its seal, and its place in pages by time, subject and order.

A page costs its own rows, is limited in rows, and no reader of the journal blocks the event loop.
"""

import threading

import pytest
from ledger_kit import MASTER_KEY, charge, journal_pages, limits, released

from core.accounting.events import Unit
from core.ledger import reader
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.reader import JournalFilter
from core.ledger.transitions import Ledger

SUBJECTS = 200  # each with two rows
DAY_MS = 86_400_000
START_MS = 40_000 * DAY_MS  # the fixture opens the tenant by the clock of Redis, which is earlier


@pytest.fixture
def sealer(go, ledger, client, tmp_path):
    go(ledger.open_tenant("acme", limits=limits(100)))
    sealer = Sealer(client, MASTER_KEY, tmp_path / "epoch")
    go(sealer.check())
    return sealer


def test_each_entry_has_the_seal_that_contains_it(go, ledger, client, sealer) -> None:
    first = go(sealer.seal())
    released(go, ledger, [charge(1)])
    go(ledger.open_tenant("other", limits=limits(100)))
    second = go(sealer.seal())
    released(go, ledger, [charge(1)], tenant="other")
    go(sealer.seal())
    released(go, ledger, [charge(1)])
    third = go(sealer.seal())
    released(go, ledger, [charge(1)])
    expected = {1: first, 2: second, 3: second, 4: third, 5: third, 6: None, 7: None}
    assert go(ledger.seals_of("acme", list(expected))) == expected
    assert go(ledger.seals_of("acme", [3])) == {3: second}
    assert go(ledger.seals_of("acme", [7, 2])) == {7: None, 2: second}
    assert go(ledger.seals_of("acme", [])) == {}


def test_pages_by_time_and_in_reverse(go, ledger, client, sealer) -> None:
    def numbers(*, limit=2, **query):
        pages = journal_pages(go, ledger, "acme", "acme/sentence", limit=limit, **query)
        return [entry.seq for page in pages for entry in page]

    now = [START_MS]
    timed = Ledger(client, MASTER_KEY, clock=lambda: now[0])
    for day in range(6):
        now[0] = START_MS + day * DAY_MS
        released(go, timed, [charge(1)])
    every = list(range(1, 14))
    assert numbers() == every
    assert numbers(newest_first=True) == every[::-1]
    assert numbers(last=5) == [1, 2, 3, 4, 5]
    assert numbers(last=5, newest_first=True) == [5, 4, 3, 2, 1]
    two_days = JournalFilter(from_ms=START_MS + DAY_MS, to_ms=START_MS + 3 * DAY_MS)
    assert numbers(wanted=two_days) == [4, 5, 6, 7]
    assert numbers(wanted=two_days, newest_first=True, limit=3) == [7, 6, 5, 4]
    assert numbers(wanted=JournalFilter(to_ms=START_MS)) == [1]
    assert numbers(wanted=JournalFilter(from_ms=START_MS + 5 * DAY_MS + 1)) == []
    commits = JournalFilter(transition="commit", from_ms=START_MS + 4 * DAY_MS)
    assert numbers(wanted=commits, limit=1) == [11, 13]


@pytest.fixture
def clinic(go, ledger):
    go(ledger.open_tenant("clinic", limits=limits(1_000_000), subject_limits=limits(1000)))
    return ledger


@pytest.fixture
def parsing(monkeypatch):
    """The entries that were parsed, each with the thread that did it and the rows of subjects that it gave."""
    seen = []
    parse = reader.journal_entry

    def spy(tenant, raw, **options):
        entry = parse(tenant, raw, **options)
        seen.append((entry.seq, threading.current_thread(), len(entry.subjects)))
        return entry

    monkeypatch.setattr(reader, "journal_entry", spy)
    return seen


def visited(go, ledger, subjects, *, how="commit", unit=Unit.SENTENCE):
    charges = [charge(1, unit=unit, subject=f"person-{n}") for n in subjects]
    return released(go, ledger, charges, how=how, tenant="clinic").accounts[0].account


def test_a_page_of_a_subject_reads_the_entries_of_that_subject_alone(go, clinic, parsing):
    account, other = (visited(go, clinic, [subject]) for subject in (0, 1))
    for number in range(5):
        visited(go, clinic, range(1, SUBJECTS))
        visited(go, clinic, [0, 1], how=("commit", "expire", "cancel")[number % 3])
    visited(go, clinic, [0], unit=Unit.TOKEN)
    parsing.clear()
    (entries,) = journal_pages(go, clinic, "clinic", account)
    assert [entry.transition for entry in entries] == ["open", "commit", "commit", "expire", "commit", "expire"]
    of_token_account = {seq for seq, _, _ in parsing} - {entry.seq for entry in entries}
    assert len(of_token_account) == 1
    (of_other,) = journal_pages(go, clinic, "clinic", other)  # of each entry, one of the two is the first subject
    assert [entry.transition for entry in of_other][2:] == [
        *("commit", "commit", "commit", "expire", "commit"),
        *("commit", "commit", "commit", "expire"),
    ]
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
