"""The files of the data directory that a task needs: domain packs, fine-tuned models and recognisers of tenants.

Guarantee: a worker server refuses a task whose files its machine does not have, or has in another version than the
gateway names by its digest. It does so before it runs anything, and the local engine refuses a task without its files
before it hands the task to a worker. So such a task is never charged. The folder of these files is shared between the
machines, under the same path (`docs/operating/scaling.md`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.files.file_version import FileDigests, FileVersion
from core.text.policy import MaskPolicy


def lacking(payloads: Sequence[Any]) -> list[int]:
    """Return the places of the payloads whose files are missing on this machine, or cannot be read. Reads no file: for
    the local engine, whose gateway has just looked at their versions."""
    return [place for place, payload in enumerate(payloads) if not all(map(_exists, _files(payload)))]


class NeededFiles:
    """The same with the versions of the files. It may be used by several threads."""

    def __init__(self) -> None:
        self._digests = FileDigests()

    def lacking(self, payloads: Sequence[Any]) -> list[int]:
        """Return the places of the payloads whose files are missing on this machine, are others or cannot be read."""
        return [place for place, payload in enumerate(payloads) if not all(map(self._has, _files(payload)))]

    def _has(self, file: FileVersion) -> bool:
        return file.digest is not None and self._digests.get(Path(file.path)) == file.digest


def _files(payload: Any) -> Iterator[FileVersion]:
    for name in ("pack", "model"):
        if isinstance(found := getattr(payload, name, None), FileVersion):
            yield found
    if isinstance(policy := getattr(payload, "policy", None), MaskPolicy):
        yield from (own.file for own in policy.own)


def _exists(file: FileVersion) -> bool:
    return os.access(file.path, os.R_OK)  # unlike `Path.is_file`, it raises nothing for a folder that is closed
