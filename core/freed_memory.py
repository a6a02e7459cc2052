"""Freed memory is returned to the system.

The C library keeps a pool of memory (an arena) for each of many threads, with what large bodies leave there after they
were parsed. After 20,000 hostile requests the gateway had 416 MB instead of 307 MB. A gateway therefore uses few arenas
and trims them regularly. A worker trims once, after it has loaded its models. Other C libraries than glibc do neither,
and the functions then do nothing.
"""

from __future__ import annotations

import ctypes

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
