"""Files of batches: uploads, and what batches have made. Their bytes are in the blob store.

Guarantee: a file's bytes are on no disk in the clear. They are encrypted under a key of the file as they arrive, and
that ciphertext is what `StoredFiles` stores and copies. The key and the name of the file are in its entry, encrypted
under the master key. The files count towards `TENANT_DISK_BYTES_MAX`, expire, and end with their tenant.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from fastapi import Request
from starlette.requests import ClientDisconnect

from core.errors import BlobCorrupt, ClientGone, InvalidInput, TenantLimitReached, UnknownName
from core.files.encrypted_file import read_encrypted
from core.master_key import MasterKey
from core.state.stored_files import BATCH_FILES, StoredEntry
from gpu_workers.jobs.protocol import INPUT
from service.batches.upload import UploadForm
from service.config.settings import Settings
from service.files.stored import StoredFiles
from service.http.middleware import FILE_BYTES_MAX
from service.http.strict import whole_number
from service.jobs.files import Incoming
from service.jobs.kind import Made
from service.jobs.storage import DiskAllowance, Storage

UPLOADED, MADE = "batch", "batch_output"  # purposes
SUFFIX = ".jsonl"
_EXPIRES_S_MIN = 3600


@dataclass(frozen=True)
class BatchFile:
    """A stored file. `size`: of its plain bytes. `label`: of its encryption under `key`."""

    file_id: str
    filename: str
    purpose: str
    size: int
    created_s: int
    label: str
    key: bytes = field(repr=False)
    entry: StoredEntry | None = field(default=None, repr=False)

    def packed(self) -> bytes:
        """The facts of the entry."""
        facts = {"filename": self.filename, "purpose": self.purpose, "size": self.size, "created_s": self.created_s}
        return orjson.dumps(facts | {"label": self.label, "key": self.key.hex()})

    @classmethod
    def of_facts(cls, file_id: str, facts: Mapping[str, Any], entry: StoredEntry) -> "BatchFile":
        return cls(file_id, entry=entry, **{**facts, "key": bytes.fromhex(facts["key"])})


def made_id(job_id: str, label: str) -> str:
    """The id of a file that a batch makes."""
    return f"file-{hashlib.sha256(f'{job_id}/{label}'.encode()).hexdigest()[:32]}"


def made(job_id: str, label: str, path: Path, key: bytes, size: int) -> Made:
    """A file that a batch has made, encrypted under `key` with this label."""
    file_id = made_id(job_id, label)
    file = BatchFile(file_id, f"batch_{job_id}_{label}{SUFFIX}", MADE, size, int(time.time()), label, key)
    return Made(BATCH_FILES, file_id, {SUFFIX: path}, facts=file.packed())


class BatchFiles:
    """The files of batches of all tenants, as one gateway sees them. Every method may raise LedgerUnavailable."""

    def __init__(
        self, settings: Settings, *, stored: StoredFiles, storage: Storage, master_key: MasterKey, folder: Path
    ) -> None:
        """`folder`: where uploads arrive; that of jobs, which is cleared at a start."""
        self._settings = settings
        self._stored = stored
        self._storage = storage
        self._master_key = master_key
        self._folder = folder

    async def receive(self, tenant: str, request: Request) -> BatchFile:
        """Store an upload.

        Raises InvalidInput, TenantLimitReached, StorageFull, StoreUnavailable, ClientGone; HTTPException 400 and 415.
        """
        form = UploadForm(request.headers.get("content-type", ""))
        stored = await self._storage.stored(tenant)  # without the files that have expired
        files_max = self._settings.batch_files_per_tenant_max
        if len(await self._stored.index.names(tenant, BATCH_FILES)) >= files_max:
            raise TenantLimitReached(limit="batch_files_per_tenant_max")
        file_id = f"file-{secrets.token_hex(16)}"
        incoming = await asyncio.to_thread(self._incoming, tenant, file_id, stored)
        try:
            try:
                async for chunk in request.stream():
                    if data := form.feed(chunk):
                        await asyncio.to_thread(incoming.write, data)
            except ClientDisconnect:
                raise ClientGone from None
            form.end()
            lives_s = self._lifetime_s(form.fields)
            if not 0 < incoming.received <= FILE_BYTES_MAX:
                raise InvalidInput(f"A file has 1 to {FILE_BYTES_MAX} bytes.", field="file")
            await asyncio.to_thread(incoming.finish, {})
            now_s = int(time.time())
            file = BatchFile(
                file_id, form.filename or f"{file_id}{SUFFIX}", UPLOADED, incoming.received, now_s, INPUT, incoming.key
            )
            ends_ms = int((now_s + lives_s) * 1000)
            terms: dict[str, Any] = {"ends_ms": ends_ms, "facts": file.packed()}
            await self._stored.put(tenant, BATCH_FILES, file_id, {SUFFIX: incoming.path}, **terms)
        finally:
            await asyncio.to_thread(incoming.discard)
        return await self.get(tenant, file_id)

    def _incoming(self, tenant: str, file_id: str, stored: int) -> Incoming:
        allowance = DiskAllowance(self._storage, tenant, stored=stored)
        return Incoming(self._folder, file_id, self._master_key, allowance, owner=tenant)

    def _lifetime_s(self, fields: Mapping[str, str]) -> float:
        """How long an upload lives, from the fields of its form."""
        if fields.get("purpose") != UPLOADED:
            raise InvalidInput(f"purpose must be {UPLOADED}", field="purpose")
        known = {"purpose", "expires_after[anchor]", "expires_after[seconds]"}
        if not fields.keys() <= known:
            raise InvalidInput(f"a form has the fields file, {', '.join(sorted(known))}", field="body")
        most = self._settings.job_retention_s
        if fields.keys() == {"purpose"}:
            return most
        seconds = whole_number(fields.get("expires_after[seconds]"))
        if fields.get("expires_after[anchor]") != "created_at" or seconds is None or seconds < _EXPIRES_S_MIN:
            said = f"expires_after has the anchor created_at and at least {_EXPIRES_S_MIN} seconds"
            raise InvalidInput(said, field="expires_after")
        return min(seconds, most)

    async def get(self, tenant: str, file_id: str) -> BatchFile:
        """Raises UnknownName."""
        entry = await self._stored.index.get(tenant, BATCH_FILES, file_id)
        if entry is None:
            raise UnknownName(code="unknown-file")
        return self._file(tenant, file_id, entry)

    async def list(self, tenant: str) -> list[BatchFile]:
        """All files, newest first."""
        entries = await self._stored.index.of_owner(tenant, BATCH_FILES)
        files = [self._file(tenant, file_id, entry) for file_id, entry in entries.items()]
        return sorted(files, key=lambda file: (file.created_s, file.file_id), reverse=True)

    async def content(self, tenant: str, file: BatchFile) -> Iterator[bytes]:
        """The plain bytes of a file, in chunks, which another thread may take. Iterating raises JobFilesLost.

        Raises BlobMissing, BlobCorrupt, StoreUnavailable, StorageFull."""
        found = await self._stored.local(tenant, BATCH_FILES, file.file_id, file.entry, SUFFIX)
        if found is None:
            raise BlobCorrupt
        return read_encrypted(Path(found.path), file.key, file.label)

    async def delete(self, tenant: str, file_id: str) -> None:
        """Raises UnknownName."""
        if not await self._stored.remove(tenant, BATCH_FILES, file_id):
            raise UnknownName(code="unknown-file")

    def _file(self, tenant: str, file_id: str, entry: StoredEntry) -> BatchFile:
        facts = orjson.loads(self._stored.facts(tenant, BATCH_FILES, file_id, entry))
        return BatchFile.of_facts(file_id, facts, entry)
