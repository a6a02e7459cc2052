"""Limits of the memory of a process: what it may allocate, a cache of limited size, and freed memory that returns to
the system.

The C library keeps a pool of memory (an arena) for each of many threads, with what large bodies leave there after they
were parsed. After 20,000 hostile requests the gateway had 416 MB instead of 307 MB. A gateway therefore uses few arenas
and trims them regularly. A worker trims once, after it has loaded its models. Other C libraries than glibc do neither,
and the functions then do nothing.
"""

import ctypes
import resource
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteCache(Generic[Key, Value]):
    """Keeps the most recently used values: at most `count_max`, of at most `bytes_max` bytes together.

    A value that is larger by itself is not kept.
    """

    def __init__(self, bytes_max: int, *, count_max: int | None = None) -> None:
        """`count_max`: by default the number of values is not limited."""
        self._bytes_max = bytes_max
        self._count_max = count_max
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
            self._drop_oldest()

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value that is not in the cache."""
        if size <= self._bytes_max:
            self.make_space(size)
            if len(self._kept) == self._count_max:
                self._drop_oldest()
            self._kept[key] = value, size
            self._bytes += size

    def _drop_oldest(self) -> None:
        self._bytes -= self._kept.popitem(last=False)[1][1]


ARENAS = 2  # Python's interpreter lock lets one thread allocate at a time, so that more would be no faster
TRIM_INTERVAL_S = 30.0
_M_ARENA_MAX = -8  # of malloc.h

_C_LIBRARY = ctypes.CDLL(None)


def use_few_arenas() -> None:
    """Call this before the first thread starts."""
    if hasattr(_C_LIBRARY, "mallopt"):
        _C_LIBRARY.mallopt(_M_ARENA_MAX, ARENAS)


def trim() -> None:
    """Return free memory of all arenas. Takes some milliseconds, without Python's interpreter lock."""
    if hasattr(_C_LIBRARY, "malloc_trim"):
        _C_LIBRARY.malloc_trim(0)


def limit_memory(more_bytes: int) -> None:
    """Let every allocation fail with an error that would exceed what the process has now by more than `more_bytes`.

    A fork has the memory of its fork server, which it shares, and which is therefore not counted.

    RLIMIT_DATA counts writable private memory: what Python, NumPy and torch allocate, and the stacks of threads. It
    does not count mapped files (libraries, safetensors) or reserved addresses, of which torch with CUDA has more than
    the machine has memory; RLIMIT_AS would count them. The memory of a GPU is not limited.
    """
    limit = more_bytes + _data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _data_bytes() -> int:
    """What RLIMIT_DATA counts now."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmData:")).split()[1])
    return 0
