"""A digest of the code that gateways and workers share, by which those of different code refuse each other."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import core
import gpu_workers


@cache
def code_digest() -> str:
    """Return a digest of the Python sources of `core` and `gpu_workers`, as they are when it is first called."""
    return digest_of([Path(package.__path__[0]) for package in (core, gpu_workers)])


def digest_of(folders: list[Path]) -> str:
    """Return a digest of the names and contents of all Python files in these folders."""
    whole = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{folder.name}/{path.relative_to(folder).as_posix()}\n{content}\n".encode())
    return whole.hexdigest()
