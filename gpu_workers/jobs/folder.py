"""The files of a job's folder: their names, their versions, and the files of one moment.

Guarantee: a name that `is_plain` accepts stays in the folder that it is joined to. `snapshot` links whole files that
the folder had at one moment, while the job's process may replace them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from core.files.disk import FileVersion, file_version

OWNER, RUN_LOCK = "owner", "run.lock"  # of one machine
KEY, SPEC = "key", "spec"  # of the gateway: the wrapped key, and the fields of the request
OUTPUTS = "out"  # the folder of what a job has made
_OF_THIS_MACHINE = frozenset({OWNER, RUN_LOCK})
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_SNAPSHOTS_MAX = 10


class FolderBusy(OSError):
    """The files changed each time that they were looked at."""


def is_plain(name: object) -> bool:
    """Whether this is the name of a file of a job: no path, and no draft, whose name begins with a dot."""
    return isinstance(name, str) and _PLAIN.fullmatch(name) is not None


def versions(folder: Path) -> dict[str, FileVersion]:
    """The versions of the folder's own files that another gateway needs, by name."""
    found = {}
    for path in sorted(folder.iterdir()):
        if is_plain(path.name) and path.name not in _OF_THIS_MACHINE and path.is_file():
            version = file_version(path)
            if version is not None:
                found[path.name] = version
    return found


def snapshot(folder: Path, linked: Path) -> dict[str, FileVersion]:
    """Link the files of one moment into the new folder `linked`. A file is replaced by renaming, never changed, so a
    link keeps its bytes. Raises FolderBusy."""
    for _ in range(_SNAPSHOTS_MAX):
        found = versions(folder)
        linked.mkdir(mode=0o700)
        try:
            for name in found:
                (linked / name).hardlink_to(folder / name)
        except FileNotFoundError:
            pass
        else:
            if versions(folder) == found:
                return found
        shutil.rmtree(linked)
    raise FolderBusy
