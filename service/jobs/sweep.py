"""Finds the jobs that a gateway may take: those that wait, its own, and those whose gateway has died.

Guarantee: a job is taken from another gateway only if its lease has ended on the clock of Redis. This process then
waits for GRACE_S more, so that a gateway that lives renews its leases first after an outage of Redis. `job.lua` checks
the lease again.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from core.ledger.job_records import JobRecord, JobStatus
from core.ledger.jobs import JobStore

SWEEP_S = 2.0
GRACE_S = 5.0


@dataclass(frozen=True)
class Found:
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

    async def look(self) -> Found:
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
        return Found(
            [job for job in jobs if job.state is not None and job.job_id not in elsewhere | self._left],
            Counter(job.owner for job in running if job.job_id in elsewhere),
        )
