"""The folders that the workers of a machine keep objects in, one for each worker.

    <root>/<role>-<number>/lock

Guarantee: no two workers use a folder at the same time. A worker that starts empties the folders of workers that exist
no more: those whose lock it gets and that none has used for UNUSED_S. It removes nothing but objects.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from core.files.file_lock import FileLock
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.object_cache import DIGEST, GROUP, PARTIAL, ObjectCache

UNUSED_S = 7 * 86_400.0
_LOCK = "lock"
_FOLDERS_MAX = 256
_FOLDER = re.compile(rf"({'|'.join(Role)})-\d+")


def open_cache(root: Path, name: str, *, bytes_max: int) -> ObjectCache:
    """A cache in the first folder `<name>-<number>` of `root` that no other worker uses. A worker that is started again
    usually gets the folder that it had; where it gets another one, it has other objects. `name`: a role.

    Empties the folders of all roles that no worker has used for UNUSED_S. Raises OSError for a folder that cannot be
    used.
    """
    for number in range(_FOLDERS_MAX):
        folder = root / f"{name}-{number}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK)
        if lock.try_acquire():
            os.utime(folder / _LOCK)
            _empty_unused(root)
            return ObjectCache(folder, bytes_max=bytes_max, lock=lock)
    raise OSError("every folder for objects is in use")


def _empty_unused(root: Path) -> None:
    """Remove the objects in folders that no worker has, and that none has used for UNUSED_S.

    The folder's lock is held meanwhile, so a worker that starts takes another folder. The lock's file stays: a worker
    that had opened it before it was removed would share the folder with the next one.
    """
    for folder in root.iterdir():
        if _FOLDER.fullmatch(folder.name):
            with suppress(OSError):  # it belongs to another account
                _empty_if_unused(folder)


def _empty_if_unused(folder: Path) -> None:
    """Raises OSError."""
    if not (folder / _LOCK).is_file():
        return
    lock = FileLock(folder / _LOCK)
    if lock.try_acquire():
        try:
            if time.time() - _used_at(folder) > UNUSED_S:
                _remove_objects(folder)
        finally:
            lock.release()


def _used_at(folder: Path) -> float:
    """When a worker last started in the folder or used one of its objects, in seconds since the epoch."""
    return max((folder / _LOCK).stat().st_mtime, *(path.lstat().st_atime for path in _objects_in(folder)), 0.0)


def _objects_in(folder: Path) -> Iterator[Path]:
    for group in folder.iterdir():
        if GROUP.fullmatch(group.name) and group.is_dir():
            yield from (path for path in group.iterdir() if DIGEST.fullmatch(path.name))


def _remove_objects(folder: Path) -> None:
    for partial in folder.glob(f".*{PARTIAL}"):
        partial.unlink(missing_ok=True)
    for path in list(_objects_in(folder)):
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()  # fails unless it is empty
