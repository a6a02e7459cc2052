"""What a tenant that spends nothing leaves in Redis, and the caps on it."""

from dataclasses import replace

import msgpack
import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, claim, ended, limits, released

from core.amounts import NANO, Amount
from core.errors import (
    BudgetExhausted,
    HoldNotOpen,
    IdempotencyConflict,
    ReleaseGone,
    ReleaseInFlight,
    TenantLimitReached,
    UnknownAccount,
)
from core.ledger.records import Replay, Reserved
from core.ledger.transitions import Ledger, TenantCaps
from core.state.jobs import JobHold, JobStore

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def clinic(go, ledger):
    go(ledger.open_tenant("clinic", limits=limits(1000), subject_limits=limits(2)))
    return ledger


@pytest.fixture
def content(go, admin):
    """Everything in Redis, as bytes by key."""
    return lambda: {key: go(admin.call("DUMP", key)) for key in go(admin.call("KEYS", "*"))}


def people(count, epsilon=1, first=0):
    return [charge(epsilon, subject=f"person-{number}") for number in range(first, first + count)]


def generated(key="made-up"):
    return replace(claim(key, tenant="clinic"), generated=True)


def keys(content, part):
    return {key for key in content() if part in key}


def capped(client, **caps):
    now = [1_700_000_000_000]
    return Ledger(client, MASTER_KEY, caps=TenantCaps(**caps), clock=lambda: now[0]), now


@pytest.mark.parametrize("mine", [None, generated()], ids=["no-key", "generated-key"])
def test_a_denial_without_a_key_of_the_caller_leaves_nothing(go, clinic, content, mine):
    before = content()
    for _ in range(3):
        with pytest.raises(BudgetExhausted):
            go(clinic.reserve("clinic", people(4, 3), claim=mine))
    assert content() == before


def test_a_refunded_hold_leaves_no_account_and_little_that_does_not_depend_on_its_subjects(go, clinic, content, admin):
    journal = []
    for count in (1, 256):
        before = go(admin.call("MEMORY", "USAGE", "{clinic}:journal", "SAMPLES", 0))
        hold = go(clinic.reserve("clinic", people(count), claim=generated(f"k{count}")))
        assert len(go(clinic.accounts("clinic"))) == 4 + 2 * count
        go(clinic.cancel("clinic", hold.release_id, reason="client-gone"))
        journal.append(go(admin.call("MEMORY", "USAGE", "{clinic}:journal", "SAMPLES", 0)) - before)
        assert len(go(clinic.accounts("clinic"))) == 4
        assert keys(content, b"claim") == set()
    assert journal[1] < journal[0] + 1024
    assert len(keys(content, b"account")) == 5  # those of the tenant, and the list of them
    for release in keys(content, b"release:"):
        assert 0 < go(admin.call("PTTL", release)) <= 600_000


def test_a_refund_under_a_key_of_the_caller_keeps_its_tombstone(go, clinic, content, admin):
    mine = claim(tenant="clinic")
    hold = released(go, clinic, people(1), how="cancel", tenant="clinic", claim=mine)
    (kept,) = keys(content, b"claim")
    assert go(admin.call("PTTL", kept)) > 2 * DAY_MS
    assert 0 < go(admin.call("PTTL", f"{{clinic}}:release:{hold.release_id}")) <= 600_000


@pytest.mark.parametrize("mine", [None, generated()], ids=["no-key", "generated-key"])
def test_a_spent_hold_keeps_its_claim_and_its_record_for_retries_only(go, clinic, content, admin, mine):
    hold = released(go, clinic, people(1), how="expire", tenant="clinic", claim=mine)
    assert len(keys(content, b"claim")) == (0 if mine is None else 1)
    for key in keys(content, b"claim"):
        assert DAY_MS - 60_000 < go(admin.call("PTTL", key)) <= DAY_MS  # a day for a generated key
    assert 0 < go(admin.call("PTTL", f"{{clinic}}:release:{hold.release_id}")) <= 600_000
    if mine is None:
        mine = claim(tenant="clinic")
        released(go, clinic, people(1, first=1), how="expire", tenant="clinic", claim=mine)
        (kept,) = keys(content, b"claim")
        assert go(admin.call("PTTL", kept)) > 2 * DAY_MS


