"""Journal entries name the API key that caused a release, and what each key has spent can be summed."""

from __future__ import annotations

import pytest
from ledger_audit_kit import audit
from ledger_kit import charge, claim, limits

from core.accounting.events import Unit
from core.amounts import NANO, Amount
from core.ledger.job_records import JobHold
from core.ledger.jobs import JobStore

FIRST, SECOND = "a" * 16, "b" * 16


@pytest.fixture
def acme(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(100)))
    return ledger


def released(go, ledger, key, *, how="commit"):
    hold = go(ledger.reserve("acme", [charge(1)], key_id=key))
    go(getattr(ledger, how)("acme", hold.release_id, **({} if how == "commit" else {"reason": "test"})))


def test_every_transition_of_a_release_names_its_key(go, acme):
    for how in ("commit", "expire", "cancel"):
        released(go, acme, FIRST, how=how)
    released(go, acme, None)
    entries = go(acme.journal("acme", "acme/token")).entries
    assert [entry.key_id for entry in entries] == [None, *[FIRST] * 6, None, None]
    assert go(acme.journal("acme", "acme/token", key_id=FIRST)).entries == entries[1:7]
    assert go(acme.journal("acme", "acme/token", key_id=SECOND)).entries == ()
    with pytest.raises(ValueError, match="hex"):
        go(acme.reserve("acme", [charge(1)], key_id="not a key"))


def test_a_job_spends_under_the_key_that_created_it(go, acme, client):
    store = JobStore(client, gateway="this")
    hold = go(acme.reserve("acme", [charge(2, unit=Unit.RECORD)], claim=claim(), key_id=SECOND))
    terms = {"kind": "synthesis", "label": "law", "claim": "c1", "open_max": 8, "state": "s", "size": 1}
    go(store.create("acme", "c" * 32, hold=JobHold(hold.release_id, Amount(2 * NANO)), **terms))
    go(store.cancel("acme", "c" * 32))
    assert [entry.key_id for entry in go(acme.journal("acme", "acme/record")).entries] == [None, SECOND, SECOND]


def test_a_release_that_ends_under_another_key_is_a_fault(go, acme, admin):
    released(go, acme, FIRST)
    _, _, last = go(admin.call("XRANGE", "{acme}:journal", "-", "+"))
    fields = {**last[1], b"key": SECOND.encode()}
    go(admin.call("XDEL", "{acme}:journal", last[0]))
    go(admin.call("XSETID", "{acme}:journal", "2-0"))
    go(admin.call("XADD", "{acme}:journal", last[0], *[part for pair in fields.items() for part in pair]))
    assert "this key" in go(audit(acme)).tenants[0].faults[0]
    go(admin.call("FLUSHALL"))
