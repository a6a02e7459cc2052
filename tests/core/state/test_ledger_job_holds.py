"""A job's hold in the ledger: it outlasts any wait, is spent once before noise is drawn, and else comes back."""

import secrets

import pytest
from ledger_kit import LOST_REPLY, MASTER_KEY, charge, limits

from core.accounting.events import Unit
from core.amounts import Amount
from core.errors import BudgetExhausted, HoldNotOpen, JobFailed, JobQuotaExceeded, LedgerUnavailable
from core.ledger.transitions import Ledger
from core.state.jobs import JobHold, JobRecord, JobStatus, JobStore

RUN, OTHER_RUN = "a" * 32, "b" * 32
NOTHING = Amount(0)
COST = Amount(2 * 10**9)
EXHAUSTED = JobFailed(code="job-attempts-exhausted", reason="attempts-exhausted", count=1)


@pytest.fixture
def store(go, ledger, client) -> JobStore:
    go(ledger.open_tenant("acme", limits=limits(3)))
    return JobStore(client, gateway="this")


def held(go, ledger: Ledger, epsilon: int = 2) -> JobHold:
    reserved = go(ledger.reserve("acme", [charge(epsilon, unit=Unit.RECORD)]))
    return JobHold(reserved.release_id, COST)


def create(go, store: JobStore, hold: JobHold, **terms) -> JobRecord:
    full = {"kind": "synthesis", "label": "law", "claim": "c1", "open_max": 8, "state": "s", "size": 0} | terms
    return go(store.create("acme", secrets.token_hex(16), hold=hold, **full))[0]


def taken(go, store: JobStore, ledger: Ledger) -> JobRecord:
    job = create(go, store, held(go, ledger))
    return go(store.take("acme", job.job_id, run=RUN, attempts_max=3, exhausted=EXHAUSTED))


def budget(go, ledger: Ledger) -> tuple[Amount, Amount]:
    state = go(ledger.account("acme", "acme/record"))
    return state.committed, state.reserved


def costs(job: JobRecord) -> tuple[Amount, Amount]:
    return job.spent, job.reserved


def test_a_hold_waits_with_its_job_and_is_spent_once(go, store, ledger):
    job = taken(go, store, ledger)
    assert costs(job) == budget(go, ledger) == (NOTHING, COST)
    with pytest.raises(BudgetExhausted):
        held(go, ledger)
    for _ in range(3):
        assert go(store.charge("acme", job.job_id, run=RUN)) is True
        assert costs(go(store.get("acme", job.job_id))) == budget(go, ledger) == (COST, NOTHING)
    again = go(store.take("acme", job.job_id, run=OTHER_RUN, attempts_max=3, exhausted=EXHAUSTED))
    assert go(store.charge("acme", job.job_id, run=OTHER_RUN)) is True
    assert go(store.charge("acme", job.job_id, run=RUN)) is False, "the first process holds it no more"
    done = go(store.finish("acme", job.job_id, run=OTHER_RUN, status=JobStatus.SUCCEEDED)).job
    assert (again.attempts, done.status) == (2, JobStatus.SUCCEEDED)
    assert costs(done) == budget(go, ledger) == (COST, NOTHING)


def test_a_hold_of_a_job_does_not_expire(go, client, ledger, store):
    later = Ledger(client, MASTER_KEY, clock=lambda: 4_000_000_000_000)
    job = create(go, store, held(go, ledger))
    assert go(later.expire_overdue()) == 0
    assert budget(go, ledger) == (NOTHING, COST)
    assert go(store.cancel("acme", job.job_id)).status is JobStatus.CANCELLED
    lost = held(go, ledger)  # no job was made of it: a crash in between is spent, as for a request
    assert go(later.expire_overdue()) == 1
    with pytest.raises(HoldNotOpen):
        create(go, store, lost)
    assert go(store.page("acme", cursor=None, limit=10)).jobs == (go(store.get("acme", job.job_id)),)


