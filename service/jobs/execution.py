"""One attempt at a job, from its files to its end: fetch them, run the process, seal the outcome, end the job.

Guarantee: an outcome is sealed once, by the attempt that holds the job at that moment: its name is set in the job's
record. It is stored before the job ends. Every later attempt publishes that one and draws nothing. What an attempt has
stored that lost its job gets no name, whatever it made and however late. So no second draw of noise leaves the gateway
for one charge.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from core import spans
from core.errors import BlobMissing, JobFailed, JobFilesLost, LedgerError, StorageFull, StoreUnavailable, UnknownJob
from core.state.jobs import LEASE_MS, JobRecord, JobStatus, JobStore
from core.state.stored_files import ARTIFACTS, NamedEntry, StoredEntry
from gpu_workers.jobs.protocol import Failed, Succeeded
from service.files.stored import StoredFiles
from service.jobs.attempt import Attempt, AttemptLimits, End, Outcome
from service.jobs.blobs import JobBlobs
from service.jobs.kind import JobKinds, Outputs
from service.jobs.working import Checkpoint, WorkingFolders


@dataclass(frozen=True)
class SealedOutcome:
    """The result of a job, and the names that its files get."""

    result: Mapping[str, Any]
    files: Sequence[NamedEntry]

    def packed(self) -> bytes:
        files = [[each.area, each.name, each.entry.as_json()] for each in self.files]
        return orjson.dumps({"result": self.result, "files": files}, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def unpacked(cls, content: bytes) -> SealedOutcome:
        value = orjson.loads(content)
        return cls(
            value["result"],
            [NamedEntry(area, name, StoredEntry.of_json(entry)) for area, name, entry in value["files"]],
        )


@dataclass(frozen=True)
class StoredOutcome:
    """An outcome in the blob store, under a name. It stands once the job's record has that name."""

    name: str
    outcome: SealedOutcome


async def sealed_outcome(blobs: JobBlobs, job: JobRecord) -> SealedOutcome | None:
    """The outcome that the job publishes, if one is sealed. Raises BlobMissing, JobFilesLost, StoreUnavailable."""
    if job.outcome is None:
        return None
    return SealedOutcome.unpacked(await blobs.outcome(job.owner, job.job_id, job.outcome))


async def store_outcome(
    blobs: JobBlobs,
    stored: StoredFiles,
    job: JobRecord,
    outputs: Outputs,
    result: Mapping[str, Any],
    *,
    installed: tuple[str, str] | None,
    retention_s: float,
) -> StoredOutcome:
    """Store what the process has written. What is never sealed is removed as an orphan.

    `installed`: area and name under which requests find the artifact. Raises JobFilesLost, StoreUnavailable,
    StorageFull.
    """
    paths = {path.suffix: path for path in (outputs.artifact, outputs.card, outputs.report)}
    files = await asyncio.to_thread(lambda: {suffix: path for suffix, path in paths.items() if path.is_file()})
    if outputs.artifact.suffix not in files:
        raise JobFilesLost
    ends_ms = int((time.time() + retention_s) * 1000)
    named = [await stored.upload(job.owner, ARTIFACTS, job.job_id, files, ends_ms=ends_ms)]
    if installed is not None:
        area, name = installed
        named.append(await stored.upload(job.owner, area, name, files))
    outcome = SealedOutcome(result, named)
    return StoredOutcome(await blobs.put_outcome(job.owner, job.job_id, outcome.packed()), outcome)


async def seal_outcome(
    jobs: JobStore, blobs: JobBlobs, job: JobRecord, run: str, made: StoredOutcome
) -> SealedOutcome | None:
    """Seal a stored outcome. Returns the outcome that stands; None if `run` does not hold the job any more.

    Safe to repeat after a lost reply. Raises LedgerUnavailable, UnknownJob; as `sealed_outcome`.
    """
    standing = await jobs.seal(job.owner, job.job_id, run=run, outcome=made.name)
    if standing == made.name:
        return made.outcome
    return await sealed_outcome(blobs, replace(job, outcome=standing))


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