@pytest.mark.parametrize("ending", ["commit", "cancel", "expire"])
def test_a_claim_answers_without_the_record_of_its_release(go, clinic, admin, ending):
    """As it does ten minutes after the end."""
    mine, other_body = claim(tenant="clinic"), claim(body=b"other", tenant="clinic")
    hold = go(clinic.reserve("clinic", people(1), claim=mine))
    if ending == "commit":
        go(clinic.commit("clinic", hold.release_id, response=b"answer"))
    else:
        ended(go, clinic, hold, ending, "clinic")
    go(admin.call("DEL", f"{{clinic}}:release:{hold.release_id}"))
    with pytest.raises(IdempotencyConflict):
        go(clinic.reserve("clinic", people(1), claim=other_body))
    if ending == "commit":
        assert go(clinic.reserve("clinic", people(1), claim=mine)) == Replay(hold.release_id, b"answer")
        go(admin.call("DEL", f"{{clinic}}:response:{hold.release_id}"))
    if ending == "cancel":
        again = go(clinic.reserve("clinic", people(1), claim=mine))
        with pytest.raises(ReleaseInFlight):
            go(clinic.reserve("clinic", people(1), claim=mine))
        # the state of the release before does not count
        go(admin.call("DEL", f"{{clinic}}:release:{again.release_id}"))
        with pytest.raises(ReleaseGone):
            go(clinic.reserve("clinic", people(1), claim=mine))
        go(admin.call("FLUSHALL"))
        return
    with pytest.raises(ReleaseGone):
        go(clinic.reserve("clinic", people(1), claim=mine))
    for late in (clinic.commit("clinic", hold.release_id), clinic.cancel("clinic", hold.release_id, reason="late")):
        with pytest.raises(HoldNotOpen):
            go(late)


def test_the_account_of_a_subject_disappears_with_the_last_hold_only(go, clinic):
    first, second = (go(clinic.reserve("clinic", people(1, 1))) for _ in range(2))
    go(clinic.cancel("clinic", first.release_id, reason="client-gone"))
    subject = first.accounts[0].account
    assert go(clinic.account("clinic", subject)).reserved == Amount(NANO)
    with pytest.raises(BudgetExhausted):
        go(clinic.reserve("clinic", people(1, 1.5)))
    go(clinic.cancel("clinic", second.release_id, reason="client-gone"))
    with pytest.raises(UnknownAccount):
        go(clinic.account("clinic", subject))


@pytest.mark.parametrize("ending", ["commit", "expire"])
def test_a_spent_hold_opens_its_accounts_and_a_later_refund_keeps_them(go, clinic, ending):
    spent, refunded = (go(clinic.reserve("clinic", people(2, 1))) for _ in range(2))
    assert [entry.transition for entry in go(clinic.journal("clinic")).entries] == ["open", "reserve", "reserve"]
    ended(go, clinic, spent, ending, "clinic")
    *_, opened, settled = go(clinic.journal("clinic")).entries
    assert (opened.transition, settled.transition) == ("open", ending)
    assert {amount.account for amount in opened.subjects} == {amount.account for amount in settled.subjects}
    assert len(opened.subjects) == 4
    go(clinic.cancel("clinic", refunded.release_id, reason="client-gone"))
    assert go(clinic.account("clinic", spent.accounts[0].account)).committed == Amount(NANO)
    released(go, clinic, people(2, 1), how="cancel", tenant="clinic")
    assert len(go(clinic.accounts("clinic"))) == 8


