"""One attempt at a job, from its files to its end: fetch them, run the process, seal the outcome, end the job.

Guarantee: an outcome is sealed once, by the attempt that holds the job at that moment: its name is set in the job's
record. It is stored before the job ends. Every later attempt publishes that one and draws nothing. What an attempt has
stored that lost its job gets no name, whatever it made and however late. So no second draw of noise leaves the gateway
for one charge.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

import orjson

from core import spans
from core.amounts import Amount
from core.errors import (
    BlobMissing,
    HoldNotOpen,
    InvalidInput,
    JobFailed,
    JobFilesLost,
    LedgerError,
    StorageFull,
    StoreUnavailable,
    UnknownJob,
    WorkerCold,
)
from core.ledger.records import Charge
from core.state.jobs import LEASE_MS, JobRecord, JobStatus, JobStore
from core.state.stored_files import NamedEntry, StoredEntry
from gpu_workers.fork_server import ChildProcess
from gpu_workers.jobs.protocol import (
    Charged,
    ChargeRequested,
    Failed,
    Held,
    HoldRequested,
    JobOrder,
    JobProgress,
    Priority,
    Succeeded,
)
from service.config.settings import Settings
from service.files.stored import StoredFiles
from service.jobs.blobs import CheckpointResult, JobBlobs, WorkingFolders
from service.jobs.files import JobFiles
from service.jobs.holds import PartHolds
from service.jobs.kind import JobKinds, Made, Outputs
from service.jobs.start import JobProcess, StartJob

log = logging.getLogger("privacy_gateway.jobs")

MODULE = "gpu_workers.jobs.process"
PRELOAD = ("torch",)  # of a fork server: every kind of job uses it

JOBS_WAITING_MAX = 32  # that wait or are uploaded on a gateway, where the input of each is on the disk
# starts of a job that gets no further: one whose process dies each time would keep the device from the others
JOB_ATTEMPTS_MAX = 3
# After this time a job gives its place to a waiting job of another tenant, and loads its models again later.
JOB_TURN_S = 600.0
_BEAT_S = 0.5  # interval at which progress is persisted and cancel requests of other gateways are noticed


class End(StrEnum):
    """How an attempt ended that has neither a result nor a failure."""

    DIED = "died"  # the process ended without a result
    CANCELLED = "cancelled"
    STOPPING = "stopping"  # the gateway is
    LOST = "lost"  # another attempt holds the job; this one may change nothing any more
    ABSENT = "absent"  # the files are not in the store of this gateway, but may be in that of another one
    PAUSED = "paused"  # at its caller's request; the next attempt continues from the checkpoint
    TURN_ENDED = "turnended"  # a job of another tenant has its turn; the next attempt continues from the checkpoint


@dataclass(frozen=True)
class AttemptLimits:
    """Of one process: its time, its time while others wait, its memory (`gpu_workers/jobs/process.py`), its scheduling
    priority, and how many of them a job may have."""

    seconds_max: float
    turn_s: float
    memory_bytes_max: int
    priority: Priority
    attempts_max: int = JOB_ATTEMPTS_MAX


def exhausted(attempts_max: int) -> JobFailed:
    """The problem of a job whose processes died too often."""
    return JobFailed(code="job-attempts-exhausted", reason="attempts-exhausted", count=attempts_max)


@dataclass(frozen=True)
class RunnerLimits:
    """`running_max`: 0 where other gateways run the jobs. `attempt`: the limits of one process. `alone`: whether no
    other gateway can use the ledger."""

    running_max: int
    waiting_max: int
    tenant_share: float
    retention_s: float
    alone: bool
    attempt: AttemptLimits


def runner_limits(settings: Settings) -> RunnerLimits:
    return RunnerLimits(
        running_max=settings.jobs_running_max if "jobs" in settings.serves else 0,
        waiting_max=JOBS_WAITING_MAX,
        tenant_share=settings.queue_tenant_share,
        retention_s=settings.job_retention_s,
        alone=settings.redis_url is None,
        attempt=AttemptLimits(
            seconds_max=settings.job_seconds_max,
            turn_s=JOB_TURN_S,
            memory_bytes_max=settings.job_memory_bytes_max,
            priority=settings.job_priority,
        ),
    )


Outcome = Succeeded | Failed | End


class Attempt:
    """Runs the job that `run` owns. `interrupt` ends it from outside."""

    def __init__(
        self,
        store: JobStore,
        job: JobRecord,
        run: str,
        *,
        on_update: Callable[[], None],
        others_wait: Callable[[], bool],
        checkpoint: Callable[[], Awaitable[CheckpointResult]],
        holds: PartHolds,
        start: StartJob | None = None,
    ) -> None:
        """`checkpoint` stores the files that have changed. `on_update` is called whenever the job's record may have
        changed. `others_wait`: whether a job of another tenant waits for this one's place. `start`: by default
        `start_job`."""
        self._store = store
        self._job = job
        self.run = run
        self._on_update = on_update
        self._others_wait = others_wait
        self._checkpoint = checkpoint
        self._holds = holds
        self._start = start
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()

    def interrupt(self, outcome: End) -> None:
        """End with this outcome, unless the process has ended before."""
        self._inbox.put_nowait(outcome)

    async def outcome(self, files: JobFiles, kinds: JobKinds, *, limits: AttemptLimits) -> Outcome:
        """Start the process and wait for its end. It changes nothing any more when this returns."""
        job = self._job
        try:
            opened = await asyncio.to_thread(files.open, job.job_id)
            kind = kinds[job.kind]
            outputs = files.outputs(job.owner, job.job_id, kind.artifact_suffix(opened.fields))
            start = kind.start or self._start or start_job
            if start is self._start:  # its working directory is the job's folder
                outputs = Outputs(job.owner, outputs.artifact.relative_to(opened.folder))
            spec = await kind.specification(opened.fields, outputs)
        except JobFailed as problem:
            return Failed(problem)
        except (ValueError, KeyError, InvalidInput):
            return Failed(JobFilesLost(reason="unknown-kind"))
        process = start(
            JobOrder(
                kind.entry_point,
                opened.folder,
                opened.key,
                spec,
                priority=limits.priority,
                memory_bytes_max=limits.memory_bytes_max,
            ),
            job=job,
            on_message=self._inbox.put_nowait,
            on_death=lambda: self._inbox.put_nowait(End.DIED),
        )
        try:
            return await self._listen(process, files, limits, partial(kind.part_charges, opened.fields), opened.fields)
        finally:
            process.kill()
            await process.stop()

    async def _listen(
        self,
        process: JobProcess,
        files: JobFiles,
        limits: AttemptLimits,
        charges_of: Callable[[HoldRequested], Sequence[Charge]],
        fields: Mapping[str, Any],
    ) -> Outcome:
        """Persist progress until the process exits, the job is cancelled, its time ends, or the disk is almost full.

        After its turn, it gives its place to another tenant's job, as soon as it has written a checkpoint.

        When the process asks for its charge or a hold, answer once the ledger has it. While Redis is unavailable, try
        again.

        Metrics depend on the noise that the process has drawn. They are persisted only once the blob store has the
        checkpoint that holds this noise: the next attempt, on any gateway, then draws none of it again.

        What depends on noise is believed only after the ledger has spent the job's hold. A process that reports metrics
        or a result before fails the job: no metric or result of it is kept, and the hold is refunded.
        """
        job = self._job
        owes = (
            job.reserved != Amount(0) and not job.open_holds
        )  # until the ledger has spent the hold, in this attempt or an earlier one
        stage, fraction, metrics = "starting", job.progress, job.metrics
        save = partial(self._store.progress, job.owner, job.job_id, run=self.run)
        asked: list[ChargeRequested | HoldRequested] = []
        beat_at = time.monotonic() + _BEAT_S
        ends_at = time.monotonic() + limits.seconds_max
        turn_ends_at = time.monotonic() + limits.turn_s
        while True:
            message: Any = None
            with contextlib.suppress(TimeoutError):
                message = await asyncio.wait_for(self._inbox.get(), max(0.0, beat_at - time.monotonic()))
            if owes and _depends_on_noise(message):
                log.error("job-not-charged", extra={"fields": {"job_id": job.job_id}})
                return Failed(JobFailed("The process drew noise before the job was charged.", reason="not-charged"))
            if isinstance(message, JobProgress):
                stage, fraction = message.stage, max(fraction, message.fraction)
                if message.metrics:
                    metrics = {**(metrics or {}), **message.metrics}
            elif isinstance(message, ChargeRequested | HoldRequested):
                asked.append(message)
            elif message is not None:
                if isinstance(message, Succeeded) and metrics is not None:
                    with contextlib.suppress(LedgerError):  # the final metrics
                        if await self._checkpoint() is CheckpointResult.STORED:
                            await save(stage=stage, fraction=fraction, metrics=metrics)
                outcome: Outcome = message
                return outcome
            try:
                while asked:
                    answer = await self._answer(asked[0], charges_of, fields)
                    if answer is None:
                        return End.CANCELLED
                    process.send(answer)
                    owes = owes and not isinstance(answer, Charged)
                    del asked[0]
            except HoldNotOpen:
                return Failed(JobFailed("The job's hold in the ledger has ended.", reason="hold-ended"))
            except LedgerError:
                pass  # asked again at the next beat
            if time.monotonic() < beat_at:
                continue
            beat_at = time.monotonic() + _BEAT_S
            if time.monotonic() > ends_at:
                return Failed(JobFailed("The job ran longer than a job may.", reason="time-limit"))
            if time.monotonic() > turn_ends_at and self._others_wait():
                written = await asyncio.to_thread(files.checkpoint_time, job.job_id)
                if time.time() - written <= 2 * _BEAT_S:
                    return End.TURN_ENDED
            if await asyncio.to_thread(files.storage.is_low):
                return Failed(JobFailed("The gateway has too little free disk space.", reason="storage-full"))
            try:
                stored = await self._checkpoint()
                if stored is CheckpointResult.LOST:
                    return End.LOST
                shown = metrics if stored is CheckpointResult.STORED else None  # None changes nothing
                now = await save(stage=stage, fraction=fraction, metrics=shown)
            except LedgerError:
                continue  # the work goes on; its end is persisted when Redis answers
            self._on_update()
            if now.run != self.run and not now.status.ended:
                return End.LOST
            if now.cancel_requested or now.status.ended:
                return End.CANCELLED
            if now.pause_requested:
                return End.PAUSED

    async def _answer(
        self,
        asked: ChargeRequested | HoldRequested,
        charges_of: Callable[[HoldRequested], Sequence[Charge]],
        fields: Mapping[str, Any],
    ) -> Charged | Held | None:
        """The answer to what the process asks for; None if the job is cancelled or lost. Raises LedgerUnavailable,
        HoldNotOpen."""
        job = self._job
        if isinstance(asked, HoldRequested):
            return await self._holds.hold(job, self.run, charges_of(asked), fields, asked)
        charged = await self._store.charge(job.owner, job.job_id, run=self.run, part=asked.part)
        return Charged(asked.part) if charged else None


def _depends_on_noise(message: Any) -> bool:
    """Whether a job that charges may send this only after its charge."""
    return isinstance(message, Succeeded) or (isinstance(message, JobProgress) and bool(message.metrics))


def start_job(
    order: JobOrder, *, on_message: Callable[[Any], None], on_death: Callable[[], None], **_: Any
) -> JobProcess:
    """Start a process of this machine that runs one attempt at a job: a `StartJob`."""
    return ChildProcess(MODULE, first=order, on_message=on_message, on_death=on_death, preload=PRELOAD)


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


async def stored_entries(
    stored: StoredFiles, job: JobRecord, made: Sequence[Made], *, retention_s: float
) -> list[NamedEntry]:
    """Store what a job has made; nothing is named yet. Raises StoreUnavailable, StorageFull."""
    ends_ms = int((time.time() + retention_s) * 1000)
    return [
        await stored.upload(
            job.owner, each.area, each.name, each.files, ends_ms=ends_ms if each.expires else None, facts=each.facts
        )
        for each in made
    ]


async def store_outcome(
    blobs: JobBlobs,
    stored: StoredFiles,
    job: JobRecord,
    made: Sequence[Made],
    result: Mapping[str, Any],
    *,
    retention_s: float,
) -> StoredOutcome:
    """Store what the process has made. What is never sealed is removed as an orphan. Raises as `stored_entries`."""
    outcome = SealedOutcome(result, await stored_entries(stored, job, made, retention_s=retention_s))
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
        holds: PartHolds,
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
        self._holds = holds
        self._on_end = on_end

    async def attempt(self, job: JobRecord, attempt: Attempt) -> Outcome:
        """On return the process has ended, and so has the job unless the outcome says otherwise."""
        run = attempt.run
        async with lease_kept(self._store, job, run, on_loss=lambda: attempt.interrupt(End.LOST)):
            owed = self._owed_end(job)
            outcome = owed or await self._run(job, attempt)
            paused = outcome in (End.DIED, End.STOPPING, End.TURN_ENDED, End.PAUSED)
            if paused and await self._working.last_checkpoint(job, run) is CheckpointResult.LOST:
                return End.LOST
            if isinstance(outcome, Succeeded):
                outcome = await self._sealed(job, run, outcome)
            if isinstance(outcome, SealedOutcome):
                return await self._finish(job, run, outcome, outcome)
            if isinstance(outcome, Failed) or outcome is End.CANCELLED:
                kept = await self._kept(job, run, loads=owed is not None)
                return kept if isinstance(kept, End) else await self._finish(job, run, outcome, kept)
            return outcome

    def _owed_end(self, job: JobRecord) -> Failed | End | None:
        """The end of a job that has ended but for its open holds, which only an attempt refunds."""
        if job.cancel_requested:
            return End.CANCELLED
        if job.outcome is None and job.attempts - job.proven > self._limits.attempts_max:
            return Failed(exhausted(self._limits.attempts_max))
        return None

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
            except (StoreUnavailable, WorkerCold):
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
        made = await asyncio.to_thread(self._made, job)
        return await store_outcome(
            self._working.blobs, self._stored, job, made, succeeded.result, retention_s=self._retention_s
        )

    def _made(self, job: JobRecord) -> list[Made]:
        files, kind = self._working.files, self._kinds[job.kind]
        opened = files.open(job.job_id)
        return kind.made(opened, files.outputs(job.owner, job.job_id, kind.artifact_suffix(opened.fields)))

    async def _kept(self, job: JobRecord, run: str, *, loads: bool) -> SealedOutcome | End | None:
        """Store what stands of a job that fails or is cancelled, however long Redis and the store take to answer.
        `loads`: no process of this attempt has had the job's files."""
        kind = self._kinds.get(job.kind)
        if kind is None or not kind.keeps:
            return None
        while True:
            ended = await self._ended_hold(job, run)
            if ended is not None:
                return ended
            try:
                if loads:
                    await self._working.load(job)
                opened = await asyncio.to_thread(self._working.files.open, job.job_id)
                result = await asyncio.to_thread(kind.partial, opened)
                made = await asyncio.to_thread(self._made, job)
                return SealedOutcome(
                    result, await stored_entries(self._stored, job, made, retention_s=self._retention_s)
                )
            except (JobFailed, StorageFull):
                return None
            except BlobMissing:
                return None if self._alone else End.ABSENT
            except (StoreUnavailable, LedgerError):
                if self._stopping.is_set():
                    return End.STOPPING
                await self._pause()

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

    async def _finish(
        self, job: JobRecord, run: str, outcome: SealedOutcome | Failed | End, kept: SealedOutcome | None
    ) -> Outcome:
        """Persist the end with what is kept, however long Redis takes to accept it."""
        ends: dict[str, Any] = {"status": JobStatus.CANCELLED}
        if isinstance(outcome, SealedOutcome):
            ends = {"status": JobStatus.SUCCEEDED}
        elif isinstance(outcome, Failed):
            ends = {"status": JobStatus.FAILED, "problem": outcome.problem}
        if kept is not None:
            ends |= {"result": kept.result, "files": kept.files}
        while True:
            try:
                await self._holds.refund(job, run)
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
