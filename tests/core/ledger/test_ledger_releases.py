"""One release through its life: idempotency, absorbing ends, replays, lost replies."""

import asyncio
import time

import msgpack
import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, claim, journal_pages, limits, released

from core.amounts import NANO, Amount
from core.errors import HoldNotOpen, LedgerUnavailable, ReleaseGone, ReleaseInFlight, UnknownAccount
from core.ledger.records import Replay, Reserved, account_terms
from core.ledger.transitions import Ledger


def committed(go, ledger):
    return go(ledger.account("acme", "acme/sentence")).committed


def reserved(go, ledger):
    return go(ledger.account("acme", "acme/sentence")).reserved


def test_a_key_belongs_to_a_tenant_and_to_the_last_claim_of_it(go, acme, admin):
    first = released(go, acme, [charge(1)], how="cancel", claim=claim())
    second = go(acme.reserve("acme", [charge(1)], claim=claim()))
    assert second.release_id != first.release_id
    assert go(admin.call("PTTL", f"{{acme}}:claim:{claim().scope}")) == -1
    with pytest.raises(HoldNotOpen):
        go(acme.commit("acme", first.release_id))
    go(acme.commit("acme", second.release_id, response=b"private \x00\xff"))
    assert go(acme.reserve("acme", [charge(1)], claim=claim())) == Replay(second.release_id, b"private \x00\xff")
    go(acme.open_tenant("other", limits=limits(5)))
    assert isinstance(go(acme.reserve("other", [charge(1)], claim=claim(tenant="other"))), Reserved)


def test_a_hold_has_a_deadline_of_its_own(go, client, acme):
    now = [1_000_000]
    timed = Ledger(client, MASTER_KEY, hold_ttl_ms=500, clock=lambda: now[0])
    go(timed.reserve("acme", [charge(1)]))
    slow = go(timed.reserve("acme", [charge(1)], hold_ttl_ms=5_000))
    now[0] += 501
    assert go(timed.expire_overdue()) == 1
    go(timed.commit("acme", slow.release_id))
    assert (committed(go, acme), reserved(go, acme)) == (Amount(2 * NANO), Amount(0))


def test_without_a_stored_response_a_committed_key_cannot_be_used(go, acme, admin):
    released(go, acme, [charge(1)], claim=claim())
    with pytest.raises(ReleaseGone):
        go(acme.reserve("acme", [charge(1)], claim=claim()))
    second = go(acme.reserve("acme", [charge(1)]))  # no key, no replay: nothing to keep
    go(acme.commit("acme", second.release_id, response=b"x"))
    assert go(admin.call("EXISTS", f"{{acme}}:response:{second.release_id}")) == 0


def test_retention_ends_before_the_tombstone(go, client, acme):
    def repeated(tombstone_ttl_ms, word):
        """What a second reservation gets after the response's retention has ended."""
        brief = Ledger(client, MASTER_KEY, response_retention_ms=60, tombstone_ttl_ms=tombstone_ttl_ms)
        first = go(brief.reserve("acme", [charge(1)], claim=claim(word)))
        go(brief.commit("acme", first.release_id, response=b"x"))
        time.sleep(0.3)
        return go(brief.reserve("acme", [charge(1)], claim=claim(word)))

    with pytest.raises(ReleaseGone):
        repeated(600_000, "with a tombstone")
    assert isinstance(repeated(120, "without"), Reserved)
    with pytest.raises(ValueError, match="outlive"):
        Ledger(client, MASTER_KEY, response_retention_ms=2, tombstone_ttl_ms=2)


def test_an_unknown_release_cannot_end(go, acme):
    with pytest.raises(HoldNotOpen):
        go(acme.commit("acme", "0" * 32))
    for wrong in ("", "x", "0" * 31, "G" * 32):
        with pytest.raises(ValueError, match="hex"):
            go(acme.commit("acme", wrong))


