"""What a job's process has changed in its folder since the gateway last had it."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.files.file_version import FileVersion
from gpu_workers.job_runners.frames import Listed
from gpu_workers.jobs.folder import GATEWAY_ONLY, snapshot, versions


@dataclass(frozen=True)
class Changes:
    """The files of one moment: those that changed, linked in `folder`, and the names of those that are gone."""

    folder: Path
    changed: list[Listed]
    gone: list[str]
    versions: dict[str, FileVersion]


class FolderChanges:
    """Compares a folder with what was last sent of it. Every method reads the disk: call it in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent = versions(folder, without=GATEWAY_ONLY)

    def look(self) -> Changes | None:
        """The files of this moment; None if they are those that were sent. `sent` ends it. Raises FolderBusy,
        OSError."""
        if versions(self._folder, without=GATEWAY_ONLY) == self._sent:
            return None
        linked = self._folder / f".snapshot-{secrets.token_hex(8)}"
        found = snapshot(self._folder, linked, without=GATEWAY_ONLY)
        names = [name for name, version in found.items() if self._sent.get(name) != version]
        changed = [Listed(name, (linked / name).stat().st_size) for name in names]
        return Changes(linked, changed, sorted(self._sent.keys() - found.keys()), found)

    def sent(self, changes: Changes) -> None:
        """The gateway has got these."""
        self._sent = changes.versions
        shutil.rmtree(changes.folder, ignore_errors=True)