@pytest.mark.parametrize("end", ["cancelled-queued", "cancelled", "failed", "attempts", "cancelled-after-a-crash"])
@pytest.mark.parametrize("charged", [False, True])
def test_every_end_settles_the_hold(go, client, ledger, store, end, charged):
    job = taken(go, store, ledger)
    if charged:
        assert go(store.charge("acme", job.job_id, run=RUN)) is True
    if end == "cancelled-queued":
        go(store.put_back("acme", job.job_id, run=RUN))
        go(store.cancel("acme", job.job_id))
    elif end == "cancelled-after-a-crash":
        go(store.cancel("acme", job.job_id))
        assert go(store.charge("acme", job.job_id, run=RUN)) is charged, "a cancelled job is charged no more"
        go(store.take("acme", job.job_id, run=OTHER_RUN, attempts_max=3, exhausted=EXHAUSTED))
    elif end == "attempts":
        go(store.take("acme", job.job_id, run=OTHER_RUN, attempts_max=1, exhausted=EXHAUSTED))
    else:
        go(store.finish("acme", job.job_id, run=RUN, status=JobStatus(end)))
    done = go(store.get("acme", job.job_id))
    assert done.status.ended
    assert costs(done) == budget(go, ledger) == ((COST if charged else NOTHING), NOTHING)
    assert go(store.charge("acme", job.job_id, run=RUN)) is False, "nothing is drawn after the end"
    assert budget(go, ledger)[1] == NOTHING


def test_a_refused_job_leaves_its_hold_to_whoever_made_it(go, ledger, store):
    hold = held(go, ledger)
    with pytest.raises(JobQuotaExceeded):
        create(go, store, hold, open_max=0, state="s", size=0)
    assert go(ledger.cancel("acme", hold.release_id, reason="no-job")).state == "cancelled"
    with pytest.raises(HoldNotOpen):
        create(go, store, hold)


def test_a_hold_that_was_spent_elsewhere_is_never_reported_as_a_refund(go, ledger, store):
    hold = held(go, ledger)
    job = create(go, store, hold)
    go(store.take("acme", job.job_id, run=RUN, attempts_max=3, exhausted=EXHAUSTED))
    go(ledger.expire("acme", hold.release_id, reason="operator"))
    with pytest.raises(HoldNotOpen):
        go(store.charge("acme", job.job_id, run=RUN))
    done = go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.FAILED)).job
    assert costs(done) == budget(go, ledger) == (COST, NOTHING)


def test_lost_replies_charge_once_and_refund_once(go, ledger, faulty):
    go(ledger.open_tenant("acme", limits=limits(4)))
    store = JobStore(faulty.client, gateway="this")

    def lossy(call):
        faulty.plan = [LOST_REPLY]
        return go(call)

    for charges in (True, False):
        job_id, hold = secrets.token_hex(16), held(go, ledger)
        terms = {"kind": "synthesis", "label": "law", "claim": "c", "open_max": 1, "state": "s", "size": 0}
        assert lossy(store.create("acme", job_id, hold=hold, **terms))[1]
        taken = lossy(store.take("acme", job_id, run=RUN, attempts_max=1, exhausted=EXHAUSTED))
        assert (taken.status, taken.attempts) == (JobStatus.RUNNING, 1)
        if charges:
            assert lossy(store.charge("acme", job_id, run=RUN)) is True
        done = lossy(store.finish("acme", job_id, run=RUN, status=JobStatus.FAILED)).job
        assert (done.status, costs(done)) == (JobStatus.FAILED, (COST if charges else NOTHING, NOTHING))
    assert faulty.met == 7
    assert budget(go, ledger) == (COST, NOTHING)


