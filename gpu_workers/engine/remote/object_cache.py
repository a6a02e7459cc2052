"""What a worker server keeps on its disk: files of tenants and public matrices, which gateways bring by their SHA-256.

    <folder>/<group>/<digest>          <folder>/.<random>.partial

Guarantee: an object is used only if its bytes have the digest that is its name. It appears when all of it has arrived
and has that digest; it is never changed afterwards. All objects, and those that are arriving, take at most `bytes_max`.
An object that a batch uses is not evicted before the batch has ended.

To make space, the object that was used longest ago is evicted from the group that takes most space, that of the new
object included. A group is what a tenant has stored, or what all share. So a tenant that brings many files evicts its
own. It takes the space of others for as much as its newest object needs, and only until another group is smaller.

Files are private to the account of the server. Packs, fine-tuned models and matrices are in plain form, as in the local
copies of a gateway; recognisers are encrypted under a key that comes with each task.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from core.files.disk import NO_SPACE, free_bytes
from core.files.file_lock import FileLock
from core.files.file_version import FileDigests

Key = tuple[str, str]  # a group and a digest

GROUP, DIGEST = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
# Why an object is not kept.
TOO_LARGE, IN_USE, DISK_FULL, UNUSABLE, WRONG = "too-large", "in-use", "disk-full", "disk-unusable", "wrong-content"
REASONS = (TOO_LARGE, IN_USE, DISK_FULL, UNUSABLE, WRONG)
_BYTES_LEAST = 4096  # that an object counts, so that their number is limited, too
PARTIAL = ".partial"


class NotKept(Exception):
    """The object is not kept. `reason`: one of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


@dataclass(eq=False)
class _Object:
    size: int  # as it counts
    used_ns: int
    holds: int = 0  # of batches


class Hold:
    """Keeps objects from being evicted for as long as it exists. `missing`: those that are not there."""

    def __init__(self, missing: frozenset[Key]) -> None:
        self.missing = missing


