"""Chunks to a file, whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from core.blob_errors import BlobCorrupt
from core.files.disk import full_disk


async def write_chunks(chunks: AsyncIterator[bytes], path: Path, *, digest: str | None = None) -> None:
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
            if digest is not None and found.hexdigest() != digest:
                raise BlobCorrupt
            await asyncio.to_thread(path.hardlink_to, draft)
    finally:
        draft.unlink(missing_ok=True)
