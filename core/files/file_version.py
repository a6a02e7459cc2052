"""A reference to one version of a file in the data directory that a worker keeps loaded."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

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
