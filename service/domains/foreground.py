"""Domain jobs in the foreground. They use the files and the job process of a gateway, without Redis."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import DataDirInUse
from core.files.encrypted_file import EncryptedFileWriter, new_key
from core.files.file_lock import FileLock
from core.files.secret_file import write_secret
from core.job_errors import JobFailed, JobFilesLost
from core.ledger.keys import MasterKey
from gpu_workers.jobs.messages import INPUT, JobOrder
from service.config.secrets import load_master_key
from service.config.settings import Settings
from service.domains.job_kind import DomainKind, domain_spec
from service.domains.store import check_new_name
from service.jobs.files import COMMAND

_READ_BYTES = 1024 * 1024


@contextmanager
def prepared(
    settings: Settings, owner: str, corpus: Path, fields: Mapping[str, Any]
) -> Iterator[tuple[JobOrder, Path]]:
    """The job for this corpus, and the pack that it writes, with its card beside it.

    It resumes what an earlier, stopped command with the same corpus and name has done.

    The folder is removed when the block ends, except after an interrupt or an error that another attempt may avoid.
    Raises InvalidInput (a reserved name), JobFailed (corpus too large), DataDirInUse (the same command is running),
    OSError (no such corpus).
    """
    stat = corpus.stat()
    if stat.st_size > settings.job_stream_bytes_max:
        raise JobFailed(f"At most {settings.job_stream_bytes_max} bytes.", reason="corpus-too-large")
    check_new_name(fields["name"])
    identity = [str(corpus.resolve()), stat.st_size, stat.st_mtime_ns, owner, sorted(fields.items())]
    job_id = hashlib.sha256(repr(identity).encode()).hexdigest()[:32]
    root = settings.data_dir / "jobs"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    turn = FileLock(root / f"{COMMAND}{job_id}.lock")
    if not turn.try_acquire():
        raise DataDirInUse("The same command is running.")
    folder = root / f"{COMMAND}{job_id}"
    try:
        key = _received(folder, corpus, load_master_key(settings), job_id)
        target = folder / "pack.safetensors"
        spec = domain_spec(settings, fields, (str(target),))
        yield JobOrder(DomainKind.entry_point, folder, key, spec, priority="normal"), target
        shutil.rmtree(folder, ignore_errors=True)
        (root / f"{COMMAND}{job_id}.lock").unlink(missing_ok=True)
    finally:
        turn.release()


def _received(folder: Path, corpus: Path, master_key: MasterKey, job_id: str) -> bytes:
    """The key of the folder with the corpus. The key is written last, so a folder that has a key is complete."""
    try:
        return master_key.unwrap((folder / "key").read_bytes(), job_id=job_id)
    except (OSError, JobFilesLost):
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    key = new_key()
    writer = EncryptedFileWriter(folder / INPUT, key, INPUT)
    with corpus.open("rb") as file:
        while data := file.read(_READ_BYTES):
            writer.write(data)
    writer.close()
    write_secret(folder / "key", master_key.wrap(key, job_id=job_id))
    return key
