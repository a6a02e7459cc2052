"""A ledger that version 1 of the scripts wrote opens, adds up and goes on.

`data/ledger-v1.json` has the keys of such a ledger as Redis dumps them: two tenants, one with subjects, releases that
ended in every way, one seal, and holds that were open at the end.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, claim, limits

from core.accounting.events import Unit
from core.amounts import NANO, Amount
from core.ledger import names
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.journal_fold import Totals
from core.ledger.ledger import Ledger
from core.ledger.ranks import SubjectRanks
from core.ledger.records import Replay
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import UNKNOWN, Dimension, SpendingTotals, series_name

FOUND = json.loads(Path(__file__).with_name("data").joinpath("ledger-v1.json").read_text())
RELEASES = FOUND["releases"]
NOW_MS = 1_700_000_100_000


@pytest.fixture
def old(go, ledger, client, admin):
    for key, dump in FOUND["keys"].items():
        go(admin.call("RESTORE", key, 0, base64.b64decode(dump)))
    return Ledger(client, MASTER_KEY, clock=lambda: NOW_MS)


def test_it_opens_and_goes_on(go, old, client, tmp_path):
    sealer = Sealer(client, MASTER_KEY, tmp_path / "epoch")
    go(old.check())
    go(sealer.check())
    assert go(audit(old)).ok
    assert go(old.migrate()) == 0
    assert go(client.call("GET", names.VERSION_KEY)) == b"2"
    assert go(old.reserve("acme", [charge(1)], claim=claim("one"))) == Replay(RELEASES["committed"], b"stored")

    # holds of the old version end in every way
    go(old.commit("people", RELEASES["open-commit"], response=b"x"))
    go(old.cancel("people", RELEASES["open-cancel"], reason="client-gone"))
    go(sealer.seal())
    assert go(old.expire_overdue()) == 0
    late = Ledger(client, MASTER_KEY, clock=lambda: NOW_MS + 10**7)
    assert go(late.expire_overdue()) == 2
    assert go(audit(old)).ok

    # old accounts, and subjects of the old version, take new releases
    charges = [charge(1, subject="p0"), charge(1, subject="new-open-cancel"), charge(1, subject="newcomer")]
    spent = go(old.reserve("people", charges))
    refunded = go(old.reserve("people", charges))
    assert go(audit(old)).ok
    go(sealer.seal())
    go(old.commit("people", spent.release_id))
    go(old.cancel("people", refunded.release_id, reason="client-gone"))
    go(sealer.seal(always=True))
    report = go(audit_ledger(client, MASTER_KEY, tmp_path / "epoch"))
    assert report.ok, report
    # the journal of an old account has its old and its new entries; that of a new one begins with its opening
    p0, newcomer = (account for account in (spent.accounts[0].account, spent.accounts[4].account))
    listed = [entry.transition for entry in go(old.journal("people", p0)).entries]
    assert listed == ["open", *["reserve", "commit"] * 1, *["reserve"] * 3, "commit", "cancel", "expire", "commit"]
    assert [entry.transition for entry in go(old.journal("people", newcomer)).entries] == ["open", "commit"]
    assert go(old.journal("people", p0)).entries[1].key_id is None

    states = {state.account: state for state in go(old.accounts("people"))}
    assert states["people/sentence"].reserved == Amount(0)
    assert states["people/sentence"].committed == Amount((3 + 1 + 2 + 2 + 3) * NANO)
    assert go(old.account("acme", "acme/sentence")).committed == Amount(2 * NANO)

    series = LedgerSeries(client, clock=lambda: NOW_MS + 10**7)
    go(series.fold_all())
    totals = go(client.call("HGETALL", names.sums_key("people", "series")))
    for kind in (b"tenant", b"subject"):
        assert totals[b"sentence:test-mechanism:" + kind].split() == [b"11000000000", b"0", b"0", b"0", b"5"]

    # entries of the old version name no key and no route, and its subjects have ranks like others
    spending = SpendingTotals(client)
    go(spending.fold_all())
    unknown = [series_name(Unit.SENTENCE, dimension, UNKNOWN) for dimension in (Dimension.KEY, Dimension.ROUTE)]
    assert go(spending.totals("people", unknown)) == (Totals(11 * NANO, 0, 0, 0, 5),) * 2
    ranks = SubjectRanks(client)
    go(ranks.rank_all())
    ranked = go(ranks.page("people", Unit.SENTENCE, limit=200)).accounts
    assert {state.account for state in ranked} == {
        state.account for state in states.values() if state.subject_hash and state.unit is Unit.SENTENCE
    }


def test_a_fresh_ledger_has_the_same_version(go, ledger, client):
    go(ledger.check())
    assert go(ledger.migrate()) == 0
    go(ledger.open_tenant("acme", limits=limits(1)))
    assert go(client.call("GET", names.VERSION_KEY)) == b"2"
