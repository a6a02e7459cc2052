"""The files of a job's folder as blobs, for the gateway and for an entry point elsewhere.

Guarantee: a manifest names whole files of one moment, each verified when it is fetched.
"""

import asyncio
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.blobs.named import fetch_blob, put_blob_file
from core.blobs.store import BlobStore
from core.errors import BlobCorrupt, JobFilesLost
from core.files.disk import FileVersion
from gpu_workers.jobs.protocol import is_plain, snapshot, versions

Listed = Mapping[str, tuple[str, int]]  # the blob and the size of each file, by its name


@dataclass(frozen=True)
class Manifest:
    """The files of one moment. `state`: the blob that names them, once there is one. `versions`: of the local files."""

    files: Listed
    state: str = ""
    versions: Mapping[str, FileVersion] = field(default_factory=dict, compare=False)

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files.values())

    @property
    def blobs(self) -> Mapping[str, str]:
        return {name: blob for name, (blob, _) in self.files.items()}


async def save_changed(store: BlobStore, prefix: str, folder: Path, known: Manifest | None) -> Manifest:
    """Store the files of the folder that `known` does not have. Returns `known` if nothing has changed.

    The files are linked before they are read, so that the process may replace them meanwhile. Raises
    StoreUnavailable, StorageFull, OSError.
    """
    if known is not None and await asyncio.to_thread(versions, folder) == known.versions:
        return known
    linked = folder / f".snapshot-{secrets.token_hex(8)}"
    try:
        found = await asyncio.to_thread(snapshot, folder, linked)
        files: dict[str, tuple[str, int]] = {}
        for name, version in found.items():
            if known is not None and known.versions.get(name) == version:
                files[name] = known.files[name]
                continue
            size = (await asyncio.to_thread((linked / name).stat)).st_size
            files[name] = await put_blob_file(store, prefix, linked / name), size
    finally:
        await asyncio.to_thread(shutil.rmtree, linked, ignore_errors=True)
    return Manifest(files, versions=found)


async def fetch_files(store: BlobStore, prefix: str, files: Listed, folder: Path) -> Manifest:
    """Fetch the files of a manifest into a folder that has none of them.

    Raises BlobMissing; JobFilesLost if a file is not the one that was stored; StoreUnavailable, StorageFull.
    """
    try:
        for name, (blob, _) in files.items():
            if not is_plain(name):
                raise BlobCorrupt
            await fetch_blob(store, prefix, blob, folder / name)
    except BlobCorrupt:
        raise JobFilesLost from None
    return Manifest(files, versions=await asyncio.to_thread(versions, folder))
