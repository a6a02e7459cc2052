"""Packs, tuned models and artifacts: in the blob store for every gateway, with local copies.

    <data_dir>/cache/<area>/tenants/<tenant>/<name><suffix>    local copies
    files/tenants/<tenant>/<second>-<digest>                   encrypted, in the blob store

The areas are `domains`, `infill` and `artifacts`.

Guarantee: a file is used only if its bytes have the digest that the name's entry in Redis has, whoever wrote the local
copy. A local copy that is missing or another one is fetched, verified and decrypted. Blobs are encrypted under a key of
the entry, which the master key wraps. Local copies together take at most `cache_bytes_max`, but for those that were
used in the last ten minutes.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from core.blob_errors import BlobCorrupt, StoreUnavailable
from core.blobs.store import BlobStore
from core.files.encrypted_file import EncryptedFileWriter, new_key, read_encrypted
from core.files.file_version import FileDigests, FileVersion, file_digest
from core.job_errors import JobFilesLost
from core.ledger.keys import MasterKey
from core.ledger.stored_files import NamedEntry, StoredEntry, StoredFileIndex, StoredPart
from service.config.data_dir import owner_folder
from service.files.blobs import fetch_blob, owner_prefix, put_blob_file

FILES = "files"
CACHE = "cache"
_CHUNK_BYTES = 1024 * 1024
_IN_USE_S = 600.0


class StoredFiles:
    """The files of all owners, as one gateway sees them."""

    def __init__(
        self, data_dir: Path, store: BlobStore, index: StoredFileIndex, master_key: MasterKey, *, cache_bytes_max: int
    ) -> None:
        self.index = index
        self._cache = data_dir / CACHE
        self.store = store
        self._master_key = master_key
        self._cache_bytes_max = cache_bytes_max
        self._digests = FileDigests()
        self._fetching: dict[Path, asyncio.Lock] = {}

    def path(self, owner: str, area: str, name: str, suffix: str) -> Path:
        """Where the local copy is, if there is one."""
        return owner_folder(self._cache / area, owner) / f"{name}{suffix}"

    async def upload(
        self, owner: str, area: str, name: str, files: Mapping[str, Path], *, ends_ms: int | None = None
    ) -> NamedEntry:
        """Store files, by suffix, for a name. They belong to the name once the entry does.

        Raises StoreUnavailable, StorageFull, OSError.
        """
        key = new_key()
        parts = {
            suffix: await self._upload(owner, key, f"{area}/{suffix}", path) for suffix, path in sorted(files.items())
        }
        wrapped = self._master_key.wrap_files_key(key, bound_to=_bound(owner, area, name)).hex()
        return NamedEntry(area, name, StoredEntry(parts, wrapped, ends_ms))

    async def put(self, owner: str, area: str, name: str, files: Mapping[str, Path]) -> None:
        """Store files for a name, and replace those that it had. Raises as `upload`."""
        named = await self.upload(owner, area, name, files)
        _, replaced = await self.index.put(owner, named)
        await self.discard(owner, replaced)

    async def take_over(
        self, owner: str, area: str, name: str, files: Mapping[str, Path], *, ends_ms: int | None = None
    ) -> bool:
        """Store files for a name, unless it has an entry. No quota applies. Returns whether they were stored."""
        if await self.index.get(owner, area, name) is not None:
            return False
        named = await self.upload(owner, area, name, files, ends_ms=ends_ms)
        stored, _ = await self.index.put(owner, named, create_only=True, limited=False)
        if not stored:
            await self.discard(owner, named.entry)
        return stored

    async def find(self, owner: str, area: str, name: str, suffix: str = ".safetensors") -> FileVersion | None:
        """The verified local copy of a file; None if the name has no such file.

        Raises BlobMissing, BlobCorrupt, StoreUnavailable, StorageFull.
        """
        return await self.local(owner, area, name, await self.index.get(owner, area, name), suffix)

    async def local(
        self, owner: str, area: str, name: str, entry: StoredEntry | None, suffix: str = ".safetensors"
    ) -> FileVersion | None:
        """As `find`, of an entry that was read before."""
        part = None if entry is None else entry.parts.get(suffix)
        if entry is None or part is None:
            return None
        path = self.path(owner, area, name, suffix)
        if not await asyncio.to_thread(self._is_current, path, part):
            async with self._fetching.setdefault(path, asyncio.Lock()):
                try:
                    if not await asyncio.to_thread(self._is_current, path, part):
                        key = self._master_key.unwrap_files_key(
                            bytes.fromhex(entry.key), bound_to=_bound(owner, area, name)
                        )
                        await self._fetch(owner, key, f"{area}/{suffix}", part, path)
                        await asyncio.to_thread(self.evict)
                finally:
                    self._fetching.pop(path, None)
        return FileVersion(str(path), part.digest)

    def sweep_drafts(self) -> None:
        """Remove what a crash left unfinished. No other process may use the data directory. Call this in a thread."""
        for draft in self._cache.rglob("*.partial"):
            draft.unlink(missing_ok=True)

    async def remove(self, owner: str, area: str, name: str) -> bool:
        """Remove a name with its files. Returns whether there was one."""
        entry = await self.index.remove(owner, area, name)
        if entry is None:
            return False
        await self.discard(owner, entry)
        for suffix in entry.parts:
            with suppress(OSError):
                await asyncio.to_thread(self.path(owner, area, name, suffix).unlink, missing_ok=True)
        return True

    async def discard(self, owner: str, entry: StoredEntry | None) -> None:
        """Delete the blobs of an entry that belongs to no name any more. What cannot be deleted becomes an orphan."""
        if entry is not None:
            prefix = owner_prefix(FILES, owner)
            with suppress(StoreUnavailable):
                await self.store.delete([f"{prefix}/{part.blob}" for part in entry.parts.values()])

    def evict(self) -> None:
        """Delete the local copies that were used longest ago, until the rest fits. Call this in a thread."""
        copies = []
        for path in self._cache.rglob("*"):
            with suppress(FileNotFoundError):
                stat = path.stat()
                if path.is_file():
                    copies.append((stat.st_atime, stat.st_size, path))
        total = sum(size for _, size, _ in copies)
        for used_at, size, path in sorted(copies):
            if total <= self._cache_bytes_max or time.time() - used_at < _IN_USE_S:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _is_current(self, path: Path, part: StoredPart) -> bool:
        """Whether the local copy is the entry's file. Each version of it is read once."""
        if self._digests.get(path) != part.digest:
            return False
        with suppress(OSError):  # the time of use, which `evict` reads; the time of change stays
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        return True

    async def _upload(self, owner: str, key: bytes, label: str, path: Path) -> StoredPart:
        def encrypted() -> tuple[str, int]:
            writer = EncryptedFileWriter(draft, key, label)
            with path.open("rb") as file:
                while data := file.read(_CHUNK_BYTES):
                    writer.write(data)
            writer.close()
            return file_digest(path), draft.stat().st_size

        draft = self._draft()
        try:
            digest, size = await asyncio.to_thread(encrypted)
            return StoredPart(await put_blob_file(self.store, owner_prefix(FILES, owner), draft), digest, size)
        finally:
            await asyncio.to_thread(draft.unlink, missing_ok=True)

    async def _fetch(self, owner: str, key: bytes, label: str, part: StoredPart, path: Path) -> None:
        def decrypt() -> None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with partial.open("xb") as file:
                partial.chmod(0o600)
                for chunk in read_encrypted(draft, key, label):
                    file.write(chunk)
            if file_digest(partial) != part.digest:
                raise BlobCorrupt
            partial.replace(path)

        draft = self._draft()
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        try:
            await fetch_blob(self.store, owner_prefix(FILES, owner), part.blob, draft)
            await asyncio.to_thread(decrypt)
        except JobFilesLost:
            raise BlobCorrupt from None
        finally:
            await asyncio.to_thread(_unlink, (draft, partial))

    def _draft(self) -> Path:
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._cache / f".{secrets.token_hex(16)}.partial"


def _bound(owner: str, area: str, name: str) -> str:
    return f"{owner}/{area}/{name}"


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
