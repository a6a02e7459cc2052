"""A worker's cache for files of the data directory. Files are loaded on first use; the least recently used are
evicted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from core.files.file_version import FileVersion

Loaded = TypeVar("Loaded")


class FileCache(Generic[Loaded]):
    """Holds at most `loaded_max` files, converted by `load`. A changed file has another version and is loaded again."""

    def __init__(self, load: Callable[[FileVersion], Loaded], *, loaded_max: int) -> None:
        self._load = load
        self._loaded_max = loaded_max
        self._loaded: OrderedDict[FileVersion, Loaded] = OrderedDict()

    def get(self, file: FileVersion) -> Loaded:
        """Raises what `load` raises."""
        if file not in self._loaded:
            self._loaded[file] = self._load(file)
        self._loaded.move_to_end(file)
        while len(self._loaded) > self._loaded_max:
            self._loaded.popitem(last=False)
        return self._loaded[file]
