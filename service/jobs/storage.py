"""What one tenant's files may take, in the blob store and on this disk, and what stays free on this disk for Redis.

By default, Redis stores the ledger on the same disk. When the disk is full, it accepts no write, and the gateway
releases nothing for any tenant. So the gateway refuses an upload before it writes the bytes that would leave less than
`disk_free_bytes_min`, and ends running jobs when half of that is used up by something else.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from core.errors import StorageFull
from core.files.disk import free_bytes
from core.redis.names import SHARED_OWNER
from gpu_workers.jobs.protocol import OWNER
from service.config.data_dir import PROCESSES, owner_folder
from service.config.settings import Settings

_INCOMING = ".incoming-"
_COUNT_AGAIN_BYTES = 16 * 1024 * 1024


class Storage:
    """The disk of one data directory, and its owners' files in the blob store. Methods that are no coroutines read the
    disk: call them in a thread.

    The operator's own files have no quota. Guarantee: `DiskAllowance.take` returns only while the tenant's files and
    the bytes that are about to be written are within `tenant_bytes_max`, and `free_bytes_min` stay free. Uploads of one
    tenant that run at the same time may together exceed the quota by 16 MiB each, and a running job by its checkpoints.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        tenant_bytes_max: int,
        free_bytes_min: int,
        stored: Callable[[str], Awaitable[int]],
        free_bytes: Callable[[Path], int] = free_bytes,
        processes: int = 1,
    ) -> None:
        """`stored` returns the bytes of an owner's files in the blob store. `processes` that share the directory."""
        self.stored = stored
        self._roots = [data_dir, *(data_dir / PROCESSES / str(number) for number in range(2, processes + 1))]
        self._data_dir = data_dir
        self._tenant_bytes_max = tenant_bytes_max
        self._free_bytes_min = free_bytes_min
        self._free_bytes = free_bytes

    def used(self, owner: str) -> int:
        """Bytes of the tenant's files on this disk that are not in the blob store: uploads that arrive, recognisers."""
        incoming = (folder for root in self._roots for folder in (root / "jobs").glob(f"{_INCOMING}*"))
        folders = [owner_folder(self._data_dir / "recognisers", owner)]
        folders += [folder for folder in incoming if _owner_of(folder) == owner]
        sizes: dict[int, int] = {}
        for folder in folders:
            for parent, _, names in os.walk(folder):  # unlike `Path.rglob`, it passes over folders removed meanwhile
                for name in names:
                    try:
                        stat = Path(parent, name).stat()
                    except FileNotFoundError:  # removed meanwhile
                        continue
                    sizes[stat.st_ino] = stat.st_size
        return sum(sizes.values())

    async def used_by(self, owner: str) -> int:
        """Bytes of all of the tenant's files: in the store, whichever gateway wrote them, and of `used`."""
        return await self.stored(owner) + await asyncio.to_thread(self.used, owner)

    def check(self, owner: str, size: int, *, used: int) -> None:
        """Raises StorageFull if `size` more bytes do not fit."""
        if owner != SHARED_OWNER and used + size > self._tenant_bytes_max:
            raise StorageFull(limit="tenant_disk_bytes_max")
        if self._free_bytes(self._data_dir) - size < self._free_bytes_min:
            raise StorageFull(limit="disk_free_bytes_min")

    def is_low(self) -> bool:
        """Whether less than half of the free space that is kept for Redis is left."""
        return self._free_bytes(self._data_dir) < self._free_bytes_min / 2


def storage(settings: Settings, stored: Callable[[str], Awaitable[int]]) -> Storage:
    """The disk of a gateway. `stored`: see `Storage`."""
    return Storage(
        settings.data_dir,
        tenant_bytes_max=settings.tenant_disk_bytes_max,
        free_bytes_min=settings.disk_free_bytes_min,
        stored=stored,
        processes=settings.processes,
    )


class DiskAllowance:
    """What one upload may write. Raises StorageFull from the start if nothing more fits."""

    def __init__(self, storage: Storage, owner: str, *, stored: int) -> None:
        """`stored`: bytes of the owner's files in the blob store."""
        self._storage = storage
        self._owner = owner
        self._stored = stored
        self._used = stored + storage.used(owner)
        self._since = 0
        storage.check(owner, 0, used=self._used)

    def take(self, size: int) -> None:
        """Call this before writing `size` bytes. Raises StorageFull."""
        self._storage.check(self._owner, size, used=self._used + self._since)
        self._since += size
        if self._since >= _COUNT_AGAIN_BYTES:  # other uploads of the tenant have grown meanwhile
            own = self._used + self._since  # a part of it may not be on the disk yet
            self._used, self._since = max(own, self._stored + self._storage.used(self._owner)), 0


def write_owner(folder: Path, owner: str) -> None:
    (folder / OWNER).write_text(owner)


def _owner_of(folder: Path) -> str | None:
    try:
        return (folder / OWNER).read_text()
    except OSError:
        return None