def test_concurrent_claims_of_one_key_hold_once(go, acme):
    async def stampede():
        return await asyncio.gather(
            *(acme.reserve("acme", [charge(1)], claim=claim()) for _ in range(32)), return_exceptions=True
        )

    results = go(stampede())
    assert sum(isinstance(result, Reserved) for result in results) == 1
    assert sum(isinstance(result, ReleaseInFlight) for result in results) == 31
    assert reserved(go, acme) == Amount(NANO)


def test_a_race_of_commit_and_expire_has_one_winner(go, acme):
    async def race(hold):
        return await asyncio.gather(
            acme.commit("acme", hold.release_id),
            acme.expire("acme", hold.release_id, reason="deadline"),
            acme.cancel("acme", hold.release_id, reason="queue-full"),
            return_exceptions=True,
        )

    for _ in range(5):
        results = go(race(go(acme.reserve("acme", [charge(1)]))))
        assert sum(isinstance(result, HoldNotOpen) for result in results) == 2


def test_opening_is_replay_safe(go, ledger, client, admin):
    args = {"operation": "a" * 32, "mode": "tenant", "accounts": account_terms(limits(5)), "subject_accounts": []}
    for _ in range(2):
        found, _ = go(client.run("open", key="{acme}:tenant", args=args))
        assert found == {"outcome": "opened"}
    found, _ = go(client.run("open", key="{acme}:tenant", args={**args, "operation": "b" * 32}))
    assert found == {"outcome": "tenant-exists"}
    go(admin.call("SADD", "tenants", "acme"))


def test_the_journal_tells_every_transition_in_pages(go, acme):
    released(go, acme, [charge(1)], how="expire")
    released(go, acme, [charge(2)], how="cancel")
    kept = released(go, acme, [charge(0.5)])
    whole = go(acme.journal("acme"))
    assert whole.next_cursor is None
    assert [entry.seq for entry in whole.entries] == list(range(1, 8))
    assert [entry.transition for entry in whole.entries] == [
        "open", "reserve", "expire", "reserve", "cancel", "reserve", "commit",
    ]  # fmt: skip
    assert whole.entries[2].reason == "test"
    assert whole.entries[1].mechanism == "test-mechanism"
    assert sum(journal_pages(go, acme, "acme", "acme/token", limit=3), ()) == whole.entries
    assert [entry.seq for entry in go(acme.journal("acme", "acme/vector")).entries] == [1]
    with pytest.raises(UnknownAccount):
        go(acme.journal("acme", "other/token"))
    with pytest.raises(ValueError, match="label"):
        go(acme.cancel("acme", kept.release_id, reason="free text, perhaps the caller's"))


def test_a_hold_that_the_counters_do_not_have_is_not_moved(go, acme, admin):
    hold = go(acme.reserve("acme", [charge(1)]))
    held = go(admin.call("HGET", "{acme}:account:token", "held"))
    wrong = msgpack.unpackb(held)
    wrong[1] -= 5
    go(admin.call("HSET", "{acme}:account:token", "held", msgpack.packb(wrong)))
    with pytest.raises(LedgerUnavailable):
        go(acme.commit("acme", hold.release_id))
    go(admin.call("HSET", "{acme}:account:token", "held", held))
    go(acme.commit("acme", hold.release_id))


def test_a_release_that_ends_under_another_key_is_a_fault(go, acme, admin):
    released(go, acme, [charge(1)], key_id="a" * 16)
    _, _, last = go(admin.call("XRANGE", "{acme}:journal", "-", "+"))
    fields = {**last[1], b"key": b"b" * 16}
    go(admin.call("XDEL", "{acme}:journal", last[0]))
    go(admin.call("XSETID", "{acme}:journal", "2-0"))
    go(admin.call("XADD", "{acme}:journal", last[0], *[part for pair in fields.items() for part in pair]))
    assert "this key" in go(audit(acme)).tenants[0].faults[0]
    go(admin.call("FLUSHALL"))
