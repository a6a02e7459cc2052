"""Files that hold a secret. They are written completely or not at all, and read only if they are usable.

Guarantee of `write_secret`: if the process or the machine stops at any moment, the name refers to the complete new
content, to the previous content, or to nothing. It never refers to a part. When the call returns, the content
and the name are on the disk. Only the owner can open the file (mode 0600).

Other small files that must survive a power failure (the ledger's epoch, a gateway's id) are written in the same way.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

SECRET_BYTES_MAX = 4_096

Secret = TypeVar("Secret")


def write_secret(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write `content` to a draft beside `path`, then rename it. A missing folder is created with mode 0700.

    Raises: FileExistsError if the name exists. With `replace` a regular file is replaced, and for anything else (a
    link, a device) the call raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if replace and (path.is_symlink() or path.exists()) and not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, 0o600)  # independent of the umask
            file.write(content)
            file.flush()
            os.fsync(fd)
        if replace:
            draft.replace(path)
        else:
            path.hardlink_to(draft)  # unlike a rename, this never replaces a file
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the folder: on return, added and removed names are on the disk."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_secret(path: Path, parse: Callable[[bytes], Secret], *, advice: str) -> Secret:
    """Read the file and return the result of `parse` for its content.

    Raises: OSError if the file cannot be read. ValueError, which contains the file's path and never its content, if
    users other than its owner may open it. Also ValueError, with `advice`, if the file is empty, contains only blanks
    or zero bytes, is longer than `SECRET_BYTES_MAX`, or `parse` raises ValueError.
    """
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) & 0o077:
            raise ValueError(f"{path} must be readable by its owner only (chmod 600)")
        content = file.read(SECRET_BYTES_MAX + 1)
    if not content.strip(b"\0 \t\r\n"):
        raise ValueError(f"{path} is empty: {advice}")
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"{path} is too long for a secret: {advice}")
    try:
        return parse(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {advice}") from None
