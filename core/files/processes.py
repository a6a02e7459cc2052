"""What the processes of one machine share: exclusive locks, and Unix sockets in folders that no other user can enter.

The kernel releases a lock on a file when its last holder dies.
"""

import asyncio
import fcntl
import hashlib
import os
import stat
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


SOCKET_PATH_BYTES_MAX = 100  # sun_path holds 108 bytes on Linux, 104 on BSD


def socket_path(folder: Path, name: str) -> Path:
    """Return the path of a socket of `folder`, an absolute path. It does not depend on the process.

    A path that is too long for a socket address is replaced by one in a private directory under /tmp. TMPDIR is
    ignored, because it may differ between the processes that use the socket.
    """
    path = folder / name
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path("/tmp") / f"privacy-gateway-{os.geteuid()}-{digest}" / name  # noqa: S108 - see private_folder


def private_folder(path: Path) -> None:
    """Create `path` with mode 0700. Raises PermissionError if it belongs to another user, or is no folder."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError("the folder of a socket belongs to another user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)
