"""Files of jobs: the input while it is received, its key, and the files that are removed with the job.

    <data_dir>/jobs/<job_id>/        key (wrapped by the master key), spec, input, shards: all encrypted;
                                     owner: the tenant's name
    <data_dir>/artifacts/...         the output of jobs, for GET /jobs/{id}/artifact

Guarantee: a job's folder is removed when the job ends. At start, folders without an unfinished job are removed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from core.errors import DataDirInUse
from core.files.encrypted_file import EncryptedFileWriter, decrypt, encrypt, new_key
from core.files.file_lock import FileLock
from core.files.secret_file import sync_folder, write_secret
from core.job_errors import JobFilesLost
from core.ledger.keys import MasterKey, Purpose
from gpu_workers.jobs.messages import INPUT
from service.config.data_dir import owner_folder
from service.jobs.storage import Allowance, Storage, full_disk, write_owner

_SPEC = "spec"
_KEY = "key"
_JOB_ID = re.compile(r"[0-9a-f]{32}")
_ID_BYTES = 8  # of a gateway
_ID = re.compile(rf"[0-9a-f]{{{2 * _ID_BYTES}}}")
_INCOMING = ".incoming-"
COMMAND = "command-"
_COMMAND_DAYS_MAX = 7


@dataclass(frozen=True)
class OpenJob:
    """A job's folder, its key, and the fields of its request."""

    folder: Path
    key: bytes = field(repr=False)
    fields: Mapping[str, Any]


class Incoming:
    """A job's input while it is received. `keep` or `discard` ends it. Every method that writes raises StorageFull."""

    def __init__(self, root: Path, job_id: str, master_key: MasterKey, allowance: Allowance, *, owner: str) -> None:
        self._allowance = allowance
        self._target = root / job_id
        self._folder = root / f"{_INCOMING}{secrets.token_hex(8)}"
        self._key = new_key()
        try:
            with full_disk():
                self._folder.mkdir(mode=0o700)
                write_owner(self._folder, owner)
                write_secret(self._folder / _KEY, master_key.wrap(self._key, job_id=job_id))
                self._writer = EncryptedFileWriter(self._folder / INPUT, self._key, INPUT)
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
            encrypt(self._folder / _SPEC, self._key, _SPEC, spec)
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
        self._root = data_dir / "jobs"
        self._artifacts = data_dir / "artifacts"
        self._master_key = master_key
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = FileLock(self._root / "gateway.lock")
        self.gateway = _identity(self._root / "gateway.id")

    def lock(self) -> None:
        """Become the only gateway that runs the jobs of this data directory. Raises DataDirInUse."""
        if not self._lock.try_acquire():
            raise DataDirInUse

    def unlock(self) -> None:
        self._lock.release()

    def incoming(self, owner: str, job_id: str) -> Incoming:
        """Raises StorageFull."""
        return Incoming(self._root, job_id, self._master_key, Allowance(self.storage, owner), owner=owner)

    def open(self, job_id: str) -> OpenJob:
        """Raises JobFilesLost."""
        folder = self._root / job_id
        try:
            key = self._master_key.unwrap((folder / _KEY).read_bytes(), job_id=job_id)
        except OSError:
            raise JobFilesLost from None
        return OpenJob(folder, key, orjson.loads(decrypt(folder / _SPEC, key, _SPEC)))

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
        """Remove what an earlier gateway left: unfinished uploads and drafts of artifacts at once, folders of stopped
        commands after a week."""
        for draft in self._artifacts.rglob("*.partial"):
            draft.unlink(missing_ok=True)
        for folder in self._root.iterdir():
            old = folder.name.startswith(COMMAND) and time.time() - folder.stat().st_mtime > _COMMAND_DAYS_MAX * 86400
            if folder.is_dir() and (old or folder.name.startswith(_INCOMING)):
                shutil.rmtree(folder, ignore_errors=True)

    def artifact(self, owner: str, job_id: str) -> Path:
        """The file of the job's artifact."""
        return owner_folder(self._artifacts, owner) / f"{job_id}.safetensors"

    def remove_artifact(self, owner: str, job_id: str) -> None:
        """Remove the files of a job's artifact, with the unfinished ones."""
        for path in self.artifact(owner, job_id).parent.glob(f"{job_id}.*"):
            path.unlink(missing_ok=True)

    def sweep_artifacts(self, *, retention_s: float) -> None:
        """Remove artifacts that are older than the retention of job records."""
        for path in self._artifacts.rglob("*"):
            if path.is_file() and time.time() - path.stat().st_mtime > retention_s:
                path.unlink(missing_ok=True)


def _identity(path: Path) -> str:
    """The random name of this data directory, created on first use. Raises ValueError for an incomplete file."""
    if not path.exists():
        with suppress(FileExistsError):  # another process created it first
            write_secret(path, secrets.token_hex(_ID_BYTES).encode())
    found = path.read_text(errors="replace").strip()
    if not _ID.fullmatch(found):
        raise ValueError(
            f"{path} holds no whole name: delete the file, then cancel the jobs that it leaves unfinished in the ledger"
        )
    return found
