"""The working folders of the jobs of this machine, and the blobs that they correspond to."""

from __future__ import annotations

import asyncio
from enum import Enum

from core.errors import JobFailed, LedgerError, StorageFull, StoreUnavailable, UnknownJob
from core.state.jobs import JobRecord, JobStore
from service.jobs.blobs import JobBlobs, Manifest
from service.jobs.files import JobFiles


class Checkpoint(Enum):
    """Whether the store has the files of this moment."""

    STORED = 1
    LATER = 2  # the store or the disk cannot take them now: the next attempt would begin from earlier ones
    LOST = 3  # another attempt holds the job


class WorkingFolders:
    """Remembers which files of the store each working folder has."""

    def __init__(self, store: JobStore, files: JobFiles, blobs: JobBlobs) -> None:
        self.files = files
        self.blobs = blobs
        self._store = store
        self._manifests: dict[str, Manifest] = {}

    async def store_input(self, owner: str, job_id: str) -> Manifest:
        """Store the received input, so that any gateway can run the job. Raises StoreUnavailable, StorageFull."""
        manifest = await self.blobs.save(owner, job_id, self.files.folder(job_id), None)
        self._manifests[job_id] = manifest
        return manifest

    async def load(self, job: JobRecord) -> None:
        """Make the working folder that of the store's files.

        Raises JobFailed, BlobMissing, StoreUnavailable, StorageFull.
        """
        manifest = self._manifests.get(job.job_id)
        folder = self.files.folder(job.job_id)
        if manifest is not None and manifest.state == job.state and await asyncio.to_thread(folder.is_dir):
            return
        self._manifests.pop(job.job_id, None)
        if not await self.files.cleared(job.job_id):
            raise JobFailed("An earlier attempt at the job does not end.", reason="former-attempt-runs")
        try:
            self._manifests[job.job_id] = await self.blobs.load(job.owner, job.job_id, job.state, folder)
        except BaseException:
            await asyncio.to_thread(self.files.remove, job.job_id)
            raise

    async def checkpoint(self, job: JobRecord, run: str) -> Checkpoint:
        """Store the files that the process has changed, for the next attempt. Raises LedgerUnavailable."""
        known = self._manifests[job.job_id]
        try:
            manifest = await self.blobs.save(job.owner, job.job_id, self.files.folder(job.job_id), known)
        except (StoreUnavailable, StorageFull, OSError):
            return Checkpoint.LATER
        if manifest is known:
            return Checkpoint.STORED
        if not await self._store.checkpoint(job.owner, job.job_id, run=run, state=manifest.state, size=manifest.size):
            return Checkpoint.LOST
        self._manifests[job.job_id] = manifest
        await self.blobs.drop(job.owner, job.job_id, known, manifest)
        return Checkpoint.STORED

    async def last_checkpoint(self, job: JobRecord, run: str) -> Checkpoint:
        """As `checkpoint`, after the process has ended. A folder whose state is not known is fetched again."""
        if job.job_id not in self._manifests:
            return Checkpoint.STORED
        try:
            found = await self.checkpoint(job, run)
        except (LedgerError, UnknownJob):
            found = Checkpoint.LATER
        if found is Checkpoint.LATER:
            self._manifests.pop(job.job_id)
        return found

    async def forget(self, job_id: str) -> None:
        """Remove the working folder of a job."""
        self._manifests.pop(job_id, None)
        await asyncio.to_thread(self.files.remove, job_id)

    async def discard(self, owner: str, job_id: str) -> None:
        """Remove the working folder, and those files of the store that were made from it."""
        manifest = self._manifests.get(job_id)
        await self.forget(job_id)
        if manifest is not None:
            await self.blobs.drop(owner, job_id, manifest)

    async def remove(self, owner: str, job_id: str) -> None:
        """Remove the working folder of a job, and its files in the store."""
        await self.forget(job_id)
        await self.blobs.remove(owner, job_id)
