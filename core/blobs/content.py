"""Blobs whose key is the SHA-256 of their bytes.

Guarantee: what is read is what was stored under the digest, or BlobCorrupt is raised before any of it is used. Storing
the same bytes again changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path

from core.blob_errors import BlobCorrupt, BlobExists, BlobMissing
from core.blobs.files import write_chunks
from core.blobs.store import WHOLE_BYTES_MAX, BlobStore
from core.files.file_version import file_digest

_DIGEST = re.compile(r"[0-9a-f]{64}")


def content_key(prefix: str, digest: str) -> str:
    """The key of the blob with this digest in the folder `prefix`. Raises ValueError for what is no digest."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError("not a SHA-256 digest in hex")
    return f"{prefix}/{digest[:2]}/{digest}"


async def put_content(store: BlobStore, prefix: str, data: bytes) -> str:
    """Store the bytes and return their digest."""
    digest = hashlib.sha256(data).hexdigest()
    try:
        await store.put(content_key(prefix, digest), data, create_only=True)
    except BlobExists:
        if await store.get(content_key(prefix, digest)) != data:
            raise BlobCorrupt from None
    return digest


async def put_content_file(store: BlobStore, prefix: str, path: Path) -> str:
    """As `put_content`, from a file that does not change meanwhile."""
    digest, size = await asyncio.to_thread(lambda: (file_digest(path), path.stat().st_size))
    key = content_key(prefix, digest)
    try:
        if await store.head(key) == size:
            return digest
    except BlobMissing:
        pass
    if size <= WHOLE_BYTES_MAX:
        try:
            await store.put_file(key, path, create_only=True)
        except BlobExists:
            if await store.head(key) != size:
                raise BlobCorrupt from None
    else:
        await store.put_file(key, path)  # the same bytes under the same name, whoever stores them
    return digest


async def get_content(store: BlobStore, prefix: str, digest: str) -> bytes:
    """The bytes. Raises BlobMissing, BlobCorrupt."""
    data = await store.get(content_key(prefix, digest))
    if hashlib.sha256(data).hexdigest() != digest:
        raise BlobCorrupt
    return data


async def fetch_content(store: BlobStore, prefix: str, digest: str, path: Path) -> None:
    """Write the bytes to a new file, which appears once they are verified. Raises BlobMissing, BlobCorrupt."""
    await write_chunks(store.read(content_key(prefix, digest)), path, digest=digest)
