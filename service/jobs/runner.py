"""Runs jobs: one process a job, a few at a time; the rest wait in a `JobQueue`, in the order in which they start.

Every gateway runs the jobs of all gateways: `JobSweep` finds those that wait, and those whose gateway has died.

Guarantee: a job ends once. A job whose process or gateway died is resumed from its checkpoints, up to `attempts_max`
attempts; an orderly stop of the gateway is no attempt. An attempt that lost its job publishes nothing. At every end the
job's files are removed. While Redis or the blob store does not answer, no job is started and no end is persisted; the
runner tries again until they answer.

A job is taken from another gateway only if its lease has ended on the clock of Redis. This process then waits for
GRACE_S more, so that a gateway that lives renews its leases first after an outage of Redis. `job.lua` checks the lease
again. A job stays queued, where any gateway may take it, until this one can start its process. So no gateway holds the
lease of a job that it cannot run.
"""

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.errors import JobQuotaExceeded, LedgerError, UnknownJob
from core.ledger.transitions import Ledger
from core.state.jobs import LISTED_MS, JobRecord, JobStatus, JobStore
from core.state.stored_files import ARTIFACTS
from gpu_workers.engine.fairness import check_places
from service import metrics
from service.files.stored import StoredFiles
from service.jobs.attempt import RETRY_S, Attempt, End, JobExecution, Outcome, RunnerLimits, exhausted
from service.jobs.blobs import JobBlobs, WorkingFolders
from service.jobs.files import Incoming, JobFiles
from service.jobs.holds import PartHolds
from service.jobs.kind import JobKinds
from service.jobs.remote import RemoteStart


class JobQueue:
    """Jobs start in turns of their owners: how many jobs an owner has waiting does not delay another owner's.

    The next job is of the owner with the fewest running jobs; among those, of the one whose last start is longest ago;
    of one owner, the job that has waited longest. A job that has ended its turn is put at the end.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, JobRecord] = {}  # in the order of arrival
        self._running: Counter[str] = Counter()
        self.elsewhere: Counter[str] = Counter()  # jobs that run on other gateways, by their owners
        self._last_start: dict[str, int] = {}
        self._starts = itertools.count(1)
        self._came = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def ids(self) -> set[str]:
        return set(self._waiting)

    def waiting_of(self, owner: str) -> int:
        return sum(job.owner == owner for job in self._waiting.values())

    def others_wait(self, owner: str) -> bool:
        """Whether a job of another owner waits."""
        return any(job.owner != owner for job in self._waiting.values())

    def put(self, job: JobRecord) -> None:
        self._waiting[job.job_id] = job
        self._came.set()

    def remove(self, job_id: str) -> bool:
        """Returns whether the job was waiting."""
        return self._waiting.pop(job_id, None) is not None

    async def get(self) -> JobRecord:
        """Wait until a job waits. The job that is next then counts as running until `ended`."""
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
        job = min(  # the first of equal ones
            self._waiting.values(),
            key=lambda each: (
                self._running[each.owner] + self.elsewhere[each.owner],
                self._last_start.get(each.owner, 0),
            ),
        )
        del self._waiting[job.job_id]
        self._running[job.owner] += 1
        self._last_start[job.owner] = next(self._starts)
        return job

    def ended(self, job: JobRecord) -> None:
        self._running[job.owner] -= 1


SWEEP_S = 2.0
GRACE_S = 5.0


@dataclass(frozen=True)
class OpenJobs:
    """Unfinished jobs that this gateway may take, oldest first, and how many run elsewhere, by owner."""

    free: list[JobRecord]
    running_elsewhere: Counter[str]


class JobSweep:
    """Remembers when it first saw that a lease had ended."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._ended_at: dict[str, float] = {}  # by run
        self._left: set[str] = set()

    def leave(self, job_id: str) -> None:
        """Leave this job to other gateways, as long as this process lives: it has not the job's files."""
        self._left.add(job_id)

    async def look(self) -> OpenJobs:
        """Raises LedgerUnavailable."""
        jobs = await self._store.unfinished_of_all()
        self._left &= {job.job_id for job in jobs}
        running = [job for job in jobs if job.status is JobStatus.RUNNING and job.gateway != self._store.gateway]
        overdue = set()
        if running:
            now_ms = await self._store.now_ms()
            overdue = {job.run for job in running if job.lease_ms <= now_ms}
        now = time.monotonic()
        self._ended_at = {run: self._ended_at.get(run, now) for run in overdue}
        dead = {run for run, since in self._ended_at.items() if now - since >= GRACE_S}
        elsewhere = {job.job_id for job in running if job.run not in dead}
        return OpenJobs(
            [job for job in jobs if job.status is not JobStatus.PAUSED and job.job_id not in elsewhere | self._left],
            Counter(job.owner for job in running if job.job_id in elsewhere),
        )


