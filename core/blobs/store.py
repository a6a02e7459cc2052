"""Blob stores: named byte sequences that every gateway finds, in a local folder by default.

Guarantee of every implementation: a blob is visible whole or not at all. When `put` returns, its bytes survive a crash
of the machine or of the store's server. With `create_only` exactly one of several writers of a key succeeds, and
nothing is replaced. Keys are listed in the order of their characters. No key may name a folder of another key: `a` and
`a/b` exclude each other.

A store gives no secrecy: callers encrypt what is private before they store it. It also does not detect changed bytes.

Every method raises StoreUnavailable if the store cannot be used, after the timeouts and retries of its options.
`put` and `put_file` raise StorageFull if a local disk is full.

In a local folder, a blob is written to a draft, synced, and linked or renamed to its name; then its folder is synced.
Files are readable by their owner only. `open_store` imports the library of object stores only if the address names one.
"""

import asyncio
import errno
import os
import re
import secrets
import shutil
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from core.errors import BlobExists, BlobMissing, StorageFull, StoreUnavailable
from core.files.disk import NO_SPACE, sync_folder


@dataclass(frozen=True)
class StoreOptions:
    """Of an object store; a local folder needs none.

    config: options of `obstore` for this kind of store, such as `endpoint`, `region` and credentials. Those that are
    missing come from the environment of the cloud, such as AWS_ACCESS_KEY_ID or the role of the machine.
    timeout_s: of one request, and of all retries of one. plain_http: whether HTTP without TLS is allowed.
    """

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0
    connect_timeout_s: float = 5.0
    retries_max: int = 3
    plain_http: bool = False
    ca_file: Path | None = None


KEY_CHARS_MAX = 512
CREATE_BYTES_MAX = 256 * 1024 * 1024  # object stores create in one request; its body is held in memory
WHOLE_BYTES_MAX = 8 * 1024 * 1024  # of a file that is sent in one request; larger ones are streamed in parts
CHUNK_BYTES = 4 * 1024 * 1024
PROBES = "probes"
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def check_key(key: str) -> str:
    """The key. Raises ValueError unless it is segments of letters, digits, `.`, `_` and `-`, separated by `/`.

    No segment begins with a point, so that no key leaves a local folder or names a draft.
    """
    if len(key) > KEY_CHARS_MAX or not all(_SEGMENT.fullmatch(segment) for segment in key.split("/")):
        raise ValueError("not a key of a blob")
    return key


