"""A worker's cache for files of the data directory. Files are loaded on first use.

Guarantee: what is loaded is the version of the file that the gateway names by its digest, or the task fails.

Each tenant's files are in a folder of their own. The least recently used file of the folder with most loaded files is
evicted: a tenant that uses many files evicts its own, and the only file of another tenant stays.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from core.errors import TaskFailed
from core.files.disk import FileVersion, file_digest, file_version

Loaded = TypeVar("Loaded")


class FileCache(Generic[Loaded]):
    """Holds at most `loaded_max` files, converted by `load`. A changed file has another version and is loaded again."""

    def __init__(self, load: Callable[[FileVersion], Loaded], *, loaded_max: int) -> None:
        self._load = load
        self._loaded_max = loaded_max
        self._loaded: OrderedDict[FileVersion, Loaded] = OrderedDict()

    def get(self, file: FileVersion) -> Loaded:
        """Raises what `load` raises, and TaskFailed for a file of another version."""
        if file not in self._loaded:
            self._loaded[file] = self._checked(file)
        self._loaded.move_to_end(file)
        while len(self._loaded) > self._loaded_max:
            self._evict()
        return self._loaded[file]

    def _checked(self, file: FileVersion) -> Loaded:
        """Load a file. It may have been replaced since the request was priced."""
        path = Path(file.path)
        before = file_version(path)
        loaded = self._load(file)
        if file.digest is not None and (file_digest(path) != file.digest or file_version(path) != before):
            raise TaskFailed(reason="file-changed")
        return loaded

    def _evict(self) -> None:
        loaded = Counter(_folder(file) for file in self._loaded)
        most = max(loaded.values())
        del self._loaded[next(file for file in self._loaded if loaded[_folder(file)] == most)]


def _folder(file: FileVersion) -> Path:
    return Path(file.path).parent
