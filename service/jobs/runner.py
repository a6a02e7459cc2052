"""Runs the jobs of this gateway: one process a job, a few at a time, the rest wait.

What it guarantees: a job ends once. A job whose process or gateway died is taken up again from its checkpoints, up to
`attempts_max` attempts; an orderly end of the gateway is no attempt. At every end the job's files are removed. While
Redis does not answer nothing is taken up and no end is told; the runner tries again until it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import JobAttemptsExhausted, JobFailed, JobFilesLost, LedgerError, QueueFull, UnknownJob
from core.ledger.jobs import JobRecord, JobStatus, JobStore
from gpu_workers.jobs.messages import Failed, JobOrder, Progress, Succeeded
from gpu_workers.process import ChildProcess
from service import metrics
from service.jobs.files import Incoming, JobFiles
from service.jobs.kinds import Kinds

log = logging.getLogger("privacy_gateway.jobs")

_BEAT_S = 0.5  # how often progress is written and a cancel request of another gateway is seen
_RETRY_S = 1.0
_MODULE = "gpu_workers.jobs.process"


@dataclass(frozen=True)
class _Died:
    """The process ended without a word."""


@dataclass(frozen=True)
class _Cancelled:
    """Somebody asked for it."""


@dataclass(frozen=True)
class _Leaving:
    """The gateway ends in good order."""


_Outcome = Succeeded | Failed | _Died | _Cancelled | _Leaving


class JobRunner:
    """The jobs of one data directory. Lives on the event loop; no locks."""

    def __init__(
        self, store: JobStore, files: JobFiles, kinds: Kinds, *, running_max: int, waiting_max: int, attempts_max: int
    ) -> None:
        self.store = store
        self._files = files
        self._kinds = kinds
        self._running_max = running_max
        self._waiting_max = waiting_max
        self._attempts_max = attempts_max
        self._queue: asyncio.Queue[JobRecord] = asyncio.Queue()
        self._arriving = 0
        self._inboxes: dict[str, asyncio.Queue[Any]] = {}
        self._lanes: list[asyncio.Task[None]] = []
        self._leaving = asyncio.Event()
        self._change = asyncio.Event()
        self._locked = False
        self._streaming = True

    async def open(self) -> None:
        """Take up what an earlier gateway of this data directory left. Raises DataDirInUse, LedgerUnavailable."""
        self._files.lock()
        self._locked = True
        unfinished = await self.store.unfinished_here()
        for job in unfinished:
            self._queue.put_nowait(job)  # one whose files are gone fails when it is taken up
        await asyncio.to_thread(self._files.sweep, {job.job_id for job in unfinished})
        retention_s = self._kinds.settings.job_retention_s
        await asyncio.to_thread(self._files.sweep_artifacts, retention_s=retention_s)
        self._lanes = [asyncio.create_task(self._lane()) for _ in range(self._running_max)]

    async def close(self) -> None:
        """End the processes; their jobs are queued again, to go on from their checkpoints."""
        self._leaving.set()
        self._notify()
        for inbox in self._inboxes.values():
            inbox.put_nowait(_Leaving())
        busy = [lane for lane in self._lanes if not lane.done()]
        if busy:
            await asyncio.wait(busy, timeout=10.0)
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        if self._locked:
            self._files.unlock()

    @contextmanager
    def receiving(self, job_id: str) -> Iterator[Incoming]:
        """Where an input is written; removed at the end of the block, unless `submit` made a job of it.

        Raises QueueFull when as many jobs wait or arrive as may.
        """
        if self._queue.qsize() + self._arriving >= self._waiting_max:
            raise QueueFull
        self._arriving += 1
        incoming = self._files.incoming(job_id)
        try:
            yield incoming
        finally:
            self._arriving -= 1
            incoming.discard()

    def enqueue(self, job: JobRecord) -> None:
        """A new job whose files are in place."""
        metrics.JOBS_WAITING.set(self._queue.qsize() + 1)
        self._queue.put_nowait(job)
        self._notify()

    def discard(self, job_id: str) -> None:
        """Remove the files of a job that was not created."""
        self._files.remove(job_id)

    def artifact(self, job: JobRecord) -> Path:
        """Where what the job made is, once it has made it."""
        return self._files.artifact(job.owner, job.job_id)

    async def cancel(self, owner: str, job_id: str) -> JobRecord:
        """Cancel a queued job now, a running one as soon as its process has ended. Raises UnknownJob."""
        job = await self.store.cancel(owner, job_id)
        if job.status is JobStatus.RUNNING and job_id in self._inboxes:
            self._inboxes[job_id].put_nowait(_Cancelled())
        if job.status is JobStatus.CANCELLED and job_id not in self._inboxes:
            await asyncio.to_thread(self._files.remove, job_id)
        self._notify()
        return job

    def end_streams(self) -> None:
        """End every stream of events: the gateway is about to stop."""
        self._streaming = False
        self._notify()

    async def changed(self) -> bool:
        """Wait until some job may have changed, a second at most. False when the gateway ends."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._change.wait(), _RETRY_S)
        return self._streaming

    def _notify(self) -> None:
        former, self._change = self._change, asyncio.Event()
        former.set()

    async def _lane(self) -> None:
        while not self._leaving.is_set():
            waiting = asyncio.create_task(self._queue.get())
            leaving = asyncio.create_task(self._leaving.wait())
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not waiting.done():
                waiting.cancel()
                return
            metrics.JOBS_WAITING.set(self._queue.qsize())
            try:
                await self._until_ended(waiting.result())
            except Exception as error:  # a lane that ended would take work and never do it
                log.error("job-lane", extra={"fields": {"kind": type(error).__name__}})

    async def _until_ended(self, job: JobRecord) -> None:
        """Attempts, until the job has ended or the gateway does."""
        while not self._leaving.is_set():
            run = secrets.token_hex(16)
            try:
                taken = await self.store.take(
                    job.owner,
                    job.job_id,
                    run=run,
                    attempts_max=self._attempts_max,
                    exhausted=JobAttemptsExhausted(reason="attempts-exhausted", count=self._attempts_max),
                )
            except UnknownJob:
                await asyncio.to_thread(self._files.remove, job.job_id)
                return
            except LedgerError:
                await self._pause()
                continue
            self._notify()
            if taken.status is not JobStatus.RUNNING:
                await self._ended(taken)
                return
            outcome = await self._attempt(taken, run)
            if isinstance(outcome, _Died):
                log.warning("job-process-died", extra={"fields": {"job_id": job.job_id, "attempt": taken.attempts}})
                continue
            if isinstance(outcome, _Leaving):
                with contextlib.suppress(LedgerError):
                    await self.store.put_back(job.owner, job.job_id, run=run)
                return
            await self._finish(taken, run, outcome)
            return

    async def _attempt(self, job: JobRecord, run: str) -> _Outcome:
        """One process, from its start to its end."""
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        try:
            opened = await asyncio.to_thread(self._files.open, job.job_id)
            spec = self._kinds.spec(job.kind, job.owner, job.job_id, opened.fields)
        except JobFailed as problem:
            return Failed(problem)
        except (ValueError, KeyError):
            return Failed(JobFilesLost(reason="unknown-kind"))
        process = ChildProcess(
            _MODULE,
            first=JobOrder(job.kind, opened.folder, opened.key, spec, nice=self._kinds.settings.job_nice),
            on_message=inbox.put_nowait,
            on_death=lambda: inbox.put_nowait(_Died()),
        )
        self._inboxes[job.job_id] = inbox
        if self._leaving.is_set():
            inbox.put_nowait(_Leaving())
        try:
            return await self._listen(job, run, inbox)
        finally:
            del self._inboxes[job.job_id]
            process.kill()
            await process.stop()

    async def _listen(self, job: JobRecord, run: str, inbox: asyncio.Queue[Any]) -> _Outcome:
        """Tell Redis and the listeners how far the process is, until it or somebody else ends it."""
        stage, fraction = "starting", job.progress
        beat_at = time.monotonic() + _BEAT_S
        while True:
            message: Any = None
            with contextlib.suppress(TimeoutError):
                message = await asyncio.wait_for(inbox.get(), max(0.0, beat_at - time.monotonic()))
            if isinstance(message, Progress):
                stage, fraction = message.stage, max(fraction, message.fraction)
            elif message is not None:
                outcome: _Outcome = message
                return outcome
            if time.monotonic() < beat_at:
                continue
            beat_at = time.monotonic() + _BEAT_S
            try:
                told = await self.store.progress(job.owner, job.job_id, run=run, stage=stage, fraction=fraction)
            except LedgerError:
                continue  # the work goes on; its end is told when Redis answers
            self._notify()
            if told.cancel_requested:
                return _Cancelled()

    async def _finish(self, job: JobRecord, run: str, outcome: Succeeded | Failed | _Cancelled) -> None:
        """Tell the end, however long Redis takes to hear of it."""
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
                if self._leaving.is_set():
                    return  # the next start takes the job up again
                await self._pause()

    async def _ended(self, job: JobRecord) -> None:
        await asyncio.to_thread(self._files.remove, job.job_id)
        metrics.JOBS.labels(job.kind, job.status.value).inc()
        if job.started_ms is not None and job.ended_ms is not None:
            metrics.JOB_SECONDS.labels(job.kind).observe((job.ended_ms - job.started_ms) / 1000)
        fields = {"job_id": job.job_id, "kind": job.kind, "status": job.status.value}
        log.info("job-ended", extra={"fields": fields})
        self._notify()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), _RETRY_S)