class BlobStore(ABC):
    """One store. Instances may be used by several tasks at once."""

    @abstractmethod
    async def put(self, key: str, data: bytes | AsyncIterator[bytes], *, create_only: bool = False) -> None:
        """Store the bytes, and replace what was there unless `create_only`. Raises BlobExists, StorageFull.

        With `create_only`, BlobExists may also mean that this call has stored the blob and that the store's answer was
        lost: compare the bytes where it matters. Raises ValueError for more than CREATE_BYTES_MAX with `create_only`.
        """

    @abstractmethod
    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        """As `put`, from a file. A local store may link the file: it must not be changed in place afterwards."""

    @abstractmethod
    async def get(self, key: str) -> bytes:
        """The whole blob. Raises BlobMissing."""

    @abstractmethod
    def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` up to `end` (excluded, by default all) in chunks of at most CHUNK_BYTES.

        The chunks are of one version of the blob, or the call fails: BlobMissing, StoreUnavailable.
        """

    @abstractmethod
    async def head(self, key: str) -> int:
        """The number of bytes. Raises BlobMissing."""

    @abstractmethod
    async def stored_at(self, key: str) -> float:
        """When the blob was stored, in seconds on the store's own clock. Compare it with that of another blob alone.

        Raises BlobMissing.
        """

    async def now(self) -> float:
        """The time on the clock of `stored_at`. Stores a probe and deletes it."""
        key = f"{PROBES}/{secrets.token_hex(16)}"
        await self.put(key, b"now")
        try:
            return await self.stored_at(key)
        finally:
            await self.delete([key])

    @abstractmethod
    def list(self, prefix: str, *, after: str | None = None) -> AsyncIterator[tuple[str, int]]:
        """Yield key and size of every blob in the folder `prefix` (whole segments) and below it, in order of the keys.

        `after`: only keys that come after this one.
        """

    @abstractmethod
    async def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs; those that do not exist are no error."""

    async def check(self) -> None:
        """Write, create, read and delete a probe. Raises StoreUnavailable if the store does not keep its guarantees."""
        key, data = f"{PROBES}/{secrets.token_hex(16)}", secrets.token_bytes(32)
        await self.put(key, data, create_only=True)
        try:
            with suppress(BlobExists):
                await self.put(key, b"replaced", create_only=True)
            if await self.get(key) != data:
                raise StoreUnavailable(reason="not-create-only")
        finally:
            await self.delete([key])


_DRAFTS = ".drafts"
_DRAFT_AGE_S_MAX = 86_400
_LIST_BATCH = 500


class LocalBlobs(BlobStore):
    """Blobs below `folder`, which is created on first use. Several processes may use one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._drafts = folder / _DRAFTS

    async def put(self, key: str, data: bytes | AsyncIterator[bytes], *, create_only: bool = False) -> None:
        target = self._path(key)
        if isinstance(data, bytes):
            await asyncio.to_thread(self._put_bytes, target, data, create_only)
            return
        draft, file = await asyncio.to_thread(self._new_draft)
        try:
            with file:
                async for chunk in data:
                    await asyncio.to_thread(_write, file, chunk)
                    if create_only and file.tell() > CREATE_BYTES_MAX:
                        raise ValueError("too many bytes for `create_only`")
                await asyncio.to_thread(_sync, file)
            await asyncio.to_thread(self._publish, draft, target, create_only)
        finally:
            await asyncio.to_thread(draft.unlink, missing_ok=True)

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        target = self._path(key)

        def put() -> None:
            if create_only and path.stat().st_size > CREATE_BYTES_MAX:
                raise ValueError("too many bytes for `create_only`")
            draft = self._draft_path()
            try:
                with _failures():
                    _link_or_copy(path, draft)
                    descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
                self._publish(draft, target, create_only)
            finally:
                draft.unlink(missing_ok=True)

        await asyncio.to_thread(put)

    async def get(self, key: str) -> bytes:
        def read() -> bytes:
            with _missing():
                return path.read_bytes()

        path = self._path(key)
        return await asyncio.to_thread(read)

    async def read(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        def opened() -> BinaryIO:
            with _missing():
                file = path.open("rb")
                file.seek(start)
                return file

        def chunk(size: int) -> bytes:
            with _failures():
                return file.read(size)

        path = self._path(key)
        file = await asyncio.to_thread(opened)
        with file:
            position = start
            while end is None or position < end:
                size = CHUNK_BYTES if end is None else min(CHUNK_BYTES, end - position)
                data = await asyncio.to_thread(chunk, size)
                if not data:
                    return
                position += len(data)
                yield data

    async def head(self, key: str) -> int:
        return (await asyncio.to_thread(_stat, self._path(key))).st_size

    async def stored_at(self, key: str) -> float:
        # The time of change of the name, not of the bytes: a file may be older than its link in the store.
        return (await asyncio.to_thread(_stat, self._path(key))).st_ctime

    async def list(self, prefix: str, *, after: str | None = None) -> AsyncIterator[tuple[str, int]]:
        def batch() -> list[tuple[str, int]]:
            with _failures():
                return [found for _, found in zip(range(_LIST_BATCH), walk, strict=False)]

        walk = _walk(self._path(prefix) if prefix else self._folder, f"{prefix}/" if prefix else "", after or "")
        while rows := await asyncio.to_thread(batch):
            for row in rows:
                yield row

    async def delete(self, keys: Iterable[str]) -> None:
        def remove() -> None:
            with _failures():
                for path in paths:
                    with suppress(FileNotFoundError, NotADirectoryError):
                        path.unlink()
                for folder in {path.parent for path in paths}:
                    with suppress(FileNotFoundError, NotADirectoryError):
                        sync_folder(folder)

        paths = [self._path(key) for key in keys]
        await asyncio.to_thread(remove)

    async def check(self) -> None:
        """As `BlobStore.check`. Also removes drafts that a crash has left behind."""
        await super().check()
        await asyncio.to_thread(self._sweep)

    def _path(self, key: str) -> Path:
        return self._folder.joinpath(*check_key(key).split("/"))

    def _put_bytes(self, target: Path, data: bytes, create_only: bool) -> None:
        draft, file = self._new_draft()
        try:
            with file:
                _write(file, data)
                _sync(file)
            self._publish(draft, target, create_only)
        finally:
            draft.unlink(missing_ok=True)

    def _draft_path(self) -> Path:
        with _failures():
            self._make_folder(self._drafts)
        return self._drafts / secrets.token_hex(16)

    def _new_draft(self) -> tuple[Path, BinaryIO]:
        draft = self._draft_path()
        with _failures():
            return draft, os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

    def _publish(self, draft: Path, target: Path, create_only: bool) -> None:
        with _failures():
            self._make_folder(target.parent)
            if create_only:
                try:
                    target.hardlink_to(draft)  # unlike a rename, this never replaces a file
                except FileExistsError:
                    raise BlobExists from None
            else:
                draft.replace(target)
            sync_folder(target.parent)

    def _make_folder(self, folder: Path) -> None:
        """Create the folder. On return, its name is on the disk."""
        if folder.is_dir():
            return
        if folder != self._folder:
            self._make_folder(folder.parent)
        try:
            folder.mkdir(mode=0o700, parents=folder == self._folder, exist_ok=True)
        except FileExistsError:  # a file of that name
            raise StoreUnavailable(reason="disk") from None
        sync_folder(folder.parent)

    def _sweep(self) -> None:
        with _failures():
            for draft in self._drafts.iterdir():
                with suppress(FileNotFoundError):
                    if time.time() - draft.stat().st_mtime > _DRAFT_AGE_S_MAX:
                        draft.unlink()


@contextmanager
def _missing() -> Iterator[None]:
    """As `_failures`, where the blob is read."""
    with _failures():
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise BlobMissing from None


@contextmanager
def _failures() -> Iterator[None]:
    """Raises the errors of the interface for the system's, which contain paths."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StorageFull(limit="disk_free_bytes_min") from None
        raise StoreUnavailable(reason="disk") from None


def _stat(path: Path) -> os.stat_result:
    with _missing():
        found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise BlobMissing
    return found


def _write(file: BinaryIO, data: bytes) -> None:
    with _failures():
        file.write(data)


def _sync(file: BinaryIO) -> None:
    with _failures():
        file.flush()
        os.fsync(file.fileno())


def _link_or_copy(source: Path, target: Path) -> None:
    """Raises FileExistsError if `target` exists."""
    with suppress(OSError):
        target.hardlink_to(source)
        return
    if target.exists():
        raise FileExistsError(errno.EEXIST, "the file exists")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        shutil.copyfile(source, partial)  # another file system, or one without links
        partial.chmod(0o600)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _walk(folder: Path, prefix: str, after: str) -> Iterator[tuple[str, int]]:
    """Keys and sizes below a folder, in order of the whole keys: `a-b` comes before `a/b`."""
    try:
        entries = [
            (f"{each.name}/" if each.is_dir(follow_symlinks=False) else each.name, each) for each in _scan(folder)
        ]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in sorted(entries, key=lambda row: row[0]):
        key = prefix + name
        if name.endswith("/"):
            if key > after or after.startswith(key):
                yield from _walk(Path(entry.path), key, after)
        elif key > after:
            with suppress(FileNotFoundError):  # deleted meanwhile
                yield key, entry.stat(follow_symlinks=False).st_size


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder that belong to keys."""
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


REMOTE_SCHEMES = ("s3", "gs", "az")


def open_store(url: str | Path, options: StoreOptions | None = None) -> BlobStore:
    """The store at a folder or `file://`, `s3://bucket/prefix`, `gs://`, `az://`; `memory://` is of this object alone.

    Opens no connection. Raises ValueError, without the address, for one that cannot be used.
    """
    if isinstance(url, Path):
        return LocalBlobs(url)
    address = urlsplit(url)
    if address.scheme == "file" and not address.netloc and address.path:
        return LocalBlobs(Path(unquote(address.path)))
    if url == "memory://" or (address.scheme in REMOTE_SCHEMES and address.netloc):
        from core.blobs.remote import RemoteBlobs

        return RemoteBlobs.of_url(url, options or StoreOptions())
    raise ValueError("the address of a blob store is a folder, file:///..., s3://..., gs://... or az://...")
