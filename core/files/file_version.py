"""A file of the data directory that a worker keeps loaded: where it is, and which state of it is meant."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileVersion:
    """`stamp` tells one state of the file from another, so that one that was replaced is read anew."""

    path: str
    stamp: str


def file_version(path: Path) -> FileVersion | None:
    """The file as it is now; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return FileVersion(str(path), f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}")


def file_digest(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
