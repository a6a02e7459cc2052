"""Runs the jobs of this gateway: one process a job, a few at a time, the rest wait in a `JobQueue`.

Guarantee: a job ends once. A job whose process or gateway died is resumed from its checkpoints, up to `attempts_max`
attempts; an orderly stop of the gateway is no attempt. At every end the job's files are removed. While Redis does not
answer, no job is started and no end is persisted; the runner tries again until Redis answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from core.errors import JobQuotaExceeded, LedgerError, QueueFull, TenantLimitReached, UnknownJob
from core.job_errors import JobAttemptsExhausted
from core.ledger.jobs import JobRecord, JobStatus, JobStore
from gpu_workers.engine.shares import tenant_places
from gpu_workers.jobs.messages import Failed, Succeeded
from service import metrics
from service.jobs.attempt import Attempt, AttemptLimits, Cancelled, Died, Stopping, TurnEnded
from service.jobs.files import Incoming, JobFiles
from service.jobs.kind import JobKinds, Outputs
from service.jobs.queue import JobQueue
from service.jobs.tracing import traced_attempt

log = logging.getLogger("privacy_gateway.jobs")

_RETRY_S = 1.0
_RECONCILE_S = 10.0


@dataclass(frozen=True)
class RunnerLimits:
    """Settings of the runner. `attempt`: the limits of one process."""

    running_max: int
    waiting_max: int
    tenant_share: float
    attempts_max: int
    retention_s: float
    attempt: AttemptLimits


class JobRunner:
    """The jobs of one data directory. Runs on the event loop, without locks."""

    def __init__(self, store: JobStore, files: JobFiles, kinds: JobKinds, *, limits: RunnerLimits) -> None:
        self.store = store
        self._files = files
        self._kinds = kinds
        self._limits = limits
        self._queue = JobQueue()
        self._arriving: list[tuple[str, str]] = []  # owner and id
        self._known: set[str] = set()  # queued or running in this gateway
        self._attempts: dict[str, Attempt] = {}
        self._consumers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._change = asyncio.Event()
        self._locked = False
        self._streaming = True

    async def claim_files(self) -> None:
        """Become the only gateway of this data directory, and remove what an earlier one left unfinished.

        This precedes the start of Redis, which cannot start on a full disk. Raises DataDirInUse.
        """
        self._files.lock()
        self._locked = True
        await asyncio.to_thread(self._files.sweep_unfinished)

    async def open(self) -> None:
        """Resume the unfinished jobs of this data directory. Raises LedgerUnavailable."""
        await self._reconcile()
        await asyncio.to_thread(self._files.sweep_artifacts, retention_s=self._limits.retention_s)
        self._consumers = [asyncio.create_task(self._consume()) for _ in range(self._limits.running_max)]
        self._consumers.append(asyncio.create_task(self._watch()))

    async def close(self) -> None:
        """End the processes. Their jobs return to the queue and resume from their checkpoints."""
        self._stopping.set()
        self._notify()
        for attempt in self._attempts.values():
            attempt.interrupt(Stopping())
        busy = [consumer for consumer in self._consumers if not consumer.done()]
        if busy:
            await asyncio.wait(busy, timeout=10.0)
        for consumer in self._consumers:
            consumer.cancel()
        await asyncio.gather(*self._consumers, return_exceptions=True)
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
            incoming = await asyncio.to_thread(self._files.incoming, owner, job_id)
            try:
                yield incoming
            finally:
                await asyncio.to_thread(incoming.discard)
        finally:
            self._arriving.remove((owner, job_id))

    def _admit(self, owner: str, arriving: int) -> None:
        """`arriving`: those of the owner. Raises QueueFull, TenantLimitReached."""
        limits = self._limits
        own = self._queue.waiting_of(owner) + arriving
        total = len(self._queue) + len(self._arriving)
        if total >= limits.waiting_max:
            raise QueueFull
        if own >= tenant_places(limits.waiting_max, others=total - own, share=limits.tenant_share):
            raise TenantLimitReached(limit="queue_tenant_share")

    def enqueue(self, job: JobRecord) -> None:
        """Queue a new job whose files are complete."""
        if job.job_id in self._known:
            return
        self._known.add(job.job_id)
        self._queue.put(job)
        metrics.JOBS_WAITING.set(len(self._queue))
        self._notify()

    def discard(self, job_id: str) -> None:
        """Remove the files of a job that was not created."""
        self._files.remove(job_id)

    def outputs(self, job: JobRecord) -> Outputs:
        """The files that the job writes."""
        return Outputs(job.owner, self._files.artifact(job.owner, job.job_id))

    async def remove_outputs(self, job: JobRecord) -> None:
        """Delete the files that `outputs` names."""
        await asyncio.to_thread(self._files.remove_artifact, job.owner, job.job_id)

    async def cancel(self, owner: str, job_id: str) -> JobRecord:
        """Cancel a job: a queued one at once, a running one when its process has ended. Raises UnknownJob."""
        job = await self.store.cancel(owner, job_id)
        if job.status is JobStatus.RUNNING and job_id in self._attempts:
            self._attempts[job_id].interrupt(Cancelled())
        if job.status is JobStatus.CANCELLED and job_id not in self._attempts:
            self._forget(job_id)
            await asyncio.to_thread(self._files.remove, job_id)
        self._notify()
        return job

    def _forget(self, job_id: str) -> None:
        """Free the place of a waiting job that has ended."""
        if self._queue.remove(job_id):
            self._known.discard(job_id)
            metrics.JOBS_WAITING.set(len(self._queue))

    def end_streams(self) -> None:
        """End every stream of events, before the gateway stops."""
        self._streaming = False
        self._notify()

    async def changed(self) -> bool:
        """Wait until a job may have changed, for at most a second. Returns False when the gateway stops."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._change.wait(), _RETRY_S)
        return self._streaming

    def _notify(self) -> None:
        former, self._change = self._change, asyncio.Event()
        former.set()

    async def _consume(self) -> None:
        while not self._stopping.is_set():
            waiting = asyncio.create_task(self._queue.get())
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not waiting.done():
                waiting.cancel()
                return
            metrics.JOBS_WAITING.set(len(self._queue))
            job = waiting.result()
            turn_ended = False
            try:
                turn_ended = await self._until_ended(job)
            except Exception as error:  # the consumer must not end: its jobs would wait forever
                log.error("job-consumer", extra={"fields": {"kind": type(error).__name__}})
            finally:
                self._known.discard(job.job_id)
                self._queue.ended(job)
                if turn_ended:
                    self.enqueue(job)

    async def _watch(self) -> None:
        """Find what a lost reply of Redis can leave behind: a job that is not queued, files without a job."""
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _RECONCILE_S)
            try:
                await self._reconcile()
            except LedgerError:
                continue
            except Exception as error:
                log.warning("job-reconcile", extra={"fields": {"kind": type(error).__name__}})

    async def _reconcile(self) -> None:
        """Queue the unfinished jobs that are not known, drop waiting ones that another gateway has cancelled, and
        remove folders without an unfinished job."""
        waited = self._queue.ids
        folders = await asyncio.to_thread(
            self._files.ids
        )  # listed before the jobs, so that no folder of a newer job is removed
        arriving = {*self._arriving_ids(), *self._known}
        unfinished = await self.store.unfinished_of_gateway()
        for job in unfinished:
            if job.job_id not in self._arriving_ids():
                self.enqueue(job)  # a job without files fails when it starts
        for ended in waited - {job.job_id for job in unfinished}:
            self._forget(ended)
        for orphan in folders - arriving - {*self._arriving_ids(), *self._known} - {job.job_id for job in unfinished}:
            await asyncio.to_thread(self._files.remove, orphan)

    def _arriving_ids(self) -> set[str]:
        return {job_id for _, job_id in self._arriving}

    async def _until_ended(self, job: JobRecord) -> bool:
        """Run attempts until the job has ended, its turn has, or the gateway stops. Returns whether its turn has."""
        while not self._stopping.is_set():
            run = secrets.token_hex(16)
            try:
                taken = await self.store.take(
                    job.owner,
                    job.job_id,
                    run=run,
                    attempts_max=self._limits.attempts_max,
                    exhausted=JobAttemptsExhausted(reason="attempts-exhausted", count=self._limits.attempts_max),
                )
            except UnknownJob:
                await asyncio.to_thread(self._files.remove, job.job_id)
                return False
            except LedgerError:
                await self._pause()
                continue
            self._notify()
            if taken.status is not JobStatus.RUNNING:
                await self._ended(taken)
                return False
            attempt = self._attempts[job.job_id] = Attempt(
                self.store,
                taken,
                run,
                on_update=self._notify,
                others_wait=lambda: self._queue.others_wait(job.owner),
            )
            try:
                if self._stopping.is_set():
                    attempt.interrupt(Stopping())
                outcome = await traced_attempt(
                    taken, attempt.outcome(self._files, self._kinds, limits=self._limits.attempt)
                )
            finally:
                del self._attempts[job.job_id]
            if isinstance(outcome, Died):
                log.warning("job-process-died", extra={"fields": {"job_id": job.job_id, "attempt": taken.attempts}})
                continue
            if isinstance(outcome, Stopping | TurnEnded):
                with contextlib.suppress(LedgerError):  # without an answer, it counts as an attempt
                    await self.store.put_back(job.owner, job.job_id, run=run)
                self._notify()
                return isinstance(outcome, TurnEnded)
            await self._finish(taken, run, outcome)
            return False
        return False

    async def _finish(self, job: JobRecord, run: str, outcome: Succeeded | Failed | Cancelled) -> None:
        """Persist the end, however long Redis takes to accept it."""
        ends: dict[str, Any] = {"status": JobStatus.CANCELLED}
        if isinstance(outcome, Succeeded):
            ends = {"status": JobStatus.SUCCEEDED, "result": outcome.result}
        elif isinstance(outcome, Failed):
            ends = {"status": JobStatus.FAILED, "problem": outcome.problem}
        while True:
            try:
                await self._ended(await self.store.finish(job.owner, job.job_id, run=run, **ends))
                return
            except UnknownJob:
                await asyncio.to_thread(self._files.remove, job.job_id)
                return
            except LedgerError:
                if self._stopping.is_set():
                    return  # the next start resumes the job
                await self._pause()

    async def _ended(self, job: JobRecord) -> None:
        await asyncio.to_thread(self._files.remove, job.job_id)
        if job.status is not JobStatus.SUCCEEDED:
            await self.remove_outputs(job)
        metrics.JOBS.labels(job.kind, job.status.value).inc()
        if job.started_ms is not None and job.ended_ms is not None:
            metrics.JOB_SECONDS.labels(job.kind).observe((job.ended_ms - job.started_ms) / 1000)
        fields = {"job_id": job.job_id, "kind": job.kind, "status": job.status.value}
        log.info("job-ended", extra={"fields": fields})
        self._notify()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), _RETRY_S)
