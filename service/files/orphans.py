"""Removes blobs that nothing refers to any more: what a crash left between storing a file and naming it.

Guarantee: a blob is removed only if no entry and no unfinished job can refer to it, on any gateway. A blob is named
within minutes of its birth, or never. So a blob that is older than a day, and that no entry read *after* the listing
names, is an orphan for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import defaultdict
from typing import Protocol

from core.blob_errors import StoreUnavailable
from core.errors import LedgerError, UnknownJob
from core.ledger.job_records import JobRecord
from core.ledger.names import SHARED_OWNER
from core.ledger.stored_files import AREAS
from service.files.blobs import birth_s
from service.files.stored import FILES, StoredFiles

AGE_S_MIN = 86_400
INTERVAL_S = 6 * 3600.0
JOBS = "jobs"

log = logging.getLogger("privacy_gateway.files")


class JobReader(Protocol):
    async def get(self, owner: str, job_id: str) -> JobRecord:
        """Raises UnknownJob."""


class Orphans:
    """Collects the orphans of one store. Every gateway may do so at any time."""

    def __init__(self, files: StoredFiles, jobs: JobReader) -> None:
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

    async def collect(self, *, now_s: float | None = None) -> int:
        """Remove the orphans; returns how many. Raises StoreUnavailable, LedgerUnavailable."""
        old_s = (time.time() if now_s is None else now_s) - AGE_S_MIN
        return await self._collect_files(old_s, now_s or time.time()) + await self._collect_jobs(old_s)

    async def _collect_files(self, old_s: float, now_s: float) -> int:
        found: defaultdict[str, list[str]] = defaultdict(list)
        async for key, _ in self._store.list(FILES):
            owner, name = _owner_of(key), key.rpartition("/")[2]
            born_s = birth_s(name)
            if owner is not None and born_s is not None and born_s < old_s:
                found[owner].append(key)
        count = 0
        for owner, keys in found.items():
            named: set[str] = set()
            for area in AREAS:
                for name, entry in (await self._files.index.of_owner(owner, area)).items():
                    if entry.ends_ms is not None and entry.ends_ms < now_s * 1000:
                        await self._files.index.remove(owner, area, name)
                    else:
                        named |= {part.blob for part in entry.parts.values()}
            orphans = [key for key in keys if key.rpartition("/")[2] not in named]
            await self._store.delete(orphans)
            count += len(orphans)
        return count

    async def _collect_jobs(self, old_s: float) -> int:
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        async for key, _ in self._store.list(JOBS):
            owner = _owner_of(key)
            if owner is not None:
                found[owner, key.split("/")[-2]].append(key)
        count = 0
        for (owner, job_id), keys in found.items():
            births = [birth_s(key.rpartition("/")[2]) for key in keys]
            if any(born_s is not None and born_s >= old_s for born_s in births):
                continue
            try:
                if not (await self._jobs.get(owner, job_id)).status.ended:
                    continue
            except UnknownJob:
                pass
            await self._store.delete(keys)
            count += len(keys)
        return count


def _owner_of(key: str) -> str | None:
    """The owner in the key of a blob: `area/shared/...` or `area/tenants/<tenant>/...`."""
    parts = key.split("/")
    if parts[1] == "shared":
        return SHARED_OWNER
    return parts[2] if parts[1] == "tenants" and len(parts) > 3 else None
