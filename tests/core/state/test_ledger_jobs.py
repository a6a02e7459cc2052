"""The states of jobs, on both servers and with the ledger's rights."""

import asyncio
import math
import secrets

import pytest
from ledger_kit import MASTER_KEY, limits, pages_of

from core.errors import (
    IdempotencyConflict,
    InvalidInput,
    JobFailed,
    JobQuotaExceeded,
    StorageFull,
    TenantLimitReached,
    UnknownJob,
)
from core.ledger.transitions import Ledger, TenantCaps
from core.redis.names import SHARED_OWNER
from core.state.jobs import LEASE_MS, JobRecord, JobStatus, JobStore
from core.state.stored_files import ARTIFACTS, NamedEntry, StoredEntry, StoredFileIndex, StoredPart

RUN, OTHER_RUN = "a" * 32, "b" * 32
ENDS = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


@pytest.fixture
def store(client) -> JobStore:
    return JobStore(client, gateway="this")


def create(go, store: JobStore, *, owner: str = "acme", job_id: str | None = None, **terms) -> JobRecord:
    full = {"kind": "domain", "label": "law", "claim": "c1", "open_max": 100, "state": "s", "size": 0} | terms
    job, _ = go(store.create(owner, job_id or secrets.token_hex(16), **full))
    return job


def take(go, store: JobStore, job: JobRecord, *, run: str = RUN, attempts_max: int = 3) -> JobRecord:
    exhausted = JobFailed(code="job-attempts-exhausted", reason="attempts-exhausted", count=attempts_max)
    return go(store.take(job.owner, job.job_id, run=run, attempts_max=attempts_max, exhausted=exhausted))


def test_a_life(go, store):
    job = create(go, store)
    assert (job.status, job.progress, job.attempts) == (JobStatus.QUEUED, 0.0, 0)
    taken = take(go, store, job)
    assert (taken.status, taken.attempts) == (JobStatus.RUNNING, 1)
    updated = go(store.progress("acme", job.job_id, run=RUN, stage="encoding", fraction=0.25))
    assert (updated.stage, updated.progress) == ("encoding", 0.25)
    again = go(store.progress("acme", job.job_id, run=RUN, stage="encoding", fraction=0.25))
    assert again.seq == updated.seq, "an update without a change adds no event"
    done = go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.SUCCEEDED, result={"documents": 7})).job
    assert (done.status, done.progress, done.result) == (JobStatus.SUCCEEDED, 1.0, {"documents": 7})
    assert done.started_ms <= done.ended_ms
    assert done.reserved.epsilon_nano == done.spent.epsilon_nano == 0
    assert go(store.get("acme", job.job_id)) == done


def test_metrics_stay_until_the_next_report(go, store):
    job = take(go, store, create(go, store))
    assert job.metrics is None

    def report(fraction, metrics=None, run=RUN):
        return go(store.progress("acme", job.job_id, run=run, stage="training", fraction=fraction, metrics=metrics))

    first = report(0.5, {"step": 3, "public_accuracy": 0.1 + 0.2})
    assert first.metrics == {"step": 3, "public_accuracy": 0.1 + 0.2}
    assert report(0.5, {"step": 3, "public_accuracy": 0.1 + 0.2}).seq == first.seq
    still = report(0.6)
    assert still.metrics == first.metrics
    assert report(0.6).seq == still.seq, "an update without a change adds no event"
    assert report(0.6, {"step": 4}).metrics == {"step": 4}
    assert report(0.6, {"step": 5}, run=OTHER_RUN).metrics == {"step": 4}
    for wrong in ({"loss": 0.5}, {"step": math.nan}, {"step": "walrus"}, {"step": True}):
        with pytest.raises(ValueError, match="names in METRICS"):
            report(0.7, wrong)
    done = go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.SUCCEEDED, result={})).job
    assert done.metrics == {"step": 4}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_is_an_end(go, store, end):
    job = create(go, store)
    take(go, store, job)
    problem = JobFailed("Why.", reason="internal", line=3) if end is JobStatus.FAILED else None
    done = go(store.finish("acme", job.job_id, run=RUN, status=end, problem=problem)).job
    for other in ENDS:
        assert go(store.finish("acme", job.job_id, run=RUN, status=other)).job == done
    assert go(store.cancel("acme", job.job_id)) == done
    assert go(store.progress("acme", job.job_id, run=RUN, stage="late", fraction=0.9)) == done
    assert go(store.put_back("acme", job.job_id, run=RUN)) == done
    assert take(go, store, job, run=OTHER_RUN) == done
    if problem:
        assert done.problem["reason"] == "internal"
        assert done.problem["line"] == 3
    assert go(store.unfinished_of_all()) == ()


