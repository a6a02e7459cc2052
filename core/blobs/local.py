"""A blob store in a local folder, the default, and the choice of a store by its address.

Guarantee: as `core.blobs.store` states. A blob is written to a draft, synced, and linked or renamed to its name; then
its folder is synced. Files are readable by their owner only.

A local folder needs no library. `open_store` imports the library of object stores only if the address names one.
"""

import asyncio
import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from core.blobs.store import CHUNK_BYTES, WHOLE_BYTES_MAX, BlobStore, StoreOptions, check_key
from core.errors import BlobExists, BlobMissing, StorageFull, StoreUnavailable
from core.files.disk import NO_SPACE, sync_folder

_DRAFTS = ".drafts"
_DRAFT_AGE_S_MAX = 86_400
_LIST_BATCH = 500
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalBlobs(BlobStore):
    """Blobs below `folder`, which is created on first use. Several processes may use one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._drafts = folder / _DRAFTS

    async def put(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        target = self._path(key)

        def put() -> None:
            draft = self._draft_path()
            try:
                with _failures(), os.fdopen(os.open(draft, _NEW, 0o600), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                self._publish(draft, target, create_only)
            finally:
                draft.unlink(missing_ok=True)

        await asyncio.to_thread(put)

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        target = self._path(key)

        def put() -> None:
            if create_only and path.stat().st_size > WHOLE_BYTES_MAX:
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

    async def read(self, key: str) -> AsyncIterator[bytes]:
        def opened() -> BinaryIO:
            with _missing():
                return path.open("rb")

        def chunk() -> bytes:
            with _failures():
                return file.read(CHUNK_BYTES)

        path = self._path(key)
        file = await asyncio.to_thread(opened)
        with file:
            while data := await asyncio.to_thread(chunk):
                yield data

    async def stored_at(self, key: str) -> float:
        def changed() -> float:
            with _missing():
                found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise BlobMissing
            return found.st_ctime  # of the name, not of the bytes: a file may be older than its link in the store

        path = self._path(key)
        return await asyncio.to_thread(changed)

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

    def _draft_path(self) -> Path:
        with _failures():
            self._make_folder(self._drafts)
        return self._drafts / secrets.token_hex(16)

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
    """The store at a folder or `file://`, `s3://bucket/prefix`, `gs://` or `az://`.

    Opens no connection. Raises ValueError, without the address, for one that cannot be used.
    """
    if isinstance(url, Path):
        return LocalBlobs(url)
    address = urlsplit(url)
    if address.scheme == "file" and not address.netloc and address.path:
        return LocalBlobs(Path(unquote(address.path)))
    if address.scheme in REMOTE_SCHEMES and address.netloc:
        from core.blobs.remote import RemoteBlobs

        return RemoteBlobs.of_url(url, options or StoreOptions())
    raise ValueError("the address of a blob store is a folder, file:///..., s3://..., gs://... or az://...")
