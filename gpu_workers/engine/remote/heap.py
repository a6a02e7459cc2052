"""Keep the memory of freed messages for the next ones.

The C library gives freed memory back to the system, and each page of the next message of 2 MB then costs a page fault.
For vectors of 154 MB there and back, that was a third of the processor time.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

from gpu_workers.engine.remote.frames import MESSAGE_BYTES_MAX

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_KEPT_BYTES_MAX = 64 * 1024 * 1024


def keep_freed_memory() -> None:
    """Let this process keep up to 64 MB of freed memory. What is larger than a message is still given back at once.
    Without glibc it does nothing."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, MESSAGE_BYTES_MAX)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