log = logging.getLogger("privacy_gateway.jobs")


class JobRunner:
    """The jobs of one gateway. Runs on the event loop, without locks."""

    def __init__(
        self,
        store: JobStore,
        files: JobFiles,
        blobs: JobBlobs,
        stored: StoredFiles,
        kinds: JobKinds,
        *,
        ledger: Ledger,
        limits: RunnerLimits,
        elsewhere: RemoteStart | None = None,
    ) -> None:
        """`elsewhere`: where jobs run, by default in processes of this machine."""
        self.store = store
        self._elsewhere = elsewhere
        self._holds = PartHolds(ledger, store)
        self.working = WorkingFolders(store, files, blobs)
        self._files = files
        self._stored = stored
        self._kinds = kinds
        self._limits = limits
        self._sweep = JobSweep(store)
        self._queue = JobQueue()
        self._arriving: list[tuple[str, str]] = []  # owner and id
        self._known: set[str] = set()  # queued or running in this gateway
        self._attempts: dict[str, Attempt] = {}
        self._runs: dict[str, tuple[JobRecord, str]] = {}  # jobs that this gateway may hold, and by which attempt
        self._consumers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._execution = JobExecution(
            store,
            self.working,
            stored,
            kinds,
            limits=limits.attempt,
            retention_s=limits.retention_s,
            alone=limits.alone,
            stopping=self._stopping,
            holds=self._holds,
            on_end=self._record_end,
        )
        self._change = asyncio.Event()
        self._locked = False
        self._streaming = True

    async def claim_files(self) -> None:
        """Become the only gateway of this data directory, and remove what an earlier process left unfinished.

        This precedes the start of Redis, which cannot start on a full disk. Raises DataDirInUse.
        """
        self._files.lock()
        self._locked = True
        await asyncio.to_thread(self._files.sweep_unfinished)
        await asyncio.to_thread(self._stored.copies.sweep_drafts)

    async def open(self) -> None:
        """Find the unfinished jobs. Raises LedgerUnavailable, StoreUnavailable."""
        await self.store.owners.refresh(all_tenants=True)
        await self._reconcile()
        self._consumers = [asyncio.create_task(self._consume()) for _ in range(self._limits.running_max)]
        self._consumers.append(asyncio.create_task(self._watch()))

    async def close(self) -> None:
        """End the processes. Their jobs return to the queue and resume from their checkpoints."""
        self._stopping.set()
        self._notify()
        for attempt in self._attempts.values():
            attempt.interrupt(End.STOPPING)
        busy = [consumer for consumer in self._consumers if not consumer.done()]
        if busy:
            await asyncio.wait(busy, timeout=10.0)
        for consumer in self._consumers:
            consumer.cancel()
        await asyncio.gather(*self._consumers, return_exceptions=True)
        for job, run in list(self._runs.values()):  # of a consumer that did not end in time
            await self._put_back(job, run)
        if self._locked:
            self._files.unlock()

    @asynccontextmanager
    async def receiving(self, owner: str, job_id: str, *, is_new: bool, open_max: int) -> AsyncIterator[Incoming]:
        """A place for an input, which is removed at the end of the block unless a job was created from it.

        An arriving input counts as one of its owner's `open_max` unfinished jobs. Raises JobQuotaExceeded, StorageFull;
        QueueFull when too many jobs of all owners are waiting or arriving, TenantLimitReached when too many are its
        own.
        """
        earlier = sum(other == owner for other, _ in self._arriving)
        self._admit(owner, earlier)
        if earlier >= open_max:
            raise JobQuotaExceeded
        self._arriving.append((owner, job_id))
        try:
            if is_new:
                await self.store.check_quota(owner, open_max=open_max - earlier)
            stored = await self._files.storage.stored(owner)
            incoming = await asyncio.to_thread(self._files.incoming, owner, job_id, stored=stored)
            try:
                yield incoming
            finally:
                await asyncio.to_thread(incoming.discard)
        finally:
            self._arriving.remove((owner, job_id))

    def _admit(self, owner: str, arriving: int) -> None:
        """`arriving`: those of the owner. Raises QueueFull, TenantLimitReached."""
        own, total = self._queue.waiting_of(owner) + arriving, len(self._queue) + len(self._arriving)
        limits = self._limits
        check_places(limits.waiting_max, own=own, total=total, share=limits.tenant_share, limit="queue_tenant_share")

    def enqueue(self, job: JobRecord) -> None:
        """Queue a new job whose files are complete, unless it waits for another gateway."""
        kind = self._kinds.get(job.kind)
        if job.job_id in self._known or (kind is not None and not kind.can_run(job.label)):
            return
        self._known.add(job.job_id)
        self._queue.put(job)
        metrics.JOBS_WAITING.set(len(self._queue))
        self._notify()

    async def output(self, job: JobRecord, suffix: str) -> Path | None:
        """A verified local copy of a file that the job has made, None if it is not kept."""
        found = await self._stored.find(job.owner, ARTIFACTS, job.job_id, suffix)
        return None if found is None else Path(found.path)

    async def remove_outputs(self, job: JobRecord) -> bool:
        """Delete what the job has made. Returns whether it was kept."""
        return await self._stored.remove(job.owner, ARTIFACTS, job.job_id)

    async def cancel(self, owner: str, job_id: str) -> JobRecord:
        """Cancel a job: a queued one at once, a running one when its process has ended. Raises UnknownJob."""
        job = await self.store.cancel(owner, job_id)
        if job.status is JobStatus.RUNNING and job_id in self._attempts:
            self._attempts[job_id].interrupt(End.CANCELLED)
        if job.status is JobStatus.CANCELLED and job_id not in self._attempts:
            if self._forget(job_id):
                self._record_end(job)
            await self.working.remove(owner, job_id)
        self._notify()
        return job

    async def pause(self, owner: str, job_id: str) -> JobRecord:
        """Pause a job: a queued one at once, a running one when its process has ended. Raises UnknownJob."""
        job = await self.store.pause(owner, job_id)
        if job.status is JobStatus.PAUSED:
            self._forget(job_id)
        self._notify()
        return job

    async def resume(self, owner: str, job_id: str) -> JobRecord:
        """Queue a paused job again. Raises UnknownJob."""
        job = await self.store.resume(owner, job_id)
        if job.status is JobStatus.QUEUED:
            self.enqueue(job)
        self._notify()
        return job

    def _forget(self, job_id: str) -> bool:
        """Free the place of a job that has ended. Returns whether it waited."""
        waited = self._queue.remove(job_id)
        if waited:
            self._known.discard(job_id)
            metrics.JOBS_WAITING.set(len(self._queue))
        return waited

    def end_streams(self) -> None:
        """End every stream of events, before the gateway stops."""
        self._streaming = False
        self._notify()

    async def changed(self) -> bool:
        """Wait until a job may have changed, for at most a second. Returns False when the gateway stops."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._change.wait(), RETRY_S)
        return self._streaming

    def _notify(self) -> None:
        former, self._change = self._change, asyncio.Event()
        former.set()

    async def _consume(self) -> None:
        while (job := await self._next()) is not None:
            metrics.JOBS_WAITING.set(len(self._queue))
            continues = False
            try:
                continues = await self._until_ended(job)
                self._runs.pop(job.job_id, None)
            except Exception as error:  # the consumer must not end: its jobs would wait forever
                log.error("job-consumer", extra={"fields": {"kind": type(error).__name__}})
            finally:
                self._known.discard(job.job_id)
                self._queue.ended(job)
                if continues:
                    self.enqueue(job)

    async def _next(self) -> JobRecord | None:
        """The job that is next. None when the gateway stops."""
        taking = asyncio.create_task(self._queue.get())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return taking.result() if taking.done() else None
        finally:
            for task in (taking, stopping):
                task.cancel()

    async def _watch(self) -> None:
        """Find jobs that wait or that lost their gateway, and what a lost reply of Redis can leave behind."""
        listed_at = time.monotonic()
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SWEEP_S)
            try:
                await self._reconcile()
                if time.monotonic() - listed_at > LISTED_MS / 1000 / 6:
                    await self.store.owners.refresh()
                    listed_at = time.monotonic()
            except LedgerError:
                continue
            except Exception as error:
                log.warning("job-reconcile", extra={"fields": {"kind": type(error).__name__}})

    async def _reconcile(self) -> None:
        """Queue the jobs that this gateway may take, drop waiting ones that it may not take any more, and remove
        folders of jobs that have ended or that run elsewhere."""
        waited = self._queue.ids
        # Folders are listed before the jobs, so that no folder of a newer job is removed.
        folders = await asyncio.to_thread(self._files.ids)
        busy = {*self._arriving_ids(), *self._known}  # what is found of them may be outdated when it is found
        found = await self._sweep.look()
        self._queue.elsewhere = found.running_elsewhere
        for job in found.free:
            if job.job_id not in busy | self._arriving_ids():
                self.enqueue(job)  # a job without files fails when it starts
        free = {job.job_id for job in found.free}
        for gone in waited - free:
            self._forget(gone)
        for orphan in folders - busy - {*self._arriving_ids(), *self._known} - free:
            await self.working.forget(orphan)

    def _arriving_ids(self) -> set[str]:
        return {job_id for _, job_id in self._arriving}

    async def _until_ended(self, job: JobRecord) -> bool:
        """Run attempts until the job has ended, its turn has, another gateway has it, or this one stops.

        Returns whether it waits again.
        """
        run = secrets.token_hex(16)
        while not self._stopping.is_set():
            self._runs[job.job_id] = job, run
            try:
                taken = await self.store.take(
                    job.owner,
                    job.job_id,
                    run=run,
                    attempts_max=self._limits.attempt.attempts_max,
                    exhausted=exhausted(self._limits.attempt.attempts_max),
                )
            except UnknownJob:
                await self.working.forget(job.job_id)
                return False
            except LedgerError:  # the reply may be lost: the same `run` is no further attempt
                await self._pause()
                continue
            if taken is None:  # another gateway was first
                await self.working.forget(job.job_id)
                return False
            self._notify()
            if taken.status is not JobStatus.RUNNING:
                await self._execution.ended(taken)
                return False
            outcome = await self._attempted(taken, run)
            if outcome is End.DIED and not self._stopping.is_set():
                log.warning("job-process-died", extra={"fields": {"job_id": job.job_id, "attempt": taken.attempts}})
                run = secrets.token_hex(16)
                continue
            if outcome is End.LOST:
                log.warning("job-lost", extra={"fields": {"job_id": job.job_id, "attempt": taken.attempts}})
                await self.working.forget(job.job_id)
                return False
            if outcome is End.ABSENT:
                log.error("job-files-absent", extra={"fields": {"job_id": job.job_id}})
                self._sweep.leave(job.job_id)
            if outcome in (End.STOPPING, End.TURN_ENDED, End.PAUSED, End.ABSENT, End.DIED):
                await self._put_back(job, run)
                self._notify()
                return outcome is End.TURN_ENDED
            return False
        await self._put_back(job, run)  # it may have been taken by a call whose reply was lost
        return False

    async def _put_back(self, job: JobRecord, run: str) -> None:
        """Queue a job again that this attempt may hold. Without an answer of Redis, it counts as an attempt."""
        with contextlib.suppress(LedgerError, UnknownJob):
            await self.store.put_back(job.owner, job.job_id, run=run)

    async def _attempted(self, job: JobRecord, run: str) -> Outcome:
        attempt = self._attempts[job.job_id] = Attempt(
            self.store,
            job,
            run,
            on_update=self._notify,
            others_wait=lambda: self._queue.others_wait(job.owner),
            checkpoint=lambda: self.working.checkpoint(job, run),
            holds=self._holds,
            start=None if self._elsewhere is None else partial(self._elsewhere.start, self.working),
        )
        try:
            if self._stopping.is_set():
                attempt.interrupt(End.STOPPING)
            return await self._execution.attempt(job, attempt)
        finally:
            del self._attempts[job.job_id]

    def _record_end(self, job: JobRecord) -> None:
        metrics.JOBS.labels(job.kind, job.status.value).inc()
        if job.started_ms is not None and job.ended_ms is not None:
            metrics.JOB_SECONDS.labels(job.kind).observe((job.ended_ms - job.started_ms) / 1000)
        fields = {"job_id": job.job_id, "kind": job.kind, "status": job.status.value}
        log.info("job-ended", extra={"fields": fields})
        self._notify()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), RETRY_S)
