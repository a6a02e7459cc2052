"""The files of the data directory that a task needs: domain packs, fine-tuned models and recognisers of tenants.

Guarantee: the engine refuses a task without its files before it hands the task to a worker, so that the task is not
charged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from core.files.disk import FileVersion
from core.text.policy import MaskPolicy


def absent(payloads: Sequence[Any]) -> list[int]:
    """Return the places of the payloads whose files are missing on this machine, or cannot be read.

    Reads no file: the local engine calls it on its event loop, and its gateway has just verified the files.
    """
    return [place for place, payload in enumerate(payloads) if not all(map(_exists, files_of(payload)))]


def files_of(payload: Any) -> Iterator[FileVersion]:
    """The files that a payload refers to."""
    for name in ("pack", "model"):
        if isinstance(found := getattr(payload, name, None), FileVersion):
            yield found
    if isinstance(policy := getattr(payload, "policy", None), MaskPolicy):
        yield from (own.file for own in policy.own)


def _exists(file: FileVersion) -> bool:
    return os.access(file.path, os.R_OK)  # unlike `Path.is_file`, it raises nothing for a folder that is closed
