"""A cache whose size is limited in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteCache(Generic[Key, Value]):
    """Keeps the most recently used values, at most `bytes_max` bytes of them. A larger value is not kept."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def make_space(self, size: int) -> None:
        """Drop values until one of `size` bytes fits."""
        while self._kept and self._bytes + size > self._bytes_max:
            self._bytes -= self._kept.popitem(last=False)[1][1]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value that is not in the cache."""
        if size <= self._bytes_max:
            self.make_space(size)
            self._kept[key] = value, size
            self._bytes += size
