"""The contract of blob stores, on every implementation: a local folder, and S3 by a real server."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_kit import S3Server, s3_server

from core.blobs.local import open_store
from core.blobs.store import CHUNK_BYTES, BlobStore, StoreOptions, check_key
from core.errors import BlobExists, BlobMissing, StoreUnavailable

LARGE = bytes(range(256)) * (80 * 1024)  # 20 MiB: several parts and chunks


@pytest.fixture(scope="module")
def s3(processes: None) -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.system)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "local":
        return open_store(tmp_path / "store")
    server = request.getfixturevalue("s3")
    return open_store(server.bucket(), server.options())


async def listed(store: BlobStore, prefix: str, after: str | None = None) -> list[tuple[str, int]]:
    return [row async for row in store.list(prefix, after=after)]


async def test_what_is_put_is_got_listed_and_deleted(store: BlobStore) -> None:
    await store.put("a/b.bin", b"one")
    await store.put("a/b.bin", b"two2")
    assert await store.get("a/b.bin") == b"two2"
    assert await listed(store, "a") == [("a/b.bin", 4)]
    await store.delete(["a/b.bin", "a/none"])
    await store.delete(["a/b.bin"])
    await store.delete([])
    assert await listed(store, "a") == []


async def test_times_are_of_the_clock_of_the_store(store: BlobStore) -> None:
    """S3 gives whole seconds."""
    before = await store.now()
    await store.put("a/b", b"x")
    assert before - 1 <= await store.stored_at("a/b") <= await store.now() + 1
    with pytest.raises(BlobMissing):
        await store.stored_at("a/none")
    assert await listed(store, "probes") == []


async def test_a_missing_blob_is_its_own_error(store: BlobStore) -> None:
    await store.put("a/b/c", b"x")
    for key in ("none", "a/none", "a/b", "a/b/c/d"):
        with pytest.raises(BlobMissing):
            await store.get(key)
    assert await listed(store, "none") == []


async def test_of_several_writers_that_create_a_blob_one_succeeds(store: BlobStore) -> None:
    bodies = [bytes([number]) * 1000 for number in range(8)]
    ends = await asyncio.gather(*(store.put("one", body, create_only=True) for body in bodies), return_exceptions=True)
    won = [number for number, end in enumerate(ends) if end is None]
    assert len(won) == 1
    assert all(end is None or isinstance(end, BlobExists) for end in ends)
    assert await store.get("one") == bodies[won[0]]


async def test_creating_replaces_nothing_in_any_form(store: BlobStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"other")
    await store.put("k", b"first", create_only=True)
    with pytest.raises(BlobExists):
        await store.put("k", b"second", create_only=True)
    with pytest.raises(BlobExists):
        await store.put_file("k", file, create_only=True)
    assert await store.get("k") == b"first"


async def test_large_blobs_are_streamed_in_bounded_chunks(store: BlobStore, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(LARGE)
    await store.put_file("from/file", file)
    got = [chunk async for chunk in store.read("from/file")]
    assert max(map(len, got)) <= CHUNK_BYTES
    assert hashlib.sha256(b"".join(got)).digest() == hashlib.sha256(LARGE).digest()


async def test_an_empty_blob(store: BlobStore) -> None:
    await store.put("empty", b"")
    assert await store.get("empty") == b""


async def test_keys_are_listed_in_order_by_whole_segments(store: BlobStore) -> None:
    keys = ["p/a-b", "p/a/b", "p/a/c/d", "p/a0", "p/b", "pq/a"]
    for key in reversed(keys):
        await store.put(key, key.encode())
    assert [key for key, _ in await listed(store, "p")] == keys[:-1]
    assert [key for key, _ in await listed(store, "")] == keys
    assert [key for key, _ in await listed(store, "p/a")] == ["p/a/b", "p/a/c/d"]
    assert [key for key, _ in await listed(store, "p", after="p/a/b")] == keys[2:-1]
    assert [key for key, _ in await listed(store, "p", after="p/b")] == []


async def test_many_keys_are_listed_and_deleted(store: BlobStore) -> None:
    keys = [f"many/{number:04d}" for number in range(1100)]
    for first in range(0, len(keys), 50):
        await asyncio.gather(*(store.put(key, b"x") for key in keys[first : first + 50]))
    assert [key for key, _ in await listed(store, "many")] == keys
    await store.delete(keys)
    assert await listed(store, "many") == []


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a/.drafts", "a b", "ä", "a" * 513]
)
async def test_malformed_keys_are_refused(store: BlobStore, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        check_key(key)
    with pytest.raises(ValueError, match="key"):
        await store.put(key, b"x")
    with pytest.raises(ValueError, match="key"):
        await store.get(key)


async def test_the_probe_leaves_nothing(store: BlobStore) -> None:
    await store.check()
    assert await listed(store, "") == []


async def test_an_unreachable_store_is_an_error_without_its_address(s3: S3Server) -> None:
    options = StoreOptions(config=s3.config | {"endpoint": "http://127.0.0.1:9"}, plain_http=True, retries_max=0)
    store = open_store("s3://bucket/gateway", options)
    with pytest.raises(StoreUnavailable) as failed:
        await store.put("secret-key", b"x")
    with pytest.raises(StoreUnavailable):
        await store.check()
    with pytest.raises(StoreUnavailable):
        await listed(store, "a")
    assert "127.0.0.1" not in repr(failed.value)
    assert "secret-key" not in repr(failed.value)
    assert failed.value.__cause__ is None
    assert "testing" not in repr(options)


async def test_a_missing_bucket_is_an_error(s3: S3Server) -> None:
    store = open_store("s3://no-such-bucket/gateway", s3.options())
    with pytest.raises((StoreUnavailable, BlobMissing)):
        await store.check()


@pytest.mark.parametrize("url", ["", "/folder", "ftp://host/x", "s3://", "file://host/x", "https://bucket/x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        open_store(url)


@pytest.mark.parametrize("options", [{"no_such_option": "hush-hush"}])
def test_unknown_options_are_refused_without_showing_them(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="options") as refused:
        open_store("s3://bucket/x", StoreOptions(config=options))
    assert "hush" not in repr(refused.value)
