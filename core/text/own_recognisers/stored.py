"""A definition in an encrypted file: a line of facts, then the definition.

Guarantee: as `core.files.encrypted_file`. Patterns and terms are on the disk in encrypted form alone. The facts contain
counts, and the name and type that requests use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import RecogniserBroken
from core.files.disk import FileVersion
from core.files.encrypted_file import decrypt, encrypt, read_encrypted
from core.job_errors import JobFilesLost
from core.text.own_recognisers.definition import Definition


@dataclass(frozen=True)
class RecogniserFile(FileVersion):
    """A version of the file, with what decrypts it."""

    key: bytes = field(repr=False)
    label: str


@dataclass(frozen=True)
class OwnReference:
    """A recogniser that a mask uses. `entity`: the type of its finds, empty if it only allows."""

    name: str
    entity: str
    file: RecogniserFile


def write(path: Path, key: bytes, label: str, facts: Mapping[str, Any], definition: Definition) -> None:
    """Replace the file at once. Raises OSError."""
    encrypt(path, key, label, json.dumps(facts).encode() + b"\n" + definition.packed())


def read_facts(file: RecogniserFile) -> dict[str, Any]:
    """Return the facts. Reads only the beginning of the file. Raises RecogniserBroken."""
    try:
        first = next(read_encrypted(Path(file.path), file.key, file.label), b"")
        found = json.loads(first.partition(b"\n")[0])
    except (JobFilesLost, ValueError):
        raise RecogniserBroken from None
    if not isinstance(found, dict):
        raise RecogniserBroken
    return found


def read_definition(file: RecogniserFile) -> bytes:
    """Return the definition as `Definition.packed`. Raises RecogniserBroken."""
    try:
        return decrypt(Path(file.path), file.key, file.label).partition(b"\n")[2]
    except JobFilesLost:
        raise RecogniserBroken from None