class ObjectCache:
    """The objects of one folder. Methods read and write the disk: call them in a thread. Thread-safe."""

    def __init__(
        self, folder: Path, *, bytes_max: int, lock: FileLock | None = None, free: Callable[[Path], int] = free_bytes
    ) -> None:
        """`lock`: what keeps other processes from the folder, held for as long as this object exists.

        Raises OSError for a folder that cannot be used.
        """
        self._folder = folder
        self._bytes_max = bytes_max
        self._file_lock = lock
        self._free = free
        self._digests = FileDigests()
        self._objects: dict[Key, _Object] = {}
        self._arriving: dict[str, tuple[str, int]] = {}  # groups and sizes, by the names of the partial files
        self._lock = threading.RLock()  # re-entrant: a hold may end anywhere
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._find()

    def path(self, key: Key) -> Path:
        """Where an object is, if it is there."""
        return self._folder.joinpath(*key)

    def has(self, key: Key) -> bool:
        """Whether an object is there. It counts as used now. Each object is read once after a start."""
        with self._lock:
            known = self._objects.get(key)
            if known is None:
                return False
            known.holds += 1
        try:
            path = self.path(key)
            if self._digests.get(path) == key[1]:
                known.used_ns = time.time_ns()
                with suppress(OSError):
                    os.utime(path, ns=(known.used_ns, path.stat().st_mtime_ns))
                return True
        finally:
            with self._lock:
                known.holds -= 1
        with self._lock:
            if self._objects.get(key) is known:
                self._drop(key)
        return False

    def hold(self, keys: Collection[Key]) -> Hold:
        """Keep those of `keys` that are there until the returned object is gone."""
        found: list[_Object] = []
        with self._lock:
            for key in keys:
                if key in self._objects:
                    self._objects[key].holds += 1
                    found.append(self._objects[key])
        hold = Hold(frozenset(key for key in keys if not self.has(key)))
        weakref.finalize(hold, self._let_go, found)
        return hold

    def open(self, key: Key, size: int) -> int | None:
        """A file descriptor of an object of this size; None if there is none. It stays readable if it is evicted."""
        if not self.has(key):
            return None
        try:
            fd = os.open(self.path(key), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        if os.fstat(fd).st_size != size:
            os.close(fd)
            return None
        return fd

    def arrival(self, key: Key, size: int) -> Arrival:
        """Make space for an object. Raises NotKept."""
        name = f".{secrets.token_hex(16)}{PARTIAL}"
        with self._lock:
            self._arriving[name] = key[0], _counted(size)
            try:
                self._make_space(size)
                return Arrival(self, key, size, self._folder / name)
            except OSError as error:
                del self._arriving[name]
                raise NotKept(reason_of(error)) from None
            except NotKept:
                del self._arriving[name]
                raise

    def place(self, key: Key, size: int, partial: Path) -> None:
        """Make a complete file an object, unless it is one already."""
        with self._lock:
            del self._arriving[partial.name]
            if key not in self._objects:
                path = self.path(key)
                path.parent.mkdir(mode=0o700, exist_ok=True)
                partial.rename(path)
                self._objects[key] = _Object(_counted(size), time.time_ns())

    def forget(self, partial: Path) -> None:
        """An object has arrived, or does not."""
        with self._lock:
            self._arriving.pop(partial.name, None)
        with suppress(OSError):
            partial.unlink(missing_ok=True)

    def _let_go(self, objects: Iterable[_Object]) -> None:
        with self._lock:
            for each in objects:
                each.holds -= 1

    def _make_space(self, size: int) -> None:
        """Evict until everything fits. Raises NotKept, without evicting anything where that cannot be enough."""
        if _counted(size) > self._bytes_max:
            raise NotKept(TOO_LARGE)
        idle = sum(own.size for own in self._objects.values() if not own.holds)
        if self._used - idle > self._bytes_max:
            raise NotKept(IN_USE)
        if self._free(self._folder) + idle < size:
            raise NotKept(DISK_FULL)
        while True:
            over = self._used > self._bytes_max
            if not over and self._free(self._folder) >= size:
                return
            victim = self._victim()
            if victim is None:
                raise NotKept(IN_USE if over else DISK_FULL)
            self._drop(victim)

    @property
    def _used(self) -> int:
        return sum(own.size for own in self._objects.values()) + sum(size for _, size in self._arriving.values())

    def _victim(self) -> Key | None:
        """The object to evict next; None if all are in use."""
        sizes: Counter[str] = Counter()
        for (group, _), own in self._objects.items():
            sizes[group] += own.size
        for group, size in self._arriving.values():
            sizes[group] += size
        idle = [(-sizes[key[0]], own.used_ns, key) for key, own in self._objects.items() if not own.holds]
        return min(idle)[2] if idle else None

    def _drop(self, key: Key) -> None:
        del self._objects[key]
        with suppress(OSError):
            self.path(key).unlink(missing_ok=True)
            self.path(key).parent.rmdir()  # fails unless it is empty

    def _find(self) -> None:
        """Take over what an earlier process left, and remove what it had not completed."""
        for entry in self._folder.iterdir():
            if entry.name.endswith(PARTIAL):
                entry.unlink(missing_ok=True)
            elif GROUP.fullmatch(entry.name) and entry.is_dir():
                for path in entry.iterdir():
                    if DIGEST.fullmatch(path.name):
                        stat = path.lstat()
                        self._objects[entry.name, path.name] = _Object(_counted(stat.st_size), stat.st_atime_ns)
        while self._used > self._bytes_max and (victim := self._victim()) is not None:  # the limit was larger
            self._drop(victim)


class Arrival:
    """An object that is arriving. `close` it in any case; only `finish` makes it an object."""

    def __init__(self, cache: ObjectCache, key: Key, size: int, partial: Path) -> None:
        """Raises OSError."""
        self._cache, self._key, self._size, self._partial = cache, key, size, partial
        self._digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(partial, flags, 0o600), "wb", buffering=0)
        self._forget = weakref.finalize(self, cache.forget, partial)  # also if the caller is cancelled

    def write(self, data: memoryview) -> None:
        """Raises NotKept if the disk is full."""
        self._digest.update(data)
        try:
            while len(data):
                data = data[self._file.write(data) :]
        except OSError as error:
            raise NotKept(reason_of(error)) from None

    def finish(self) -> None:
        """Keep the object. Raises NotKept if its content is another one."""
        if self._digest.hexdigest() != self._key[1] or self._file.tell() != self._size:
            raise NotKept(WRONG)
        try:
            self._cache.place(self._key, self._size, self._partial)
        except OSError as error:
            raise NotKept(reason_of(error)) from None

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
        self._forget()


def reason_of(error: OSError) -> str:
    """The reason for an error of the system."""
    return DISK_FULL if error.errno in NO_SPACE else UNUSABLE


def _counted(size: int) -> int:
    return max(_BYTES_LEAST, size)
