"""Local copies of what the blob store holds.

    <data_dir>/cache/<area>/tenants/<tenant>/<name>.<digest><suffix>
    <data_dir>/cache/<area>/shared/<name>.<digest><suffix>

`<digest>` is the SHA-256 of the file, so the files that replace those of a name do not change the copy that a request
was priced for and waits to use.

Guarantee: the copies together take at most `bytes_max`, and no copy is begun that would leave less than
`free_bytes_min` on the disk. A copy that was used lately is never removed to free space, so whoever looked it up finds
it. The copies that a tenant used lately take at most half of what those of others leave, so a tenant that uses many
cannot keep another one from its own; its first one is excepted.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.errors import StorageFull
from core.files.disk import FileDigests, free_bytes
from core.redis.names import SHARED_OWNER
from core.state.stored_files import AREAS, ARTIFACTS, BATCH_FILES
from service.config.data_dir import owner_folder

CACHE = "cache"
IN_USE_S = 600.0
_DOWNLOADED_S = 60.0  # an artifact or a file of a batch is opened as soon as it was looked up
_TENANT_SHARE = 0.5
_PARTIAL = ".partial"


@dataclass(frozen=True)
class Copy:
    """One local copy, and when it was last used, in seconds since the epoch. `digest`: the one that its name states."""

    owner: str
    area: str
    name: str
    digest: str
    path: Path
    used_at: float
    size: int


class LocalCopies:
    """The copies of one data directory. Methods read the disk: call them in a thread. Thread-safe."""

    def __init__(
        self,
        data_dir: Path,
        *,
        bytes_max: int,
        free_bytes_min: int,
        in_use_s: float = IN_USE_S,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        """`in_use_s`: how long a copy may be needed after it was looked up."""
        self._folder = data_dir / CACHE
        self._bytes_max = bytes_max
        self._free_bytes_min = free_bytes_min
        self._in_use_s = in_use_s
        self._free = free
        self._digests = FileDigests()
        self._coming: dict[str, tuple[str, int]] = {}  # owners and sizes of copies that are being made
        self._lock = threading.Lock()

    def path(self, owner: str, area: str, name: str, suffix: str, digest: str) -> Path:
        """Where the copy of the file with this digest is, if there is one."""
        return owner_folder(self._folder / area, owner) / f"{name}.{digest}{suffix}"

    def remove(self, owner: str, area: str, name: str) -> None:
        """Remove all copies of a name, also those in use."""
        with self._lock:
            for copy in self._found_in(owner, area, owner_folder(self._folder / area, owner)):
                if copy.name == name:
                    with suppress(OSError):
                        copy.path.unlink(missing_ok=True)

    def draft(self) -> Path:
        """The path of a new file that is removed after a crash."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f".{secrets.token_hex(16)}{_PARTIAL}"

    def sweep_drafts(self) -> None:
        """Remove what a crash left unfinished. No other process may use the data directory."""
        for draft in self._folder.rglob(f"*{_PARTIAL}"):
            draft.unlink(missing_ok=True)

    def use(self, path: Path, digest: str) -> bool:
        """Whether the copy at `path` has this digest. It counts as used now then. Each version of a file is read
        once."""
        if self._digests.get(path) != digest:
            return False
        with self._lock:  # of `evict`: a copy is not removed between this look and this mark
            try:
                os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
            except FileNotFoundError:
                return False
            except OSError:  # a folder that is only read: nothing is evicted there either
                pass
        return True

    @contextmanager
    def coming(self, owner: str, size: int) -> Iterator[str]:
        """Counts a copy of at most `size` bytes that is being made, until the block ends. Pass what it yields to
        `ensure_space`."""
        token = secrets.token_hex(8)
        self._coming[token] = owner, size
        try:
            yield token
        finally:
            del self._coming[token]

    def ensure_space(self, token: str) -> None:
        """Remove copies that are not in use, those that were used longest ago first, until everything fits.

        Raises StorageFull if it does not fit even then, or if the tenant has its share.
        """
        with self._lock:
            coming = dict(self._coming)
            copies = self._found()
            self._check_share(coming[token][0], coming, [copy for copy in copies if self._is_in_use(copy)])
            self._evict(copies, coming)

    def evict(self) -> None:
        """Remove copies that are not in use, until the rest fits."""
        with self._lock, suppress(StorageFull):
            self._evict(self._found(), {})

    def check_disk(self, size: int) -> None:
        """Raises StorageFull if `size` more bytes would leave less than half of the free space, as for running jobs."""
        if self._free_on_disk() - size < self._free_bytes_min / 2:
            raise StorageFull(limit="disk_free_bytes_min")

    def idle(self) -> list[Copy]:
        """The copies that nothing uses."""
        return [copy for copy in self._found() if not self._is_in_use(copy)]

    def remove_idle(self, copy: Copy) -> bool:
        """Remove a copy unless it was used since it was listed. Returns whether it is removed."""
        with self._lock:
            return self._remove(copy)

    def place(self, draft: Path, path: Path) -> None:
        """Make a finished draft the copy at `path`."""
        with self._lock:  # of `evict`: the new copy is not taken for the one that was there
            draft.replace(path)

    def _remove(self, copy: Copy) -> bool:
        try:
            if copy.path.stat().st_atime != copy.used_at:
                return False
        except FileNotFoundError:
            return False
        copy.path.unlink(missing_ok=True)
        return True

    def _check_share(self, owner: str, coming: dict[str, tuple[str, int]], in_use: list[Copy]) -> None:
        sizes = [(copy.owner, copy.size) for copy in in_use] + list(coming.values())
        own = [size for other, size in sizes if other == owner]
        others = sum(size for other, size in sizes if other != owner)
        if owner != SHARED_OWNER and len(own) > 1 and sum(own) > _TENANT_SHARE * (self._bytes_max - others):
            raise StorageFull(limit="store_cache_bytes_max")

    def _evict(self, copies: list[Copy], coming: dict[str, tuple[str, int]]) -> None:
        arriving = sum(size for _, size in coming.values())
        over = sum(copy.size for copy in copies) + arriving - self._bytes_max
        # What arrives is on the disk twice for a moment: encrypted and in plain form.
        lacking = self._free_bytes_min + 2 * arriving - self._free_on_disk() if coming else 0
        for copy in sorted(copies, key=lambda copy: copy.used_at):
            if over <= 0 and lacking <= 0:
                return
            if not self._is_in_use(copy) and self._remove(copy):
                over -= copy.size
                lacking -= copy.size
        if over > 0 or lacking > 0:
            raise StorageFull(limit="store_cache_bytes_max" if over > 0 else "disk_free_bytes_min")

    def _is_in_use(self, copy: Copy) -> bool:
        return time.time() - copy.used_at < (_DOWNLOADED_S if copy.area in (ARTIFACTS, BATCH_FILES) else self._in_use_s)

    def _found(self) -> list[Copy]:
        found: list[Copy] = []
        for area in AREAS:
            folders = [(SHARED_OWNER, self._folder / area / "shared")]
            folders += [(folder.name, folder) for folder in (self._folder / area / "tenants").glob("*/")]
            for owner, folder in folders:
                found += self._found_in(owner, area, folder)
        return found

    def _found_in(self, owner: str, area: str, folder: Path) -> Iterator[Copy]:
        for path in folder.glob("[!.]*"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                name, _, digest = path.stem.partition(".")
                yield Copy(owner, area, name, digest, path, stat.st_atime, stat.st_size)

    def _free_on_disk(self) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._free(self._folder)
