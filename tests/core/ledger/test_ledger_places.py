"""Where an entry of the journal is: its seal, its digest, and its place in pages by time, subject and order."""

from __future__ import annotations

import pytest
from ledger_kit import MASTER_KEY, charge, journal_pages, limits, released

from core.ledger.hash_chain.sealer import Sealer
from core.ledger.journal_pages import JournalFilter
from core.ledger.ledger import Ledger

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
