"""Journal entries name the API key that caused a release, and what each key has spent can be summed."""

from __future__ import annotations

import pytest
from ledger_audit_kit import audit
from ledger_kit import charge, limits

FIRST, SECOND = "a" * 16, "b" * 16


@pytest.fixture
def acme(go, ledger):
    go(ledger.open_tenant("acme", limits=limits(100)))
    return ledger


def released(go, ledger, key, *, how="commit"):
    hold = go(ledger.reserve("acme", [charge(1)], key_id=key))
    go(getattr(ledger, how)("acme", hold.release_id, **({} if how == "commit" else {"reason": "test"})))


def test_a_release_that_ends_under_another_key_is_a_fault(go, acme, admin):
    released(go, acme, FIRST)
    _, _, last = go(admin.call("XRANGE", "{acme}:journal", "-", "+"))
    fields = {**last[1], b"key": SECOND.encode()}
    go(admin.call("XDEL", "{acme}:journal", last[0]))
    go(admin.call("XSETID", "{acme}:journal", "2-0"))
    go(admin.call("XADD", "{acme}:journal", last[0], *[part for pair in fields.items() for part in pair]))
    assert "this key" in go(audit(acme)).tenants[0].faults[0]
    go(admin.call("FLUSHALL"))
