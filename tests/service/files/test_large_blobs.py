"""A large file goes to an object store in parts, which are read from the file, and comes back verified."""

from __future__ import annotations

import asyncio
from pathlib import Path

import obstore
import pytest
from s3_kit import s3_server

from core.blobs.opening import open_store
from core.blobs.remote import RemoteBlobs
from core.blobs.store import WHOLE_BYTES_MAX
from service.files.blobs import fetch_blob, put_blob_file


@pytest.mark.usefixtures("processes")
def test_a_large_file_is_stored_in_parts_and_a_small_one_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        with s3_server() as server:
            store = open_store(server.bucket(), server.options())
            assert isinstance(store, RemoteBlobs)
            for size, in_parts in ((WHOLE_BYTES_MAX, False), (2 * WHOLE_BYTES_MAX + 3, True)):
                file = tmp_path / f"{size}"
                file.write_bytes(bytes(range(251)) * (size // 251) + b"x" * (size % 251))
                name = ""
                for _ in range(2):  # the second one replaces the same bytes, or finds them
                    name = await put_blob_file(store, "files/shared", file)
                found = await obstore.head_async(store._objects, f"files/shared/{name}")
                assert ("-" in (found["e_tag"] or "")) == in_parts  # as S3 marks what was uploaded in parts
                await fetch_blob(store, "files/shared", name, tmp_path / f"{size}-fetched")
                assert (tmp_path / f"{size}-fetched").read_bytes() == file.read_bytes()

    asyncio.run(main())
