"""Names of blobs. A name holds the time of its birth and the SHA-256 of its bytes: `<second>-<digest>`.

The time serves one purpose: what is young may belong to a write that is under way, and is no orphan.
"""

import asyncio
import hashlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from core.blobs.store import WHOLE_BYTES_MAX, BlobStore
from core.errors import BlobCorrupt, BlobExists
from core.files.disk import file_digest, full_disk

_NAME = re.compile(r"([0-9]{10})-([0-9a-f]{64})")


async def _write_chunks(chunks: AsyncIterator[bytes], path: Path, *, digest: str) -> None:
    """Write the chunks to a new file at `path`, which appears when it is whole. Only its owner may read it.

    `digest`: the SHA-256 that the bytes must have, in hex. Raises BlobCorrupt, StorageFull; FileExistsError.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    found = hashlib.sha256()
    try:
        with full_disk():
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                async for chunk in chunks:
                    found.update(chunk)
                    await asyncio.to_thread(file.write, chunk)
            if found.hexdigest() != digest:
                raise BlobCorrupt
            await asyncio.to_thread(path.hardlink_to, draft)
    finally:
        draft.unlink(missing_ok=True)


def birth_s(name: str) -> int | None:
    """When the blob of this name was born, in seconds since the epoch; None for other names."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


async def put_blob_file(store: BlobStore, prefix: str, path: Path) -> str:
    """Store a file that does not change, and return the name that it got.

    The name is that of these bytes, so replacing the blob changes nothing, and a large file is streamed in parts.
    """
    digest, size = await asyncio.to_thread(lambda: (file_digest(path), path.stat().st_size))
    name = f"{int(time.time()):010d}-{digest}"
    with suppress(BlobExists):  # the same bytes: an earlier request, whose answer was lost
        await store.put_file(f"{prefix}/{name}", path, create_only=size <= WHOLE_BYTES_MAX)
    return name


async def put_blob(store: BlobStore, prefix: str, data: bytes) -> str:
    """As `put_blob_file`, of bytes."""
    name = f"{int(time.time()):010d}-{hashlib.sha256(data).hexdigest()}"
    with suppress(BlobExists):
        await store.put(f"{prefix}/{name}", data, create_only=True)
    return name


async def get_blob(store: BlobStore, prefix: str, name: str) -> bytes:
    """The verified bytes. Raises BlobMissing, BlobCorrupt."""
    data = await store.get(f"{prefix}/{name}")
    if hashlib.sha256(data).hexdigest() != _digest(name):
        raise BlobCorrupt
    return data


async def fetch_blob(store: BlobStore, prefix: str, name: str, path: Path) -> None:
    """Write the blob to a new file, which appears once it is verified. Raises BlobMissing, BlobCorrupt."""
    await _write_chunks(store.read(f"{prefix}/{name}"), path, digest=_digest(name))


def _digest(name: str) -> str:
    found = _NAME.fullmatch(name)
    if not found:
        raise BlobCorrupt
    return found[2]