def test_cancelling(go, store):
    queued = create(go, store)
    assert go(store.cancel("acme", queued.job_id)).status is JobStatus.CANCELLED
    running = create(go, store)
    take(go, store, running)
    requested = go(store.cancel("acme", running.job_id))
    assert (requested.status, requested.cancel_requested) == (JobStatus.RUNNING, True)
    assert go(store.cancel("acme", running.job_id)) == requested
    # the process died before it read the request: the job is not started again
    assert take(go, store, running, run=OTHER_RUN).status is JobStatus.CANCELLED


def test_an_attempt_ends_a_job_that_keeps_what_it_has_done(go, store):
    """Else a cancellation while it waits, or the end of its attempts, would lose what was charged."""
    waiting = create(go, store, keeps=True)
    assert go(store.cancel("acme", waiting.job_id)).status is JobStatus.CANCELLED, "it has done nothing"
    job = create(go, store, keeps=True)
    take(go, store, job, attempts_max=1)
    go(store.put_back("acme", job.job_id, run=RUN))
    cancelled = go(store.cancel("acme", job.job_id))
    assert (cancelled.status, cancelled.cancel_requested) == (JobStatus.QUEUED, True)
    assert take(go, store, job, attempts_max=0).status is JobStatus.RUNNING
    ended = go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.CANCELLED, result={"completed": 1})).job
    assert (ended.status, ended.result) == (JobStatus.CANCELLED, {"completed": 1})


def test_a_job_of_a_stopped_gateway_can_be_cancelled(go, client):
    now = 1_700_000_000_000
    store = JobStore(client, gateway="this", clock=lambda: now)
    job = create(go, store)
    take(go, store, job)
    go(store.cancel("acme", job.job_id))
    now += 59_999
    assert go(store.cancel("acme", job.job_id)).status is JobStatus.RUNNING
    now += 1
    assert go(store.cancel("acme", job.job_id)).status is JobStatus.CANCELLED
    assert go(store.finish("acme", job.job_id, run=RUN, status=JobStatus.SUCCEEDED)).job.status is JobStatus.CANCELLED


def test_attempts_end(go, store):
    job = create(go, store)
    for attempt in (1, 2):
        assert take(go, store, job, run=secrets.token_hex(16), attempts_max=2).attempts == attempt
    failed = take(go, store, job, run=secrets.token_hex(16), attempts_max=2)
    assert failed.status is JobStatus.FAILED
    assert failed.problem["code"] == "job-attempts-exhausted"


def test_an_attempt_that_got_further_gives_the_job_as_many_again(go, store):
    job = create(go, store)
    for attempt, fraction in enumerate([0.1, 0.2, 0.3, 0.3, 0.3], start=1):
        run = secrets.token_hex(16)
        assert take(go, store, job, run=run, attempts_max=3).attempts == attempt
        go(store.progress("acme", job.job_id, run=run, stage="s", fraction=fraction))
    assert take(go, store, job, run=secrets.token_hex(16), attempts_max=3).status is JobStatus.FAILED


def test_one_outcome_is_sealed_and_published_even_after_the_last_attempt(go, store):
    job = create(go, store)
    assert take(go, store, job, attempts_max=1).outcome is None
    for _ in range(2):  # a retry, whose reply was lost
        assert go(store.seal("acme", job.job_id, run=RUN, outcome="first")) == "first"
    assert go(store.seal("acme", job.job_id, run=RUN, outcome="second")) == "first"
    taken = take(go, store, job, run=OTHER_RUN, attempts_max=1)
    assert (taken.status, taken.outcome) == (JobStatus.RUNNING, "first")
    assert go(store.seal("acme", job.job_id, run=RUN, outcome="first")) is None, "the next attempt publishes it"
    assert go(store.put_back("acme", job.job_id, run=OTHER_RUN)).outcome == "first"


def test_an_orderly_end_is_no_attempt(go, store):
    job = create(go, store)
    for _ in range(5):
        run = secrets.token_hex(16)
        assert take(go, store, job, run=run, attempts_max=1).status is JobStatus.RUNNING
        assert go(store.put_back("acme", job.job_id, run=run)).status is JobStatus.QUEUED


