"""The files of one job in the blob store, and the working folders of this machine that are made from them.

    jobs/tenants/<tenant>/<job_id>/<second>-<digest>    files as the job's process wrote them (the encrypted input and
                                                        checkpoints), manifests of them, and outcomes: what an attempt
                                                        at the job has made

Guarantee: the job's record in Redis names the manifest (`gpu_workers.jobs.manifests`) that the next attempt continues
from, and the outcome that the job publishes. Only the attempt that holds
the job can change these names, and that of the outcome is set once. An outcome without a name is never read.
"""

import asyncio
import hmac
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path

import orjson

from core.blobs.named import get_blob, put_blob
from core.blobs.store import BlobStore
from core.errors import BlobCorrupt, JobFailed, JobFilesLost, LedgerError, StorageFull, StoreUnavailable, UnknownJob
from core.master_key import MasterKey, Purpose
from core.state.jobs import JobRecord, JobStore
from gpu_workers.jobs.manifests import Listed, Manifest, fetch_files, save_changed
from service.files.stored import owner_prefix
from service.jobs.files import JobFiles

JOBS = "jobs"
TAKEN_OVER = ".taken-over"  # its time is that of the last checkpoint that came from elsewhere


class JobBlobs:
    """The files of jobs in one store."""

    def __init__(self, store: BlobStore, master_key: MasterKey) -> None:
        self.store = store
        self._master_key = master_key

    async def save(self, owner: str, job_id: str, folder: Path, known: Manifest | None) -> Manifest:
        """Store the files of the folder that `known` does not have, and their manifest. Returns `known` if nothing has
        changed. Raises StoreUnavailable, StorageFull, OSError."""
        saved = await save_changed(self.store, job_prefix(owner, job_id), folder, known)
        return saved if saved is known else await self.named(owner, job_id, saved)

    async def named(self, owner: str, job_id: str, manifest: Manifest) -> Manifest:
        """Store a manifest of files that are stored. Raises StoreUnavailable, StorageFull."""
        listed = orjson.dumps(manifest.files, option=orjson.OPT_SORT_KEYS)
        return replace(manifest, state=await put_blob(self.store, job_prefix(owner, job_id), listed))

    async def load(self, owner: str, job_id: str, state: str, folder: Path) -> Manifest:
        """Fetch the files of a manifest into a new folder.

        Raises BlobMissing; JobFilesLost if a file is not the one that was stored; StoreUnavailable, StorageFull.
        """
        prefix = job_prefix(owner, job_id)
        try:
            listed = orjson.loads(await get_blob(self.store, prefix, state))
        except BlobCorrupt:
            raise JobFilesLost from None
        await asyncio.to_thread(folder.mkdir, mode=0o700)
        files = {name: (blob, size) for name, (blob, size) in listed.items()}
        return replace(await fetch_files(self.store, prefix, files, folder), state=state)

    async def drop(self, owner: str, job_id: str, before: Manifest, now: Manifest | None = None) -> None:
        """Delete the files of `before` that `now`, which Redis names, has not. What stays is removed with the job."""
        gone = {before.state, *before.blobs.values()}
        if now is not None:
            gone -= {now.state, *now.blobs.values()}
        with suppress(StoreUnavailable):
            await self.store.delete([f"{job_prefix(owner, job_id)}/{blob}" for blob in gone])

    async def put_outcome(self, owner: str, job_id: str, content: bytes) -> str:
        """Store an outcome, and return the name that it got. Raises StoreUnavailable."""
        return await put_blob(self.store, job_prefix(owner, job_id), self._mac(owner, job_id, content) + content)

    async def outcome(self, owner: str, job_id: str, name: str) -> bytes:
        """A stored outcome. Raises BlobMissing; JobFilesLost if it is not authentic; StoreUnavailable."""
        try:
            data = await get_blob(self.store, job_prefix(owner, job_id), name)
        except BlobCorrupt:
            raise JobFilesLost from None
        mac, content = data[:64], data[64:]
        if not hmac.compare_digest(mac, self._mac(owner, job_id, content)):
            raise JobFilesLost
        return content

    async def remove(self, owner: str, job_id: str) -> None:
        """Delete every file of a job that has ended. What cannot be deleted becomes an orphan."""
        with suppress(StoreUnavailable):
            await self.store.delete([key async for key, _ in self.store.list(job_prefix(owner, job_id))])

    def _mac(self, owner: str, job_id: str, content: bytes) -> bytes:
        return self._master_key.mac(Purpose.JOB_OUTCOME, owner.encode(), job_id.encode(), content).encode()


def job_prefix(owner: str, job_id: str) -> str:
    """The folder of a job's blobs."""
    return f"{owner_prefix(JOBS, owner)}/{job_id}"


class CheckpointResult(Enum):
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

    async def checkpoint(self, job: JobRecord, run: str) -> CheckpointResult:
        """Store the files that the process has changed, for the next attempt. Raises LedgerUnavailable."""
        known = self._manifests[job.job_id]
        try:
            manifest = await self.blobs.save(job.owner, job.job_id, self.files.folder(job.job_id), known)
        except (StoreUnavailable, StorageFull, OSError):
            return CheckpointResult.LATER
        if manifest is known:
            return CheckpointResult.STORED
        return await self._replace(job, run, manifest)

    async def take_over(self, job: JobRecord, run: str, files: Listed) -> CheckpointResult:
        """As `checkpoint`, of files that the process has stored itself. Raises LedgerUnavailable, StoreUnavailable,
        StorageFull."""
        manifest = Manifest(files, versions=self._manifests[job.job_id].versions)
        found = await self._replace(job, run, await self.blobs.named(job.owner, job.job_id, manifest))
        if found is CheckpointResult.STORED:
            await asyncio.to_thread((self.files.folder(job.job_id) / TAKEN_OVER).touch)
        return found

    def listed(self, job_id: str) -> Listed:
        """The files that the next attempt would begin from."""
        return self._manifests[job_id].files

    async def _replace(self, job: JobRecord, run: str, manifest: Manifest) -> CheckpointResult:
        if not await self._store.checkpoint(job.owner, job.job_id, run=run, state=manifest.state, size=manifest.size):
            return CheckpointResult.LOST
        known, self._manifests[job.job_id] = self._manifests[job.job_id], manifest
        await self.blobs.drop(job.owner, job.job_id, known, manifest)
        return CheckpointResult.STORED

    async def last_checkpoint(self, job: JobRecord, run: str) -> CheckpointResult:
        """As `checkpoint`, after the process has ended. A folder whose state is not known is fetched again."""
        if job.job_id not in self._manifests:
            return CheckpointResult.STORED
        try:
            found = await self.checkpoint(job, run)
        except (LedgerError, UnknownJob):
            found = CheckpointResult.LATER
        if found is CheckpointResult.LATER:
            self._manifests.pop(job.job_id)
        return found

    async def forget(self, job_id: str) -> None:
        """Remove the working folder of a job."""
        self._manifests.pop(job_id, None)
        await asyncio.to_thread(self.files.remove, job_id)

    async def discard(self, owner: str, job_id: str) -> None:
        """Remove a working folder, and those files of the store that were made from it. Another job of that id keeps
        its own."""
        manifest = self._manifests.get(job_id)
        await self.forget(job_id)
        if manifest is not None:
            await self.blobs.drop(owner, job_id, manifest)

    async def remove(self, owner: str, job_id: str) -> None:
        """Remove the working folder of a job, and its files in the store."""
        await self.forget(job_id)
        await self.blobs.remove(owner, job_id)
