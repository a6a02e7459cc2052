"""The files of one job in the blob store: its encrypted input, its checkpoints and its outcomes.

    jobs/tenants/<tenant>/<job_id>/<second>-<digest>    files as the job's process wrote them, manifests of them, and
                                                        outcomes: what an attempt at the job has made

Guarantee: a manifest names whole files of one moment, each verified when it is fetched. The job's record in Redis names
the manifest that the next attempt continues from, and the outcome that the job publishes. Only the attempt that holds
the job can change these names, and that of the outcome is set once. An outcome without a name is never read.
"""

import asyncio
import hmac
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from core.blobs.store import BlobStore
from core.errors import BlobCorrupt, JobFilesLost, StoreUnavailable
from core.files.disk import FileVersion
from core.master_key import MasterKey, Purpose
from gpu_workers.jobs.protocol import is_plain, snapshot, versions
from service.files.blobs import fetch_blob, get_blob, owner_prefix, put_blob, put_blob_file

JOBS = "jobs"


@dataclass(frozen=True)
class Manifest:
    """The files of one moment. `state`: the blob that names them. `versions`: of the local files."""

    state: str
    blobs: Mapping[str, str]
    sizes: Mapping[str, int]
    versions: Mapping[str, FileVersion] = field(default_factory=dict, compare=False)

    @property
    def size(self) -> int:
        return sum(self.sizes.values())


class JobBlobs:
    """The files of jobs in one store."""

    def __init__(self, store: BlobStore, master_key: MasterKey) -> None:
        self.store = store
        self._master_key = master_key

    async def save(self, owner: str, job_id: str, folder: Path, known: Manifest | None) -> Manifest:
        """Store the files of the folder that `known` does not have. Returns `known` if there are none.

        The files are linked before they are read, so that the process may replace them meanwhile. Raises
        StoreUnavailable, StorageFull, OSError.
        """
        if known is not None and await asyncio.to_thread(versions, folder) == known.versions:
            return known
        prefix = _prefix(owner, job_id)
        linked = folder / f".snapshot-{secrets.token_hex(8)}"
        try:
            found = await asyncio.to_thread(snapshot, folder, linked)
            blobs, sizes = {}, {}
            for name, version in found.items():
                if known is not None and known.versions.get(name) == version:
                    blobs[name], sizes[name] = known.blobs[name], known.sizes[name]
                    continue
                sizes[name] = (await asyncio.to_thread((linked / name).stat)).st_size
                blobs[name] = await put_blob_file(self.store, prefix, linked / name)
        finally:
            await asyncio.to_thread(shutil.rmtree, linked, ignore_errors=True)
        listed = {name: [blobs[name], sizes[name]] for name in sorted(blobs)}
        state = await put_blob(self.store, prefix, orjson.dumps(listed))
        return Manifest(state, blobs, sizes, found)

    async def load(self, owner: str, job_id: str, state: str, folder: Path) -> Manifest:
        """Fetch the files of a manifest into a new folder.

        Raises BlobMissing; JobFilesLost if a file is not the one that was stored; StoreUnavailable, StorageFull.
        """
        prefix = _prefix(owner, job_id)
        try:
            listed = orjson.loads(await get_blob(self.store, prefix, state))
            await asyncio.to_thread(folder.mkdir, mode=0o700)
            for name, (blob, _) in listed.items():
                if not is_plain(name):
                    raise BlobCorrupt
                await fetch_blob(self.store, prefix, blob, folder / name)
        except BlobCorrupt:
            raise JobFilesLost from None
        blobs = {name: blob for name, (blob, _) in listed.items()}
        sizes = {name: size for name, (_, size) in listed.items()}
        return Manifest(state, blobs, sizes, await asyncio.to_thread(versions, folder))

    async def drop(self, owner: str, job_id: str, before: Manifest, now: Manifest | None = None) -> None:
        """Delete the files of `before` that `now`, which Redis names, has not. What stays is removed with the job."""
        gone = {before.state, *before.blobs.values()}
        if now is not None:
            gone -= {now.state, *now.blobs.values()}
        with suppress(StoreUnavailable):
            await self.store.delete([f"{_prefix(owner, job_id)}/{blob}" for blob in gone])

    async def put_outcome(self, owner: str, job_id: str, content: bytes) -> str:
        """Store an outcome, and return the name that it got. Raises StoreUnavailable."""
        return await put_blob(self.store, _prefix(owner, job_id), self._mac(owner, job_id, content) + content)

    async def outcome(self, owner: str, job_id: str, name: str) -> bytes:
        """A stored outcome. Raises BlobMissing; JobFilesLost if it is not authentic; StoreUnavailable."""
        try:
            data = await get_blob(self.store, _prefix(owner, job_id), name)
        except BlobCorrupt:
            raise JobFilesLost from None
        mac, content = data[:64], data[64:]
        if not hmac.compare_digest(mac, self._mac(owner, job_id, content)):
            raise JobFilesLost
        return content

    async def remove(self, owner: str, job_id: str) -> None:
        """Delete every file of a job that has ended. What cannot be deleted becomes an orphan."""
        with suppress(StoreUnavailable):
            await self.store.delete([key async for key, _ in self.store.list(_prefix(owner, job_id))])

    def _mac(self, owner: str, job_id: str, content: bytes) -> bytes:
        return self._master_key.mac(Purpose.JOB_OUTCOME, owner.encode(), job_id.encode(), content).encode()


def _prefix(owner: str, job_id: str) -> str:
    return f"{owner_prefix(JOBS, owner)}/{job_id}"
