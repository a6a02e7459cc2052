"""Removes blobs that nothing refers to any more: what a crash left between storing a file and naming it.

Guarantee: a blob is removed only if no entry and no unfinished job can refer to it, on any gateway. A blob is named
within minutes of its birth, or by the end of the job that made it, or never. So a blob that is older than a day, that
no entry read *after* the listing names, and whose owner has no unfinished job that may have made it, is an orphan for
good. It is old only if both its name and the store say so: a name is compared with the clock of Redis, and the time
that the store gives with the store's own clock. The clock of this machine does not matter.

It also removes local copies of what was deleted, replaced or has expired: on another gateway, or while this one was
stopped. Guarantee: a copy in plain form outlives its entry by little more than the time for which a request may use it,
and COPIES_INTERVAL_S, while a gateway runs on its data directory and Redis answers.
"""

import asyncio
import contextlib
import logging
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from core.blobs.named import birth_s
from core.errors import BlobMissing, LedgerError, StoreUnavailable, UnknownJob
from core.redis.names import SHARED_OWNER
from core.state.jobs import JobRecord, JobStatus, JobStore
from core.state.stored_files import AREAS
from service.files.copies import Copy
from service.files.stored import FILES, StoredFiles

AGE_S_MIN = 86_400
INTERVAL_S = 6 * 3600.0
JOBS = "jobs"

log = logging.getLogger("privacy_gateway.files")


class Orphans:
    """Collects the orphans of one store. Every gateway may do so at any time."""

    def __init__(self, files: StoredFiles, jobs: JobStore) -> None:
        self._files = files
        self._store = files.store
        self._jobs = jobs

    async def collect_regularly(self) -> None:
        """Until it is cancelled, from a random moment on, so that gateways do not list the store at the same time."""
        await asyncio.sleep(INTERVAL_S * (0.1 + 0.9 * random.random()))  # noqa: S311 - a time of day
        while True:
            with contextlib.suppress(StoreUnavailable, LedgerError):
                count = await self.collect()
                log.info("orphans-removed", extra={"fields": {"count": count}})
            await asyncio.sleep(INTERVAL_S)

    async def collect(self, *, age_s: float = AGE_S_MIN) -> int:
        """Remove the orphans that are older than `age_s`; returns how many. Raises StoreUnavailable,
        LedgerUnavailable."""
        before_s = await self._files.index.now_ms() / 1000 - age_s
        orphans = await self._orphan_files(before_s) + await self._orphans_of_jobs(before_s)
        old = await self._old(orphans, age_s)
        await self._store.delete(old)
        return len(old)

    async def _orphan_files(self, before_s: float) -> list[str]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        async for key, _ in self._store.list(FILES):
            owner, born_s = _owner_of(key), birth_s(key.rpartition("/")[2])
            if owner is not None and born_s is not None and born_s < before_s:
                found[owner].append(key)
        orphans = []
        for owner, keys in found.items():
            if any(_may_publish(job, before_s) for job in await self._jobs.unfinished(owner)):
                continue
            named = await self._named(owner)
            orphans += [key for key in keys if key.rpartition("/")[2] not in named]
        return orphans

    async def _named(self, owner: str) -> set[str]:
        """The blobs of the owner's files."""
        await self._files.index.expire(owner)
        named: set[str] = set()
        for area in AREAS:
            for entry in (await self._files.index.of_owner(owner, area)).values():
                named |= {part.blob for part in entry.parts.values()}
        return named

    async def _orphans_of_jobs(self, before_s: float) -> list[str]:
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        async for key, _ in self._store.list(JOBS):
            owner = _owner_of(key)
            if owner is not None:
                found[owner, key.split("/")[-2]].append(key)
        orphans = []
        for (owner, job_id), keys in found.items():
            births = [birth_s(key.rpartition("/")[2]) for key in keys]
            if any(born_s is not None and born_s >= before_s for born_s in births):
                continue
            try:
                if not (await self._jobs.get(owner, job_id)).status.ended:
                    continue
            except UnknownJob:
                pass
            orphans += keys
        return orphans

    async def _old(self, keys: Iterable[str], age_s: float) -> list[str]:
        """Those that are older than `age_s` by the store's own clock."""
        old: list[str] = []
        now_s: float | None = None
        for key in keys:
            now_s = await self._store.now() if now_s is None else now_s
            with contextlib.suppress(BlobMissing):
                if await self._store.stored_at(key) < now_s - age_s:
                    old.append(key)
        return old


def _may_publish(job: JobRecord, before_s: float) -> bool:
    """Whether an unfinished job may have stored files before that time, and may still give them names."""
    return job.created_ms / 1000 < before_s and (job.outcome is not None or job.status is JobStatus.RUNNING)


def _owner_of(key: str) -> str | None:
    """The owner in the key of a blob: `area/shared/...` or `area/tenants/<tenant>/...`."""
    parts = key.split("/")
    if parts[1] == "shared":
        return SHARED_OWNER
    return parts[2] if parts[1] == "tenants" and len(parts) > 3 else None


COPIES_INTERVAL_S = 600.0


async def remove_forgotten_regularly(files: StoredFiles) -> None:
    """Until it is cancelled, from now on."""
    while True:
        with contextlib.suppress(LedgerError, OSError):
            await asyncio.to_thread(files.copies.evict)  # the limit may be lower than it was
            count = await remove_forgotten(files)
            if count:
                log.info("copies-removed", extra={"fields": {"count": count}})
        await asyncio.sleep(COPIES_INTERVAL_S)


async def remove_forgotten(files: StoredFiles) -> int:
    """Remove the idle copies that are not the files of an entry; returns how many. Raises LedgerUnavailable."""
    by_owner: dict[str, list[Copy]] = {}
    for copy in await asyncio.to_thread(files.copies.idle):
        by_owner.setdefault(copy.owner, []).append(copy)
    count = 0
    for copies in by_owner.values():
        count += await _remove_forgotten_of(files, copies)
    return count


async def _remove_forgotten_of(files: StoredFiles, copies: Sequence[Copy]) -> int:
    """As `remove_forgotten`, of copies of one owner."""
    entries = await files.index.get_many([(copy.owner, copy.area, copy.name) for copy in copies])
    count = 0
    for copy, entry in zip(copies, entries, strict=True):
        part = None if entry is None else entry.parts.get(copy.path.suffix)
        if part is None or part.digest != copy.digest:
            count += await asyncio.to_thread(files.copies.remove_idle, copy)
    return count
