"""One attempt at a job, from its files to its end: fetch them, run the process, seal the outcome, end the job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from core import spans
from core.blob_errors import BlobMissing, StoreUnavailable
from core.errors import LedgerError, StorageFull, UnknownJob
from core.job_errors import JobFailed, JobFilesLost
from core.ledger.job_records import JobRecord, JobStatus
from core.ledger.jobs import LEASE_MS, JobStore
from gpu_workers.jobs.protocol import Failed, Succeeded
from service.files.stored import StoredFiles
from service.jobs.attempt import Attempt, AttemptLimits, End, Outcome
from service.jobs.kind import JobKinds
from service.jobs.outcome import SealedOutcome, StoredOutcome, seal_outcome, sealed_outcome, store_outcome
from service.jobs.working import Checkpoint, WorkingFolders

_RENEWALS = 4  # in the time of one lease

RETRY_S = 1.0


async def traced_attempt(job: JobRecord, outcome: Awaitable[Outcome]) -> Outcome:
    """Await the outcome of an attempt, in a trace of its own: a job may run long after its request.

    The writes of its progress are no steps: there is one each half second.
    """
    span = spans.root("job attempt")
    span.set("gateway.job.id", job.job_id)
    span.set("gateway.job.kind", job.kind)
    span.set("gateway.job.attempt", job.attempts)
    try:
        found = await outcome
    except BaseException as error:
        span.fail(error)
        raise
    else:
        span.set("gateway.outcome", found if isinstance(found, End) else type(found).__name__.lower())
        if isinstance(found, Failed):
            span.fail(found.problem)
        return found
    finally:
        span.end()


@asynccontextmanager
async def lease_kept(store: JobStore, job: JobRecord, run: str, *, on_loss: Callable[[], None]) -> AsyncIterator[None]:
    """Renew the lease of `run` until the block ends. Calls `on_loss` once another attempt holds the job.

    While Redis does not answer, no lease can be renewed, and no other gateway can take the job either.
    """

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE_MS / 1000 / _RENEWALS)
            try:
                held = await store.renew(job.owner, job.job_id, run=run)
            except UnknownJob:
                held = False
            except LedgerError:
                continue
            if not held:
                on_loss()
                return

    task = asyncio.create_task(renew())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class JobExecution:
    """Runs attempts. An attempt that lost its job changes nothing; one whose outcome is sealed publishes it once."""

    def __init__(
        self,
        store: JobStore,
        working: WorkingFolders,
        stored: StoredFiles,
        kinds: JobKinds,
        *,
        limits: AttemptLimits,
        retention_s: float,
        alone: bool,
        stopping: asyncio.Event,
        on_end: Callable[[JobRecord], None],
    ) -> None:
        """`alone`: whether no other gateway can use the ledger, so that missing files are lost. `on_end` is called for
        each job that has ended."""
        self._store = store
        self._working = working
        self._stored = stored
        self._kinds = kinds
        self._limits = limits
        self._retention_s = retention_s
        self._alone = alone
        self._stopping = stopping
        self._on_end = on_end

    async def attempt(self, job: JobRecord, attempt: Attempt) -> Outcome:
        """On return the process has ended, and so has the job unless the outcome says otherwise."""
        run = attempt.run
        async with lease_kept(self._store, job, run, on_loss=lambda: attempt.interrupt(End.LOST)):
            outcome = await self._run(job, attempt)
            paused = outcome in (End.DIED, End.STOPPING, End.TURN_ENDED)
            if paused and await self._working.last_checkpoint(job, run) is Checkpoint.LOST:
                return End.LOST
            if isinstance(outcome, Succeeded):
                outcome = await self._sealed(job, run, outcome)
            if isinstance(outcome, SealedOutcome | Failed) or outcome is End.CANCELLED:
                return await self._finish(job, run, outcome)
            return outcome

    async def _run(self, job: JobRecord, attempt: Attempt) -> Outcome | SealedOutcome:
        """Run the process on the job's files, or find the outcome that an earlier attempt has sealed."""
        while True:
            try:
                sealed = await sealed_outcome(self._working.blobs, job)
                if sealed is not None:
                    return sealed
                await self._working.load(job)
                outcome = attempt.outcome(self._working.files, self._kinds, limits=self._limits)
                return await traced_attempt(job, outcome)
            except JobFailed as problem:
                return Failed(problem)
            except StorageFull:
                return Failed(JobFailed("The gateway has too little free disk space.", reason="storage-full"))
            except BlobMissing:
                return Failed(JobFilesLost()) if self._alone else End.ABSENT
            except StoreUnavailable:
                if self._stopping.is_set():
                    return End.STOPPING
                ended = await self._ended_hold(job, attempt.run)
                if ended is not None:
                    return ended
                await self._pause()

    async def _sealed(self, job: JobRecord, run: str, succeeded: Succeeded) -> SealedOutcome | Failed | End:
        """Store and seal what the process has made, however long Redis and the store take to answer."""
        made: StoredOutcome | None = None
        while True:
            ended = await self._ended_hold(job, run)
            if ended is not None:
                return ended
            try:
                if made is None:
                    made = await self._stored_outcome(job, succeeded)
                return await seal_outcome(self._store, self._working.blobs, job, run, made) or End.LOST
            except JobFailed as problem:
                return Failed(problem)
            except StorageFull:
                return Failed(JobFailed("The gateway has too little free disk space.", reason="storage-full"))
            except BlobMissing:
                return End.LOST
            except (StoreUnavailable, LedgerError):
                if self._stopping.is_set():
                    return End.STOPPING
                await self._pause()

    async def _stored_outcome(self, job: JobRecord, succeeded: Succeeded) -> StoredOutcome:
        fields = await asyncio.to_thread(lambda: self._working.files.open(job.job_id).fields)
        return await store_outcome(
            self._working.blobs,
            self._stored,
            job,
            self._working.files.outputs(job.owner, job.job_id),
            succeeded.result,
            installed=self._kinds[job.kind].installs(fields),
            retention_s=self._retention_s,
        )

    async def _ended_hold(self, job: JobRecord, run: str) -> End | None:
        """Why `run` may not go on, as soon as Redis answers or the gateway stops. None: Redis says that it holds the
        job."""
        while True:
            try:
                return None if await self._store.renew(job.owner, job.job_id, run=run) else End.LOST
            except UnknownJob:
                return End.LOST
            except LedgerError:
                if self._stopping.is_set():
                    return End.STOPPING
                await self._pause()

    async def _finish(self, job: JobRecord, run: str, outcome: SealedOutcome | Failed | End) -> Outcome:
        """Persist the end, however long Redis takes to accept it."""
        ends: dict[str, Any] = {"status": JobStatus.CANCELLED}
        if isinstance(outcome, SealedOutcome):
            ends = {"status": JobStatus.SUCCEEDED, "result": outcome.result, "files": outcome.files}
        elif isinstance(outcome, Failed):
            ends = {"status": JobStatus.FAILED, "problem": outcome.problem}
        while True:
            try:
                finished = await self._store.finish(job.owner, job.job_id, run=run, **ends)
            except UnknownJob:
                await self._working.forget(job.job_id)
                return End.CANCELLED
            except LedgerError:
                if self._stopping.is_set():
                    return End.STOPPING  # another gateway, or the next start, resumes the job
                await self._pause()
                continue
            for replaced in finished.replaced:
                await self._stored.discard(job.owner, replaced)
            if not finished.is_ours and not finished.job.status.ended:
                return End.LOST
            await self.ended(finished.job)
            return End.CANCELLED if isinstance(outcome, SealedOutcome) else outcome

    async def ended(self, job: JobRecord) -> None:
        """Remove the files of a job that has ended."""
        await self._working.remove(job.owner, job.job_id)
        self._on_end(job)

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), RETRY_S)
