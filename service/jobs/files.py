"""Files of jobs on this machine: the input while it is received, and the working folder of a job that runs.

    <data_dir>/jobs/<job_id>/        key (wrapped by the master key), spec, input, shards: all encrypted;
                                     owner: the tenant's name; out/: what the job has made
    <data_dir>/jobs/.incoming-*/     an input that is received

Another gateway that runs the job has a folder of its own, from the same files in the blob store (`service.jobs.blobs`).

Guarantee: a job's folder is removed when the job ends. Folders without an unfinished job are removed.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from core.errors import DataDirInUse, JobFilesLost
from core.files.disk import full_disk, sync_folder, write_secret
from core.files.encrypted_file import EncryptedFileWriter, decrypt, encrypt, new_key
from core.files.processes import FileLock
from core.master_key import MasterKey, Purpose
from gpu_workers.jobs.protocol import INPUT, KEY, OUTPUTS, RUN_LOCK, SPEC
from service.jobs.kind import OpenJob, Outputs
from service.jobs.storage import DiskAllowance, Storage, write_owner

JOBS_DIR = "jobs"  # in the data directory
_JOB_ID = re.compile(r"[0-9a-f]{32}")
_FORMER_RUN_S_MAX = 30.0
_INCOMING = ".incoming-"


class Incoming:
    """A job's input while it is received, or another encrypted upload. `keep` or `discard` ends it. Every method that
    writes raises StorageFull. `path`, `key`: of the encrypted file, with the label INPUT."""

    def __init__(self, root: Path, job_id: str, master_key: MasterKey, allowance: DiskAllowance, *, owner: str) -> None:
        self._allowance = allowance
        self._target = root / job_id
        self._folder = root / f"{_INCOMING}{secrets.token_hex(8)}"
        self.path, self.key = self._folder / INPUT, new_key()
        try:
            with full_disk():
                self._folder.mkdir(mode=0o700)
                write_owner(self._folder, owner)
                write_secret(self._folder / KEY, master_key.wrap(Purpose.JOB, self.key, bound_to=job_id))
                self._writer = EncryptedFileWriter(self.path, self.key, INPUT)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._fingerprint = hmac.new(master_key.derive(Purpose.JOB_CLAIM), digestmod=hashlib.sha256)
        self.received = 0

    def write(self, data: bytes) -> None:
        self._allowance.take(len(data))
        self.received += len(data)
        self._fingerprint.update(data)
        with full_disk():
            self._writer.write(data)

    def finish(self, fields: Mapping[str, Any]) -> str:
        """Close the input and store the fields; returns the fingerprint of both."""
        spec = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        self._allowance.take(len(spec))
        self._fingerprint.update(b"\0spec" + spec)
        with full_disk():
            self._writer.close()
            encrypt(self._folder / SPEC, self.key, SPEC, spec)
        return self._fingerprint.hexdigest()

    def keep(self) -> bool:
        """Make this the folder of the job. Returns False if the job has a folder."""
        try:
            with full_disk():
                self._folder.rename(self._target)
        except OSError:
            return False
        sync_folder(self._target.parent)
        return True

    def discard(self) -> None:
        """Remove the received input, unless `keep` has succeeded."""
        self._writer.abandon()
        shutil.rmtree(self._folder, ignore_errors=True)


class JobFiles:
    """The folders of the jobs of one gateway. `storage` limits the disk space of uploads."""

    def __init__(self, data_dir: Path, master_key: MasterKey, storage: Storage) -> None:
        self.storage = storage
        self._root = data_dir / JOBS_DIR
        self._master_key = master_key
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(self._root / "gateway.lock")

    def lock(self) -> None:
        """Become the only gateway that uses this data directory. Raises DataDirInUse."""
        if not self._lock.try_acquire():
            raise DataDirInUse

    def unlock(self) -> None:
        self._lock.release()

    def incoming(self, owner: str, job_id: str, *, stored: int) -> Incoming:
        """`stored`: bytes of the owner's files in the blob store. Raises StorageFull."""
        allowance = DiskAllowance(self.storage, owner, stored=stored)
        return Incoming(self._root, job_id, self._master_key, allowance, owner=owner)

    def folder(self, job_id: str) -> Path:
        return self._root / job_id

    async def cleared(self, job_id: str) -> bool:
        """Remove the folder of a job, once no process of an earlier attempt uses it. Returns whether it is removed."""
        folder = self._root / job_id
        if not await asyncio.to_thread(folder.is_dir):
            return True
        lock = FileLock(folder / RUN_LOCK)
        if not await lock.acquire(_FORMER_RUN_S_MAX):
            return False
        await asyncio.to_thread(self.remove, job_id)
        lock.release()
        return True

    def open(self, job_id: str) -> OpenJob:
        """Raises JobFilesLost."""
        folder = self._root / job_id
        try:
            key = self._master_key.unwrap(Purpose.JOB, (folder / KEY).read_bytes(), bound_to=job_id)
        except OSError:
            key = None
        if key is None:
            raise JobFilesLost
        return OpenJob(folder, key, orjson.loads(decrypt(folder / SPEC, key, SPEC)))

    def ids(self) -> set[str]:
        """The jobs that have a folder in this data directory."""
        return {folder.name for folder in self._root.iterdir() if _JOB_ID.fullmatch(folder.name)}

    def checkpoint_time(self, job_id: str) -> float:
        """When the job last wrote a file, in seconds of the system's clock; 0 for a job without files."""
        times = [0.0]
        for path in (self._root / job_id).rglob("*"):
            with suppress(FileNotFoundError):
                times.append(path.stat().st_mtime)
        return max(times)

    def remove(self, job_id: str) -> None:
        shutil.rmtree(self._root / job_id, ignore_errors=True)

    def sweep_unfinished(self) -> None:
        """Remove the unfinished uploads that an earlier gateway left."""
        for folder in self._root.iterdir():
            if folder.is_dir() and folder.name.startswith(_INCOMING):
                shutil.rmtree(folder, ignore_errors=True)

    def outputs(self, owner: str, job_id: str, suffix: str) -> Outputs:
        """The files that the job's process writes. `suffix`: of the artifact."""
        return Outputs(owner, self._root / job_id / OUTPUTS / f"{job_id}{suffix}")
