"""The files of the data directory that a task needs: domain packs, fine-tuned models and recognisers of tenants.

Guarantee: a worker server runs a task only with files that have the digests which the gateway names
(`gpu_workers.engine.remote.object_server`). The local engine refuses a task without its files before it hands the task
to a worker. So a task whose files are missing is never charged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from core.files.file_version import FileVersion
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


class NeededFiles:
    """See `gpu_workers.engine.remote.object_server.TaskFiles`."""

    def of(self, payload: Any) -> Iterator[FileVersion]:
        return files_of(payload)

    def moved(self, payload: Any, where: Callable[[FileVersion], FileVersion]) -> Any:
        changes: dict[str, Any] = {}
        for name in ("pack", "model"):
            if isinstance(found := getattr(payload, name, None), FileVersion):
                changes[name] = where(found)
        if isinstance(policy := getattr(payload, "policy", None), MaskPolicy) and policy.own:
            own = tuple(_with(each, file=where(each.file)) for each in policy.own)
            changes["policy"] = _with(policy, own=own)
        return _with(payload, **changes) if changes else payload


def _with(value: Any, **changes: Any) -> Any:
    """A copy with other attributes. It was checked where it was made, so its checks do not run again."""
    made = copy(value)
    for name, changed in changes.items():
        object.__setattr__(made, name, changed)
    return made


def _exists(file: FileVersion) -> bool:
    return os.access(file.path, os.R_OK)  # unlike `Path.is_file`, it raises nothing for a folder that is closed