def test_another_owners_job_does_not_exist(go, store):
    job = create(go, store)
    for owner in ("other", SHARED_OWNER):
        with pytest.raises(UnknownJob):
            go(store.get(owner, job.job_id))
        with pytest.raises(UnknownJob):
            go(store.cancel(owner, job.job_id))
    for job_id in ("", "x", "*", "../../acme", job.job_id.upper(), job.job_id + "0"):
        with pytest.raises(UnknownJob):
            go(store.get("acme", job_id))
    with pytest.raises(InvalidInput):
        go(store.get("acme}:job", job.job_id))


def test_any_gateway_takes_a_job_that_waits_and_none_one_whose_holder_lives(go, client):
    now = [1_800_000_000_000]
    this, other = (JobStore(client, gateway=name, clock=lambda: now[0]) for name in ("this", "other"))
    job = create(go, this)
    assert take(go, other, job).status is JobStatus.RUNNING
    assert go(this.unfinished_of_all()) == go(other.unfinished_of_all())
    for _ in range(3):
        now[0] += LEASE_MS - 1
        assert take(go, this, job, run=OTHER_RUN) is None
        assert go(other.renew("acme", job.job_id, run=RUN))
    now[0] += LEASE_MS
    taken = take(go, this, job, run=OTHER_RUN)
    assert (taken.run, taken.gateway, taken.attempts) == (OTHER_RUN, "this", 2)


def test_an_attempt_that_was_replaced_changes_nothing(go, client):
    now = [1_800_000_000_000]
    this, other = (JobStore(client, gateway=name, clock=lambda: now[0]) for name in ("this", "other"))
    job = create(go, this, size=100)
    take(go, this, job)
    now[0] += LEASE_MS
    taken = take(go, other, job, run=OTHER_RUN)
    files = StoredFileIndex(client, bytes_max=10**9)
    named = NamedEntry(ARTIFACTS, job.job_id, StoredEntry({".md": StoredPart("b", "d", 7)}, "k"))

    assert not go(this.renew("acme", job.job_id, run=RUN))
    assert not go(this.checkpoint("acme", job.job_id, run=RUN, state="late", size=5))
    assert not go(this.charge("acme", job.job_id, run=RUN))
    assert go(this.seal("acme", job.job_id, run=RUN, outcome="late")) is None
    assert go(this.progress("acme", job.job_id, run=RUN, stage="late", fraction=0.9)) == taken
    assert go(this.put_back("acme", job.job_id, run=RUN)) == taken
    late = go(this.finish("acme", job.job_id, run=RUN, status=JobStatus.SUCCEEDED, result={}, files=[named]))
    assert (late.job, late.is_ours) == (taken, False)
    assert go(files.get("acme", ARTIFACTS, job.job_id)) is None
    assert go(files.used("acme")) == 100

    assert go(other.checkpoint("acme", job.job_id, run=OTHER_RUN, state="next", size=60))
    assert go(files.used("acme")) == 60
    done = go(other.finish("acme", job.job_id, run=OTHER_RUN, status=JobStatus.SUCCEEDED, result={}, files=[named]))
    assert done.is_ours
    assert go(files.get("acme", ARTIFACTS, job.job_id)) == named.entry
    assert go(files.used("acme")) == 7


def test_a_quota_counts_the_files_of_all_jobs(go, store):
    create(go, store, size=60, bytes_max=100)
    with pytest.raises(StorageFull):
        create(go, store, size=41, bytes_max=100)
    second = create(go, store, size=40, bytes_max=100)
    go(store.cancel("acme", second.job_id))
    create(go, store, size=40, bytes_max=100)


def test_owners_are_listed_while_they_have_an_unfinished_job(go, client, store):
    go(Ledger(client, MASTER_KEY).open_tenant("acme", limits=limits(1)))
    job = create(go, store)
    go(client.call("ZADD", "{@jobs}:owners", 1, "acme"))
    go(client.call("ZADD", "{@jobs}:owners", 1, "none"))
    go(store.owners.refresh())
    assert go(client.call("ZRANGEBYSCORE", "{@jobs}:owners", "-inf", "+inf")) == [b"acme"]
    go(client.call("ZREM", "{@jobs}:owners", "acme"))
    assert go(store.unfinished_of_all()) == ()
    go(store.owners.refresh(all_tenants=True))
    assert [found.job_id for found in go(store.unfinished_of_all())] == [job.job_id]


