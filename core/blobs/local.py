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

from core.blobs.store import CHUNK_BYTES, CREATE_BYTES_MAX, BlobStore, StoreOptions, check_key
from core.errors import BlobExists, BlobMissing, StorageFull, StoreUnavailable
from core.files.disk import NO_SPACE, sync_folder

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
