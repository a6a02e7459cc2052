"""Packs, tuned models and artifacts: in the blob store for every gateway, with local copies.

    files/tenants/<tenant>/<second>-<digest>    encrypted, in the blob store; files/shared/<second>-<digest> of all

The areas are `domains`, `infill`, `finetune`, `artifacts`, `batch-files` and `batches`.

Guarantee: a file is used only if its bytes have the digest that the name's entry in Redis has, whoever wrote the local
copy. A local copy that is missing or damaged is fetched, verified and decrypted, if `LocalCopies` has the space for it.
The copy of a file that was replaced stays while a request may use it. Blobs are encrypted under a key of the entry,
which the master key wraps.
"""

import asyncio
import base64
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.blobs.named import fetch_blob, put_blob_file
from core.blobs.options import opened_store
from core.blobs.store import BlobStore
from core.errors import BlobCorrupt, JobFilesLost, StoreUnavailable
from core.files.disk import FileVersion, file_digest, full_disk
from core.files.encrypted_file import EncryptedFileWriter, new_key, read_encrypted
from core.master_key import MasterKey, Purpose
from core.redis.client import LedgerClient
from core.redis.identity import check_store
from core.redis.names import SHARED_OWNER, check_tenant
from core.state.stored_files import NamedEntry, StoredEntry, StoredFileIndex, StoredPart
from service.config.settings import Settings
from service.files.copies import IN_USE_S, LocalCopies

FILES = "files"
_CHUNK_BYTES = 1024 * 1024


class StoredFiles:
    """The files of all owners, as one gateway sees them."""

    def __init__(self, copies: LocalCopies, store: BlobStore, index: StoredFileIndex, master_key: MasterKey) -> None:
        self.index = index
        self.copies = copies
        self.store = store
        self._master_key = master_key
        self._fetching: dict[Path, asyncio.Lock] = {}

    async def upload(
        self,
        owner: str,
        area: str,
        name: str,
        files: Mapping[str, Path],
        *,
        ends_ms: int | None = None,
        facts: bytes | None = None,
    ) -> NamedEntry:
        """Store files, by suffix, for a name. They belong to the name once the entry does. `facts`: kept encrypted.

        Raises StoreUnavailable, StorageFull.
        """
        key = new_key()
        parts = {
            suffix: await self._upload(owner, key, f"{area}/{suffix}", path) for suffix, path in sorted(files.items())
        }
        wrapped = self._master_key.wrap(Purpose.FILES, key, bound_to=_bound(owner, area, name)).hex()
        sealed = None
        if facts is not None:
            bound = _bound(owner, area, name, "facts")
            sealed = base64.b64encode(self._master_key.wrap(Purpose.FILES, facts, bound_to=bound)).decode()
        return NamedEntry(area, name, StoredEntry(parts, wrapped, ends_ms, sealed))

    async def put(self, owner: str, area: str, name: str, files: Mapping[str, Path], **terms: Any) -> StoredEntry:
        """Store files for a name, and replace those that it had. `terms`: as of `upload`, whose errors it raises, and
        those of `StoredFileIndex.put`."""
        named = await self.upload(owner, area, name, files, **terms)
        await self.discard(owner, await self.index.put(owner, named))
        return named.entry

    def facts(self, owner: str, area: str, name: str, entry: StoredEntry) -> bytes:
        """The facts of an entry. Raises BlobCorrupt if it has none, or if they are not authentic."""
        bound = _bound(owner, area, name, "facts")
        sealed = base64.b64decode(entry.facts or "")
        facts = self._master_key.unwrap(Purpose.FILES, sealed, bound_to=bound)
        if facts is None:
            raise BlobCorrupt
        return facts

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
        path = self.copies.path(owner, area, name, suffix, part.digest)
        if not await asyncio.to_thread(self.copies.use, path, part.digest):
            async with self._fetching.setdefault(path, asyncio.Lock()):
                try:
                    if not await asyncio.to_thread(self.copies.use, path, part.digest):
                        bound = _bound(owner, area, name)
                        key = self._master_key.unwrap(Purpose.FILES, bytes.fromhex(entry.key), bound_to=bound)
                        if key is None:
                            raise BlobCorrupt
                        with self.copies.coming(owner, part.size) as token:
                            await asyncio.to_thread(self.copies.ensure_space, token)
                            await self._fetch(owner, key, f"{area}/{suffix}", part, path)
                finally:
                    self._fetching.pop(path, None)
        return FileVersion(str(path), part.digest)

    async def remove(self, owner: str, area: str, name: str) -> bool:
        """Remove a name with its files. Returns whether there was one."""
        entry = await self.index.remove(owner, area, name)
        if entry is None:
            return False
        await self.discard(owner, entry)
        await asyncio.to_thread(self.copies.remove, owner, area, name)
        return True

    async def discard(self, owner: str, entry: StoredEntry | None) -> None:
        """Delete the blobs of an entry that belongs to no name any more. What cannot be deleted becomes an orphan."""
        if entry is not None:
            prefix = owner_prefix(FILES, owner)
            with suppress(StoreUnavailable):
                await self.store.delete([f"{prefix}/{part.blob}" for part in entry.parts.values()])

    async def _upload(self, owner: str, key: bytes, label: str, path: Path) -> StoredPart:
        def encrypted() -> tuple[str, int]:
            self.copies.check_disk(path.stat().st_size)
            with full_disk():
                writer = EncryptedFileWriter(draft, key, label)
                try:
                    with path.open("rb") as file:
                        while data := file.read(_CHUNK_BYTES):
                            writer.write(data)
                    writer.close()
                finally:
                    writer.abandon()
            return file_digest(path), draft.stat().st_size

        draft = self.copies.draft()
        try:
            digest, size = await asyncio.to_thread(encrypted)
            return StoredPart(await put_blob_file(self.store, owner_prefix(FILES, owner), draft), digest, size)
        finally:
            await asyncio.to_thread(draft.unlink, missing_ok=True)

    async def _fetch(self, owner: str, key: bytes, label: str, part: StoredPart, path: Path) -> None:
        def decrypt() -> None:
            with full_disk():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with partial.open("xb") as file:
                    partial.chmod(0o600)
                    for chunk in read_encrypted(draft, key, label):
                        file.write(chunk)
            if file_digest(partial) != part.digest:
                raise BlobCorrupt
            self.copies.place(partial, path)

        draft = self.copies.draft()
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        try:
            await fetch_blob(self.store, owner_prefix(FILES, owner), part.blob, draft)
            await asyncio.to_thread(decrypt)
        except JobFilesLost:
            raise BlobCorrupt from None
        finally:
            await asyncio.to_thread(_unlink, (draft, partial))


