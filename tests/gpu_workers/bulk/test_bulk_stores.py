"""Finding objects of a store, and what a job is answered if a store cannot be used."""

import asyncio
import io
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3_kit import S3Server, s3_server

from core.blobs.store import StoreOptions
from core.errors import JobFailed
from gpu_workers.bulk import stores
from gpu_workers.bulk.sources import BulkRow, BulkSource, Columns
from gpu_workers.bulk.stores import StoreAccess, StoredBytes, find_objects
from gpu_workers.bulk.targets import StoreTarget


@contextmanager
def refused(reason: str) -> Iterator[None]:
    with pytest.raises(JobFailed) as caught:
        yield
    assert caught.value.reason == reason


def keys(access: StoreAccess, prefix: str = "") -> list[str]:
    return [each.key for each in find_objects(access, prefix=prefix)]


def written(folder: Path, *names: str) -> StoreAccess:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return StoreAccess("files", folder.as_uri())


def test_a_folder_is_listed_in_the_order_of_its_keys(tmp_path: Path) -> None:
    names = ["b/day=2/é 1.jsonl", "b/day=1/x.jsonl", "b0", "a.jsonl", "b/_SUCCESS", "b/.crc", "b/_old/x.jsonl"]
    access = written(tmp_path, *names)
    (tmp_path / "b/empty").touch()
    assert keys(access) == ["a.jsonl", "b/day=1/x.jsonl", "b/day=2/é 1.jsonl", "b0"]
    assert keys(access, "b") == ["b/day=1/x.jsonl", "b/day=2/é 1.jsonl"]
    assert keys(access, "b/_old") == ["b/_old/x.jsonl"]
    assert [each.key for each in find_objects(access, keys=["b0", "a.jsonl"])] == ["b0", "a.jsonl"]
    for wanted in ({"keys": ["a.jsonl", "none"]}, {"keys": ["b"]}, {"prefix": "none"}, {"prefix": "a.jsonl"}):
        with refused("source-missing"):
            find_objects(access, **wanted)


def test_links_lead_to_nothing_outside_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    access = written(tmp_path / "store", "a.jsonl")
    written(outside, "secret.jsonl")
    folder = tmp_path / "store"
    (folder / "inside.jsonl").symlink_to(folder / "a.jsonl")
    (folder / "all").symlink_to(outside)
    assert keys(access) == ["a.jsonl", "inside.jsonl"]
    for wanted in ({"keys": ["all/secret.jsonl"]}, {"prefix": "all"}):
        with refused("outside-the-store"):
            find_objects(access, **wanted)
    with refused("outside-the-store"):
        StoreTarget(access, "all", "jsonl", owner="one").write(0, b"x")
    (found,) = find_objects(access, keys=["a.jsonl"])
    (folder / "a.jsonl").unlink()
    (folder / "a.jsonl").symlink_to(outside / "secret.jsonl")
    with refused("outside-the-store"):
        StoredBytes(access, access.open(), found).read(0, 1)
    (folder / "one.jsonl").symlink_to(outside / "secret.jsonl")
    with refused("outside-the-store"):
        find_objects(access, prefix="")


def test_a_source_has_a_limited_number_of_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "OBJECTS_MAX", 2)
    access = written(tmp_path, "a", "b", "c")
    assert len(find_objects(access, keys=["a", "b"])) == 2
    for wanted in ({"keys": ["a", "b", "c"]}, {"prefix": ""}):
        with refused("too-many-objects"):
            find_objects(access, **wanted)


def test_a_store_that_does_not_answer_or_refuses_has_its_own_reason(tmp_path: Path) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("content-length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        for port, reason in [(server.server_port, "store-refused"), (9, "store-unavailable")]:
            config = {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "k", "secret_access_key": "private"}
            options = StoreOptions(config={**config, "region": "eu"}, plain_http=True, timeout_s=20, retries_max=0)
            access = StoreAccess("files", "s3://bucket/x", options)
            assert "private" not in repr(access)
            for wanted in ({"keys": ["a"]}, {"prefix": "a"}):
                with refused(reason):
                    find_objects(access, **wanted)
            with refused(reason):
                StoreTarget(access, "out", "jsonl", owner="one").write(0, b"x")
    finally:
        server.shutdown()
        server.server_close()
    with refused("store-unavailable"):
        find_objects(StoreAccess("files", (tmp_path / "none").as_uri()), keys=["a"])


@pytest.fixture(scope="module")
def s3(processes: None) -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def test_objects_of_s3_are_read_in_one_version(s3: S3Server) -> None:
    access = StoreAccess("files", s3.bucket(), s3.options())
    store = access.blobs()

    async def put(text: str) -> None:
        for key in ("in/b.jsonl", "in/a.jsonl", "in/_SUCCESS", "in/empty"):
            await store.put(key, b"" if key == "in/empty" else text.encode())

    asyncio.run(put('{"text": "one"}\n' * 20_000))
    objects = find_objects(access, prefix="in")
    assert [each.key for each in objects] == ["in/a.jsonl", "in/b.jsonl"]
    source = BulkSource.of_store(access, objects, Columns("text"), "jsonl", chars_max=10)
    parts = list(source.scan(6_000))
    assert [part.rows for part in parts] == [6_000, 6_000, 6_000, 2_000] * 2
    assert [len(source.rows(part)) for part in reversed(parts)] == [2_000, 6_000, 6_000, 6_000] * 2
    asyncio.run(put('{"text": "two"}\n' * 20_000))
    with refused("source-changed"):
        source.rows(parts[2])
    asyncio.run(store.delete(["in/b.jsonl"]))
    with refused("source-missing"):
        source.rows(parts[5])


def test_parquet_of_s3_is_read_by_ranges(s3: S3Server) -> None:
    access = StoreAccess("files", s3.bucket(), s3.options())
    texts = [f"text {number} {secrets.token_hex(400)}" for number in range(3_000)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=700)
    asyncio.run(access.blobs().put("in/a.parquet", sink.getvalue()))
    source = BulkSource.of_store(access, find_objects(access, prefix="in"), Columns("text"), "parquet", chars_max=1_000)
    parts = list(source.scan(1_000))
    assert [row.text for part in parts for row in source.rows(part) if isinstance(row, BulkRow)] == texts
    asyncio.run(access.blobs().put("in/a.parquet", sink.getvalue() + b"x"))
    with refused("source-changed"):
        source.rows(parts[0])
