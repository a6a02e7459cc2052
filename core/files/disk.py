"""Files that survive a power failure, the versions of files, and the free space of a disk.

Files that hold a secret are written completely or not at all, and read only if they are usable. Guarantee of
`write_secret`: if the process or the machine stops at any moment, the name refers to the complete new content, to the
previous content, or to nothing. It never refers to a part. When the call returns, the content and the name are on the
disk. Only the owner can open the file (mode 0600). Other small files that must survive a power failure (the ledger's
epoch, a gateway's id) are written in the same way.

A `FileVersion` refers to one version of a file in the data directory that a worker keeps loaded.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.errors import StorageFull

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def free_bytes(folder: Path) -> int:
    """Bytes that are free on the disk of an existing folder."""
    return shutil.disk_usage(folder).free


@contextmanager
def full_disk() -> Iterator[None]:
    """Raises StorageFull for the system's error about a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise StorageFull(limit="disk_free_bytes_min") from None


SECRET_BYTES_MAX = 4_096

Secret = TypeVar("Secret")


def write_secret(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write `content` to a draft beside `path`, then rename it. A missing folder is created with mode 0700.

    Raises: FileExistsError if the name exists. With `replace` a regular file is replaced, and for anything else (a
    link, a device) the call raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if replace and (path.is_symlink() or path.exists()) and not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)  # independent of the umask
            file.write(content)
            file.flush()
            os.fsync(fd)
        if replace:
            draft.replace(path)
        else:
            path.hardlink_to(draft)  # unlike a rename, this never replaces a file
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the folder: on return, added and removed names are on the disk."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_secret(path: Path, parse: Callable[[bytes], Secret], *, advice: str) -> Secret:
    """Read the file and return the result of `parse` for its content.

    Raises: OSError if the file cannot be read. ValueError, which contains the file's path and never its content, if
    users other than its owner may open it. Also ValueError, with `advice`, if the file is empty, contains only blanks
    or zero bytes, is longer than `SECRET_BYTES_MAX`, or `parse` raises ValueError.
    """
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) & 0o077:
            raise ValueError(f"{path} must be readable by its owner only (chmod 600)")
        content = file.read(SECRET_BYTES_MAX + 1)
    if not content.strip(b"\0 \t\r\n"):
        raise ValueError(f"{path} is empty: {advice}")
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"{path} is too long for a secret: {advice}")
    try:
        return parse(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {advice}") from None


_KEPT_MAX = 4096
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class FileVersion:
    """`stamp` identifies a version of the file, so that a worker reads a replaced file again: its SHA-256 in hex, or
    what the file system says of it (`file_version`)."""

    path: str
    stamp: str

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the file's bytes, None if the stamp is none."""
        return self.stamp if _DIGEST.fullmatch(self.stamp) else None


def file_version(path: Path) -> FileVersion | None:
    """Return the current version of the file, or None if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return FileVersion(str(path), f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the file's bytes, in hex. Raises OSError.

    Where the system permits, the file's time of use stays the same: local copies are removed by it.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # a file of another account
        descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileDigests:
    """The digests of files that are replaced by renaming, never changed. Each version of a file is read once. It may be
    used by several threads."""

    def __init__(self) -> None:
        self._known: dict[FileVersion, str] = {}

    def get(self, path: Path) -> str | None:
        """The SHA-256 of the file's bytes in hex; None for a file that is missing or cannot be read."""
        version = file_version(path)
        if version is None:
            return None
        known = self._known.get(version)
        if known is not None:
            return known
        try:
            digest = file_digest(path)
        except OSError:
            return None
        if file_version(path) == version:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[version] = digest
        return digest
