"""An exclusive lock on a file. The kernel releases it when its last holder dies."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

POLL_INTERVAL_S = 0.05


class FileLock:
    """`flock` on `path`. It is not re-entrant, and a process may hold it through one object only.

    The lock belongs to the open file. A child that inherits `fileno()` keeps it after the parent has closed its own
    copy, so the lock shows whether such a child is alive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def fileno(self) -> int:
        if self._fd is None:
            raise RuntimeError("the lock is not held")
        return self._fd

    def try_acquire(self) -> bool:
        """Take the lock, or return False if another process holds it."""
        if self._fd is not None:
            raise RuntimeError("this object already holds the lock")
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return True

    async def acquire(self, timeout_s: float) -> bool:
        """Take the lock within `timeout_s`, or return False."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not self.try_acquire():
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(POLL_INTERVAL_S)
        return True

    def release(self) -> None:
        """Close this process's copy. A child that inherited the lock keeps it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
