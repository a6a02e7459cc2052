"""Unix sockets in folders that no other user can enter."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

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