def test_the_journal_opens_a_subject_with_the_limits_that_its_first_release_selected_from(go, ledger, client):
    go(ledger.open_tenant("clinic", limits=limits(1000, 10**9), subject_limits=limits(20, 10**9)))
    hold = released(go, ledger, people(1), tenant="clinic")
    account = go(ledger.account("clinic", hold.accounts[0].account))
    opened = go(ledger.journal("clinic", account.account)).entries[0]
    (line,) = (line for line in opened.subjects if line.account == account.account)
    assert (line.vector, line.divisions) == (account.limit_vector, account.divisions)
    assert line.vector in line.divisions


def test_the_audit_reads_the_amounts_of_open_holds(go, clinic, admin):
    hold = go(clinic.reserve("clinic", people(2)))
    account = go(clinic.accounts("clinic"))[-1]
    name = f"{{clinic}}:account:{account.unit.value}:{account.subject_hash}"
    release = f"{{clinic}}:release:{hold.release_id}"
    for key, field, broken, what in (
        (name, "held", lambda vector: [vector[0], vector[1] - 1, *vector[2:]], "held"),
        (name, "committed", lambda vector: [1, *vector[1:]], "committed"),
    ):
        stored = go(admin.call("HGET", key, field))
        go(admin.call("HSET", key, field, msgpack.packb(broken(msgpack.unpackb(stored)))))
        (difference,) = go(audit(clinic)).tenants[0].differences
        assert (difference.account, difference.counter) == (account.account, what)
        go(admin.call("HSET", key, field, stored))

    record = go(admin.call("DUMP", release))
    go(admin.call("DEL", release))
    assert go(audit(clinic)).tenants[0].faults == (f"the record of the hold {hold.release_id} is missing",)
    found = {b"state": b"held", b"subject_rows": b"[]"}
    go(admin.call("SET", release, msgpack.packb(found)))
    assert "does not have the amounts" in go(audit(clinic)).tenants[0].faults[0]
    go(admin.call("RESTORE", release, 0, record, "REPLACE"))
    assert go(audit(clinic)).ok


def test_a_hold_with_other_rows_than_the_journal_is_found_when_it_is_spent(go, clinic, admin):
    hold = go(clinic.reserve("clinic", people(2)))
    release = f"{{clinic}}:release:{hold.release_id}"
    stored = go(admin.call("GET", release))
    record = msgpack.unpackb(stored, raw=True)
    rows = record[b"subject_rows"].replace(b"[1,1000000000", b"[1,999999999", 1)
    debits = [[*debit] for debit in record[b"debits"]]
    debits[0][2][1] -= 1
    forged = {**record, b"subject_rows": rows, b"debits": debits}
    go(admin.call("SET", release, msgpack.packb(forged, use_bin_type=False)))
    go(clinic.commit("clinic", hold.release_id))
    assert "ends a hold that is not open with these amounts" in go(audit(clinic)).tenants[0].faults[0]
    go(admin.call("FLUSHALL"))


def test_open_holds_are_limited(go, clinic, client):
    ledger, _ = capped(client, holds_max=3)
    holds = [go(ledger.reserve("clinic", people(1, 0.1, number))) for number in range(3)]
    with pytest.raises(TenantLimitReached) as refused:
        go(ledger.reserve("clinic", people(1, 0.1, 9)))
    assert refused.value.limit == "holds_per_tenant_max"
    for hold, ending in zip(holds, ("commit", "cancel", "expire"), strict=True):
        ended(go, ledger, hold, ending, "clinic")
    for number in range(3):
        go(ledger.reserve("clinic", people(1, 0.1, number)))
    with pytest.raises(TenantLimitReached):
        go(ledger.reserve("clinic", people(1, 0.1, 9)))