def owner_prefix(area: str, owner: str) -> str:
    """The folder of an owner's blobs. A tenant's name has no characters that a key has not."""
    if owner == SHARED_OWNER:
        return f"{area}/shared"
    return f"{area}/tenants/{check_tenant(owner)}"


def _bound(*place: str) -> str:
    return "/".join(place)


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class OwnDirectory:
    """The folder for the files of this process alone, where others use the data directory, too."""

    path: Path


def stored_files(
    settings: Settings, client: LedgerClient, master_key: MasterKey, *, own_dir: Path | None = None
) -> StoredFiles:
    """`own_dir`: where local copies are, instead of the data directory. Opens no connection."""
    copies = LocalCopies(
        own_dir or settings.data_dir,
        bytes_max=settings.store_cache_bytes_max,
        free_bytes_min=settings.disk_free_bytes_min,
        in_use_s=max(IN_USE_S, 3 * settings.request_timeout_s),  # the wait for a worker, and two batches
    )
    index = StoredFileIndex(client, bytes_max=settings.tenant_disk_bytes_max)
    return StoredFiles(copies, opened_store(settings, settings.data_dir), index, master_key)


async def open_files(client: LedgerClient, files: StoredFiles, *, alone: bool) -> None:
    """Check the store, and refuse one that is not the ledger's.

    `alone`: this is the one gateway that can use the ledger, so its store becomes the ledger's.
    Raises StoreUnavailable, LedgerUnavailable.
    """
    await files.store.check()
    await check_store(client, files.store, alone=alone)