def test_the_same_key_finds_the_same_job(go, store):
    job_id = secrets.token_hex(16)
    job = create(go, store, job_id=job_id)
    take(go, store, job)
    again, created = go(
        store.create("acme", job_id, kind="domain", label="law", claim="c1", open_max=1, state="s", size=0)
    )
    assert (again.status, created) == (JobStatus.RUNNING, False)
    with pytest.raises(IdempotencyConflict):
        create(go, store, job_id=job_id, claim="c2")


def test_a_quota_counts_unfinished_jobs(go, store):
    first = create(go, store, open_max=2, state="s", size=0)
    create(go, store, open_max=2, state="s", size=0)
    with pytest.raises(JobQuotaExceeded):
        create(go, store, open_max=2, state="s", size=0)
    with pytest.raises(JobQuotaExceeded):
        go(store.check_quota("acme", open_max=2))
    create(go, store, owner="other", open_max=2, state="s", size=0)
    go(store.cancel("acme", first.job_id))
    go(store.check_quota("acme", open_max=2))
    create(go, store, open_max=2, state="s", size=0)


def test_a_tenant_keeps_so_many_records_of_jobs(go, client, admin):
    now = [1_800_000_000_000]
    store = JobStore(client, gateway="this", retention_ms=60_000, caps=TenantCaps(jobs_max=3), clock=lambda: now[0])
    made = [create(go, store) for _ in range(3)]
    for job in made:
        go(store.cancel("acme", job.job_id))

    with pytest.raises(TenantLimitReached) as refused:
        create(go, store)

    assert refused.value.limit == "job_records_per_tenant_max"
    assert create(go, store, job_id=made[0].job_id).status is JobStatus.CANCELLED, "an earlier request is answered"
    create(go, store, owner="other")
    go(admin.call("DEL", f"{{acme}}:job:{made[0].job_id}"))  # as at the end of its retention
    now[0] += 60_001
    create(go, store)


def test_pages_are_newest_first(go, store):
    made = []
    for _ in range(5):
        made.append(create(go, store).job_id)
        go(asyncio.sleep(0.002))
    pages = pages_of(go, lambda cursor: store.page("acme", cursor=cursor, limit=2))
    assert [job.job_id for page in pages for job in page.jobs] == made[::-1]
    assert go(store.page("other", cursor=None, limit=10)).jobs == ()
    with pytest.raises(InvalidInput):
        go(store.page("acme", cursor="[-", limit=2))


def test_a_stampede_stays_within_the_quota(go, store):
    async def one() -> bool:
        try:
            await store.create(
                "acme", secrets.token_hex(16), kind="domain", label="law", claim="c", open_max=5, state="s", size=0
            )
        except JobQuotaExceeded:
            return False
        return True

    async def all_of_them() -> list[bool]:
        return await asyncio.gather(*(one() for _ in range(40)))

    assert sum(go(all_of_them())) == 5


def test_records_of_ended_jobs_expire_and_leave_the_list(go, client):
    store = JobStore(client, gateway="this", retention_ms=60)
    old = create(go, store)
    go(store.cancel("acme", old.job_id))
    go(asyncio.sleep(0.2))
    with pytest.raises(UnknownJob):
        go(store.get("acme", old.job_id))
    new = create(go, store)
    assert [job.job_id for job in go(store.page("acme", cursor=None, limit=10)).jobs] == [new.job_id]
    members = go(client.call("ZRANGEBYLEX", "{acme}:jobs", "-", "+"))
    assert len(members) == 1, "and Redis forgets them"


def test_entries_that_have_expired_are_gone_and_count_no_more(go, client) -> None:
    index = StoredFileIndex(client, bytes_max=10**6)
    entry = StoredEntry({".safetensors": StoredPart("blob", "digest", 100)}, "key", 10**15)
    for number in range(250):  # a script removes 100
        go(index.put("acme", NamedEntry(ARTIFACTS, f"{number:032x}", entry)))
    assert go(index.used("acme")) == 25_000
    go(client.call("ZADD", "{acme}:files:ends", *[part for n in range(249) for part in (1, f"artifacts/{n:032x}")]))
    assert go(index.used("acme")) == 100
    assert set(go(index.of_owner("acme", ARTIFACTS))) == {f"{249:032x}"}
    assert go(index.remove("acme", ARTIFACTS, f"{0:032x}")) is None