def test_refunds_and_kept_denials_are_limited_and_the_allowance_returns(go, clinic, client, content):
    ledger, now = capped(client, uncharged_per_hour_max=4)

    def refund(**terms):
        released(go, ledger, people(1, 0.1), how="cancel", tenant="clinic", **terms)

    for number in range(2):
        refund(claim=claim(f"k{number}", tenant="clinic"))
        refund()
    before = content()
    for mine in (None, claim("k3", tenant="clinic")):
        with pytest.raises(TenantLimitReached) as refused:
            go(ledger.reserve("clinic", people(1, 0.1), claim=mine))
        assert refused.value.limit == "uncharged_holds_per_hour_max"
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("clinic", people(1, 3)))  # it keeps nothing
    with pytest.raises(TenantLimitReached):
        go(ledger.reserve("clinic", people(1, 3), claim=claim("k4", tenant="clinic")))  # its denial would be kept
    assert content() == before

    now[0] += HOUR_MS // 4
    for ending in ("expire", "commit", "commit"):  # what is spent uses nothing up
        released(go, ledger, people(1, 0.1), how=ending, tenant="clinic")
    with pytest.raises(BudgetExhausted):
        go(ledger.reserve("clinic", people(1, 3), claim=claim("k5", tenant="clinic")))
    with pytest.raises(TenantLimitReached):
        go(ledger.reserve("clinic", people(1, 0.1)))
    go(clinic.open_tenant("other", limits=limits(5)))
    assert isinstance(go(ledger.reserve("other", [charge(1)])), Reserved)


def test_the_refunds_of_jobs_count_too(go, clinic, client):
    caps = TenantCaps(uncharged_per_hour_max=1)
    ledger, store = Ledger(client, MASTER_KEY, caps=caps), JobStore(client, gateway="this", caps=caps)
    hold = go(ledger.reserve("clinic", people(1)))
    terms = {"kind": "synthesis", "label": "law", "claim": "c1", "open_max": 8, "state": "s", "size": 0}
    go(store.create("clinic", "a" * 32, hold=JobHold(hold.release_id, Amount(NANO)), **terms))
    go(ledger.expire_overdue())
    go(store.cancel("clinic", "a" * 32))
    with pytest.raises(TenantLimitReached):
        go(ledger.reserve("clinic", people(1)))


def test_a_clock_that_is_set_back_does_not_lock_a_tenant_out(go, clinic, client):
    ledger, now = capped(client, uncharged_per_hour_max=4, holds_max=2)
    released(go, ledger, people(1, 0.1), how="cancel", tenant="clinic")
    now[0] -= 24 * HOUR_MS
    go(ledger.reserve("clinic", people(1, 0.1)))


def test_stored_responses_are_limited(go, clinic, client, admin):
    ledger, now = capped(client, stored_bytes_max=3000)
    mine = [claim(f"k{number}", tenant="clinic") for number in range(4)]

    def release(key, size=1000):
        hold = go(ledger.reserve("clinic", people(1, 0.1), claim=key))
        go(ledger.commit("clinic", hold.release_id, response=bytes(size)))
        return hold.release_id

    first = release(mine[0])
    now[0] += 600_000
    for key in mine[1:3]:
        release(key)
    before = go(clinic.account("clinic", "clinic/sentence"))
    with pytest.raises(TenantLimitReached) as refused:
        release(mine[3])
    assert refused.value.limit == "stored_bytes_per_tenant_max"
    assert go(clinic.account("clinic", "clinic/sentence")) == before  # nothing was charged
    assert go(ledger.reserve("clinic", people(1, 0.1), claim=mine[0])) == Replay(first, bytes(1000))
    for key in (None, generated("over")):  # answered and charged, and not stored
        assert go(admin.call("EXISTS", f"{{clinic}}:response:{release(key)}")) == 0

    now[0] += HOUR_MS  # a period after the first response expired
    small = release(generated("under"), size=900)
    assert go(admin.call("EXISTS", f"{{clinic}}:response:{small}")) == 1
    release(mine[3])
