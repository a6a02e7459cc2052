"""Takes over the unfinished jobs of the last release, whose files lie in this data directory.

Guarantee: a job gets its files in the blob store once, from the data directory that had it. The data directory is
locked, so no process of the last release uses it. A copy of a data directory changes nothing: the job has its files.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from core.errors import UnknownJob
from core.ledger.jobs import JobStore
from service.jobs.blobs import JobBlobs
from service.jobs.files import JobFiles

log = logging.getLogger("privacy_gateway.jobs")


async def take_over_jobs(store: JobStore, files: JobFiles, blobs: JobBlobs) -> None:
    """Safe to repeat after a crash. Raises LedgerUnavailable, StoreUnavailable, StorageFull."""
    former = await asyncio.to_thread(files.former_id)
    if former is None:
        return
    for job_id in sorted(await asyncio.to_thread(files.ids)):
        owner = await asyncio.to_thread(files.owner, job_id)
        if owner is not None:
            with suppress(UnknownJob):
                if not (await store.get(owner, job_id)).status.ended:
                    manifest = await blobs.save(owner, job_id, files.folder(job_id), None)
                    await store.adopt(owner, job_id, former=former, state=manifest.state, size=manifest.size)
                    log.info("job-taken-over", extra={"fields": {"job_id": job_id}})
        await asyncio.to_thread(files.remove, job_id)
    await asyncio.to_thread(files.forget_former_id)
