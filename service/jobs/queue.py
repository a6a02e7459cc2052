"""The jobs that wait for a gateway, in the order in which this one starts them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from core.ledger.job_records import JobRecord


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
