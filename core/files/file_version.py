"""A reference to one version of a file in the data directory that a worker keeps loaded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileVersion:
    """`stamp` identifies a version of the file, so that a worker reads a replaced file again."""

    path: str
    stamp: str


def file_version(path: Path) -> FileVersion | None:
    """Return the current version of the file, or None if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return FileVersion(str(path), f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the file's bytes, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
