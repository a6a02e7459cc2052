"""Writing results in parts: the same columns in every part, and exactly one writer of each part."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_kit import written_order
from s3_kit import S3Server, s3_server

from core.blobs.local import LocalBlobs
from core.errors import JobFailed, JobFilesLost
from gpu_workers.bulk.sources import BulkSource, Columns
from gpu_workers.bulk.stores import StoreAccess, find_objects
from gpu_workers.bulk.targets import BulkTarget, JobTarget, Schema, StoreTarget, TargetFormat, encode

SCHEMA: Schema = {
    "row": "integer",
    "id": "string",
    "embedding": 4,
    "share": "number",
    "kept": "boolean",
    "sentences": {"start": "integer", "code": "string"},
}
VECTOR = np.array([0.1, -2, 3e-9, 4], dtype=np.float32)
FULL = {"row": 0, "id": "a", "embedding": VECTOR, "share": 0.5, "kept": True, "sentences": [{"start": 1, "code": "x"}]}
BARE = {"row": 1, "sentences": []}
PARTS: list[list[dict[str, Any]]] = [[FULL, BARE], [BARE], [], [FULL] * 3]
FORMATS: list[TargetFormat] = ["jsonl", "parquet"]


@pytest.fixture(scope="module")
def s3(processes: None) -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.system)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreAccess:
    if request.param == "local":
        return StoreAccess("files", (tmp_path / "store").as_uri())
    server = request.getfixturevalue("s3")
    return StoreAccess("files", server.bucket(), server.options())


@pytest.fixture(params=["job", "local", pytest.param("s3", marks=pytest.mark.system)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], BulkTarget]:
    """Opens one target, each time as another process would."""
    if request.param == "job":
        order = written_order("release", tmp_path / "job", None, b"")
        return lambda: JobTarget(order, "parquet", SCHEMA, tmp_path / "out" / "result.parquet")
    if request.param == "local":
        access = StoreAccess("files", (tmp_path / "store").as_uri())
    else:
        server = request.getfixturevalue("s3")
        access = StoreAccess("files", server.bucket(), server.options())
    return lambda: StoreTarget(access, "out/one", "parquet", owner="job-1")


def test_every_part_has_the_same_columns() -> None:
    tables = [pq.read_table(pa.BufferReader(encode(rows, "parquet", SCHEMA))) for rows in PARTS]
    assert len({table.schema for table in tables}) == 1
    assert tables[0].schema.field("embedding").type == pa.list_(pa.float32(), 4)
    rows = tables[0].to_pylist()
    assert np.array_equal(np.array(rows[0].pop("embedding"), np.float32), VECTOR)
    assert rows[0] == {name: value for name, value in FULL.items() if name != "embedding"}
    assert rows[1] == {**dict.fromkeys(SCHEMA), **BARE}
    read = [json.loads(line) for line in encode(PARTS[0], "jsonl", SCHEMA).splitlines()]
    assert [list(row) for row in read] == [list(SCHEMA)] * 2
    assert np.array_equal(np.array(read[0]["embedding"], np.float32), VECTOR)
    assert read[1] == {**dict.fromkeys(SCHEMA), **BARE}


def test_rows_that_the_schema_does_not_describe_are_refused() -> None:
    for format in FORMATS:
        with pytest.raises(ValueError, match="schema"):
            encode([{"other": 1}], format, SCHEMA)
    with pytest.raises(ValueError, match="dimension"):
        encode([{"embedding": np.zeros(3, np.float32)}], "parquet", SCHEMA)


def test_a_part_is_written_once(opened: Callable[[], BulkTarget]) -> None:
    first = opened()
    assert first.done() == set()
    written = first.write(7, b"first")
    assert written == (hashlib.sha256(b"first").hexdigest(), 5, True)
    for target in (first, opened()):
        assert target.done() == {7}
        assert target.write(7, b"other") == written._replace(is_new=False)
        assert target.written(7) == written._replace(is_new=False)
    assert first.write(7, b"first").is_new  # the answer of a first try was lost


def test_of_several_writers_of_a_part_one_succeeds(opened: Callable[[], BulkTarget]) -> None:
    bodies = [bytes([number]) * 1000 for number in range(6)]
    opened().done()
    with ThreadPoolExecutor(len(bodies)) as pool:
        ends = list(pool.map(lambda body: opened().write(0, body), bodies))
    (won,) = [body for body, end in zip(bodies, ends, strict=True) if end.is_new]
    assert {end.sha256 for end in ends} == {hashlib.sha256(won).hexdigest()}


def test_several_processes_of_one_release_claim_its_folder(store: StoreAccess) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: StoreTarget(store, "out", "jsonl", owner="one").done(), range(4))) == [set()] * 4


def test_a_folder_is_of_one_release(store: StoreAccess) -> None:
    StoreTarget(store, "taken", "jsonl", owner="one").write(0, b"x")
    asyncio.run(store.blobs().put("filled/part-000000.jsonl", b"planted"))
    for prefix in ("taken", "filled"):
        other = StoreTarget(store, prefix, "jsonl", owner="two")
        for call in (other.done, lambda other=other: other.write(0, b"y"), lambda other=other: other.finish({})):
            with pytest.raises(JobFailed) as caught:
                call()
            assert caught.value.reason == "target-taken"


def test_the_results_in_a_store_are_read_as_a_source(store: StoreAccess) -> None:
    target = StoreTarget(store, "out", "jsonl", owner="one")
    for number, rows in enumerate(PARTS):
        target.write(number, encode(rows, "jsonl", SCHEMA))
    text = target.finish({"parts": 4})
    assert json.loads(text) == {"parts": 4}
    assert target.finish({"parts": 5}) == text
    objects = find_objects(store, prefix="out")
    assert [each.key for each in objects] == ["out/manifest.json", *(f"out/part-{n:06d}.jsonl" for n in (0, 1, 3))]
    source = BulkSource.of_store(store, objects[1:], Columns("id"), "jsonl", chars_max=10)
    assert [row.number for part in source.scan(2) for row in source.rows(part)] == list(range(6))


def test_a_store_that_replaces_objects_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = LocalBlobs.put
    monkeypatch.setattr(LocalBlobs, "put", lambda self, key, data, create_only: put(self, key, data))
    with pytest.raises(JobFailed) as caught:
        StoreTarget(StoreAccess("files", tmp_path.as_uri()), "out", "jsonl", owner="one").write(0, b"x")
    assert caught.value.reason == "store-not-create-only"
    assert not list(tmp_path.rglob("part-*"))


def test_the_file_of_a_job_has_all_parts_in_their_order(tmp_path: Path) -> None:
    for format in FORMATS:
        order = written_order("release", tmp_path / format, None, b"")
        artifact = tmp_path / "out" / f"result.{format}"
        target = JobTarget(order, format, SCHEMA, artifact)
        for number in (3, 1, 0, 2):
            target.write(number, encode(PARTS[number], format, SCHEMA))
        assert not artifact.exists()
        for _ in range(2):
            assert json.loads(target.finish({"rows": 6})) == {"rows": 6}
        rows = [row.get("row") for part in PARTS for row in part]
        if format == "jsonl":
            assert [json.loads(line)["row"] for line in artifact.read_bytes().splitlines()] == rows
        else:
            file = pq.ParquetFile(artifact)
            assert file.read().column("row").to_pylist() == rows
            assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [2, 1, 0, 3]
        assert [path.name for path in artifact.parent.iterdir()] == [artifact.name]
        artifact.unlink()


def test_a_release_without_parts_has_a_file_with_columns(tmp_path: Path) -> None:
    order = written_order("release", tmp_path / "job", None, b"")
    JobTarget(order, "parquet", SCHEMA, tmp_path / "empty").finish({})
    assert pq.read_table(tmp_path / "empty").schema.names == list(SCHEMA)


def test_parts_of_a_job_are_encrypted_and_authentic(tmp_path: Path) -> None:
    order = written_order("release", tmp_path / "job", None, b"")
    target = JobTarget(order, "jsonl", SCHEMA, tmp_path / "out")
    target.write(0, b'{"id": "secret"}\n')
    target.write(1, b'{"id": "other"}\n')
    assert b"secret" not in (order.folder / "part-000000").read_bytes()
    (order.folder / "part-000001").rename(order.folder / "part-000000")
    with pytest.raises(JobFilesLost):
        target.finish({})
