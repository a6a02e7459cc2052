"""The free space of a disk, and the system's error about a full one."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import StorageFull

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def free_bytes(folder: Path) -> int:
    """Bytes that are free on the disk of an existing folder."""
    return shutil.disk_usage(folder).free


@contextmanager
def full_disk() -> Iterator[None]:
    """Raises StorageFull for the system's error about a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise StorageFull(limit="disk_free_bytes_min") from None
