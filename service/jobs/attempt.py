"""One attempt at a job: the life of its process."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from core.amounts import Amount
from core.errors import HoldNotOpen, InvalidInput, JobFailed, JobFilesLost, LedgerError
from core.state.job_records import JobRecord
from core.state.jobs import JobStore
from gpu_workers.child_process import ChildProcess
from gpu_workers.jobs.protocol import Charged, ChargeRequested, Failed, JobOrder, Priority, Progress, Succeeded
from service.config.settings import Settings
from service.jobs.files import JobFiles
from service.jobs.kind import JobKinds
from service.jobs.working import Checkpoint

log = logging.getLogger("privacy_gateway.jobs")

MODULE = "gpu_workers.jobs.process"
PRELOAD = ("torch",)  # of a fork server: every kind of job uses it

JOBS_WAITING_MAX = 32  # that wait or are uploaded on a gateway, where the input of each is on the disk
JOB_ATTEMPTS_MAX = 3  # starts of a job: one whose process dies each time would keep the device from the others
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
    TURN_ENDED = "turnended"  # a job of another tenant has its turn; the next attempt continues from the checkpoint


@dataclass(frozen=True)
class AttemptLimits:
    """Of one process: its time, its time while others wait, its memory (`gpu_workers/jobs/process.py`), and its
    scheduling priority."""

    seconds_max: float
    turn_s: float
    memory_bytes_max: int
    priority: Priority


@dataclass(frozen=True)
class RunnerLimits:
    """`running_max`: 0 where other gateways run the jobs. `attempt`: the limits of one process. `alone`: whether no
    other gateway can use the ledger."""

    running_max: int
    waiting_max: int
    tenant_share: float
    attempts_max: int
    retention_s: float
    alone: bool
    attempt: AttemptLimits


def runner_limits(settings: Settings) -> RunnerLimits:
    return RunnerLimits(
        running_max=settings.jobs_running_max if "jobs" in settings.serves else 0,
        waiting_max=JOBS_WAITING_MAX,
        tenant_share=settings.queue_tenant_share,
        attempts_max=JOB_ATTEMPTS_MAX,
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
        checkpoint: Callable[[], Awaitable[Checkpoint]],
    ) -> None:
        """`checkpoint` stores the files that have changed. `on_update` is called whenever the job's record may have
        changed. `others_wait`: whether a job of another tenant waits for this one's place."""
        self._store = store
        self._job = job
        self.run = run
        self._on_update = on_update
        self._others_wait = others_wait
        self._checkpoint = checkpoint
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
            spec = kind.spec(opened.fields, files.outputs(job.owner, job.job_id))
        except JobFailed as problem:
            return Failed(problem)
        except (ValueError, KeyError, InvalidInput):
            return Failed(JobFilesLost(reason="unknown-kind"))
        process = start_job(
            JobOrder(
                kind.entry_point,
                opened.folder,
                opened.key,
                spec,
                priority=limits.priority,
                memory_bytes_max=limits.memory_bytes_max,
            ),
            on_message=self._inbox.put_nowait,
            on_death=lambda: self._inbox.put_nowait(End.DIED),
        )
        try:
            return await self._listen(process, files, limits)
        finally:
            process.kill()
            await process.stop()

    async def _listen(self, process: ChildProcess, files: JobFiles, limits: AttemptLimits) -> Outcome:
        """Persist progress until the process exits, the job is cancelled, its time ends, or the disk is almost full.

        After its turn, it gives its place to another tenant's job, as soon as it has written a checkpoint.

        When the process asks for its charge, answer once the ledger has it. While Redis is unavailable, try again.

        Metrics depend on the noise that the process has drawn. They are persisted only once the blob store has the
        checkpoint that holds this noise: the next attempt, on any gateway, then draws none of it again.

        What depends on noise is believed only after the ledger has spent the job's hold. A process that reports metrics
        or a result before fails the job: no metric or result of it is kept, and the hold is refunded.
        """
        job = self._job
        owes = job.reserved != Amount(0)  # until the ledger has spent the hold, in this attempt or an earlier one
        stage, fraction, metrics = "starting", job.progress, job.metrics
        save = partial(self._store.progress, job.owner, job.job_id, run=self.run)
        charging = False
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
            if isinstance(message, Progress):
                stage, fraction = message.stage, max(fraction, message.fraction)
                if message.metrics:
                    metrics = {**(metrics or {}), **message.metrics}
            elif isinstance(message, ChargeRequested):
                charging, beat_at = True, time.monotonic()
            elif message is not None:
                if isinstance(message, Succeeded) and metrics is not None:
                    with contextlib.suppress(LedgerError):  # the final metrics
                        if await self._checkpoint() is Checkpoint.STORED:
                            await save(stage=stage, fraction=fraction, metrics=metrics)
                outcome: Outcome = message
                return outcome
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
                if stored is Checkpoint.LOST:
                    return End.LOST
                shown = metrics if stored is Checkpoint.STORED else None  # None changes nothing
                now = await save(stage=stage, fraction=fraction, metrics=shown)
                if charging and not (now.cancel_requested or now.status.ended):
                    if not await self._store.charge(job.owner, job.job_id, run=self.run):
                        return End.CANCELLED
                    process.send(Charged())
                    charging = owes = False
            except HoldNotOpen:
                return Failed(JobFailed("The job's hold in the ledger has ended.", reason="hold-ended"))
            except LedgerError:
                continue  # the work goes on; its end is persisted when Redis answers
            self._on_update()
            if now.run != self.run and not now.status.ended:
                return End.LOST
            if now.cancel_requested or now.status.ended:
                return End.CANCELLED


def _depends_on_noise(message: Any) -> bool:
    """Whether a job that charges may send this only after its charge."""
    return isinstance(message, Succeeded) or (isinstance(message, Progress) and bool(message.metrics))


def start_job(order: JobOrder, *, on_message: Callable[[Any], None], on_death: Callable[[], None]) -> ChildProcess:
    """Start a process that runs one attempt at a job. It receives `Charged`."""
    return ChildProcess(MODULE, first=order, on_message=on_message, on_death=on_death, preload=PRELOAD)