def parts_held(go, store: JobStore, ledger: Ledger, parts: int) -> JobRecord:
    """A running job that owns a hold of a third of the budget for each part."""
    full = {"kind": "release", "label": "law", "claim": "c1", "open_max": 8, "state": "s", "size": 0}
    job = go(store.create("acme", secrets.token_hex(16), **full))[0]
    job = go(store.take("acme", job.job_id, run=RUN, attempts_max=3, exhausted=EXHAUSTED))
    for part in range(parts):
        for _ in range(2):  # a lost reply
            go(ledger.reserve("acme", [charge(1, unit=Unit.RECORD)], release_id=f"{part:032x}"))
            hold = JobHold(f"{part:032x}", Amount(10**9))
            assert go(store.own_hold("acme", job.job_id, run=RUN, part=part, hold=hold)) is True
    return go(store.get("acme", job.job_id))


def test_parts_are_charged_one_by_one_and_the_rest_is_refunded_before_the_job_ends(go, store, ledger):
    job = parts_held(go, store, ledger, 3)
    assert costs(job) == budget(go, ledger) == (NOTHING, Amount(3 * 10**9))
    for _ in range(2):
        assert go(store.charge("acme", job.job_id, run=RUN, part=1)) is True
        assert go(store.charge("acme", job.job_id, run=OTHER_RUN, part=0)) is False
        assert go(store.charge("acme", job.job_id, run=RUN, part=7)) is False, "it has no hold"
        assert costs(go(store.get("acme", job.job_id))) == budget(go, ledger) == (Amount(10**9), Amount(2 * 10**9))
    assert go(store.cancel("acme", job.job_id)).status is JobStatus.RUNNING
    assert go(store.charge("acme", job.job_id, run=RUN, part=2)) is False, "it is cancelled"
    with pytest.raises(LedgerUnavailable):
        go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.CANCELLED))
    assert go(store.charge("acme", job.job_id, run=RUN, part=1)) is True, "it was charged before"
    for part in (0, 1, 2, 2):
        go(store.refund("acme", job.job_id, run=RUN, part=part))
    assert go(store.holds("acme", job.job_id)) == dict.fromkeys(range(3), False)
    ended = go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.CANCELLED)).job
    assert costs(ended) == budget(go, ledger) == (Amount(10**9), NOTHING)


@pytest.mark.parametrize("waits", ["queued", "paused"])
def test_a_waiting_job_with_open_holds_ends_in_an_attempt_that_refunds_them(go, store, ledger, waits):
    job = parts_held(go, store, ledger, 2)
    if waits == "paused":
        go(store.pause("acme", job.job_id))
    assert go(store.put_back("acme", job.job_id, run=RUN)).status.value == waits
    if waits == "paused":
        assert go(store.take("acme", job.job_id, run=OTHER_RUN, attempts_max=1, exhausted=EXHAUSTED)) is None
    assert go(store.cancel("acme", job.job_id)).status is JobStatus.QUEUED
    again = go(store.take("acme", job.job_id, run=OTHER_RUN, attempts_max=1, exhausted=EXHAUSTED))
    assert (again.status, again.cancel_requested, again.open_holds) == (JobStatus.RUNNING, True, 2)
    for part in range(2):
        go(store.refund("acme", job.job_id, run=OTHER_RUN, part=part))
    ended = go(store.finish("acme", job.job_id, run=OTHER_RUN, status=JobStatus.CANCELLED)).job
    assert costs(ended) == budget(go, ledger) == (NOTHING, NOTHING)


def test_a_paused_job_waits_until_it_is_resumed(go, store, ledger):
    job = parts_held(go, store, ledger, 1)
    assert go(store.own_hold("acme", job.job_id, run=OTHER_RUN, part=1, hold=held(go, ledger, 1))) is None
    go(store.pause("acme", job.job_id))
    assert go(store.get("acme", job.job_id)).pause_requested
    assert go(store.put_back("acme", job.job_id, run=RUN)).status is JobStatus.PAUSED
    assert go(store.resume("acme", job.job_id)).status is JobStatus.QUEUED
    again = go(store.take("acme", job.job_id, run=OTHER_RUN, attempts_max=3, exhausted=EXHAUSTED))
    assert (again.pause_requested, again.open_holds, again.reserved) == (False, 1, Amount(10**9))
