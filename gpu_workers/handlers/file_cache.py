"""Files of the data directory in a worker: loaded at their first use, the least recently used go."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from core.files.file_version import FileVersion

Loaded = TypeVar("Loaded")


class FileCache(Generic[Loaded]):
    """At most `loaded_max` files, as `load` makes them. One that changes has another stamp and is read anew."""

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
