"""The results of a bulk release, in parts: files of a store, or one file of the job.

Guarantee of every `BulkTarget`: a part that is written is never written again, by this or any other writer, and it
survives a crash of the machine or of the store's server. `write` returns the digest of the part that stands. If that is
not the part of the call, the data of the call was written nowhere: what was drawn for it never left the process. A
target has the parts of one release alone.

Every method raises JobFailed with a reason of `gpu_workers.bulk.stores`, or `target-taken` if the target has other
files than those of this release.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

import numpy as np
import orjson

from core.errors import BlobExists, JobFailed
from core.files.disk import sync_folder
from core.files.encrypted_file import decrypt, encrypt
from gpu_workers.bulk.readers import pyarrow
from gpu_workers.bulk.stores import StoreAccess, job_failures, store_failed
from gpu_workers.jobs.protocol import JobOrder

TargetFormat = Literal["jsonl", "parquet"]
# What a column holds: a word; the dimension of a vector of float32; or the members of the structs of a list. All values
# may be missing.
Kind = Literal["string", "integer", "number", "boolean"] | int | Mapping[str, Any]
Schema = Mapping[str, Kind]

MANIFEST = "manifest.json"
_CLAIM = "_release.json"  # readers of tables skip names that begin with an underscore
_PART = re.compile(r"part-(\d{6,})")


class WrittenPart(NamedTuple):
    """The part that stands. `is_new`: whether it is that of the call."""

    sha256: str
    size: int
    is_new: bool


class BulkTarget(Protocol):
    """Where the parts of one release go. See the module's guarantee."""

    def done(self) -> set[int]:
        """The numbers of the parts that are written."""

    def write(self, number: int, data: bytes) -> WrittenPart:
        """Write a part, unless it is written already."""

    def written(self, number: int) -> WrittenPart:
        """Read a part that is written and return its digest; `is_new` is false."""

    def finish(self, manifest: Mapping[str, Any]) -> str:
        """Complete the target once all parts are written, and return the text of the manifest that stands."""


def encode(rows: Sequence[Mapping[str, Any]], format: TargetFormat, schema: Schema) -> bytes:
    """A part with the columns of `schema` in their order, the same for every part. A member that a row lacks is null.

    Vectors are numpy arrays, float32 `[d]`. JSON lines have null for a number that is not finite. Raises ValueError for
    a member that the schema lacks, and for a vector of another dimension.
    """
    for row in rows:
        if not row.keys() <= schema.keys():
            raise ValueError("a row has a member that the schema lacks")
    if format == "jsonl":
        option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        return b"".join(orjson.dumps({name: row.get(name) for name in schema}, option=option) for row in rows)
    pa = pyarrow()
    columns = [_column([row.get(name) for row in rows], kind) for name, kind in schema.items()]
    sink = pa.BufferOutputStream()
    with _parquet_writer(sink, schema) as writer:
        writer.write_table(pa.table(columns, schema=_arrow_schema(schema)), row_group_size=max(1, len(rows)))
    return bytes(sink.getvalue())


def _column(values: list[Any], kind: Kind) -> Any:
    pa = pyarrow()
    if not isinstance(kind, int):
        return pa.array(values, _arrow_type(kind))
    none = np.zeros(kind, dtype=np.float32)
    vectors = [none if value is None else np.asarray(value, dtype=np.float32) for value in values]
    if any(vector.shape != (kind,) for vector in vectors):
        raise ValueError("a vector has another dimension than the schema")
    flat = np.concatenate(vectors) if vectors else none[:0]
    return pa.FixedSizeListArray.from_arrays(flat, kind, mask=pa.array([value is None for value in values], pa.bool_()))


def _arrow_type(kind: Kind) -> Any:
    pa = pyarrow()
    if isinstance(kind, int):
        return pa.list_(pa.float32(), kind)
    if isinstance(kind, Mapping):
        return pa.list_(pa.struct([(name, _arrow_type(member)) for name, member in kind.items()]))
    return {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}[kind]


def _arrow_schema(schema: Schema) -> Any:
    return pyarrow().schema([(name, _arrow_type(kind)) for name, kind in schema.items()])


def _parquet_writer(sink: Any, schema: Schema) -> Any:
    import pyarrow.parquet as pq

    vectors = [name for name, kind in schema.items() if isinstance(kind, int)]
    others = [name for name in schema if name not in vectors]  # noise has no values to put into a dictionary
    return pq.ParquetWriter(sink, _arrow_schema(schema), compression="zstd", use_dictionary=others or False)


def _text(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def _digest(data: bytes, *, is_new: bool) -> WrittenPart:
    return WrittenPart(hashlib.sha256(data).hexdigest(), len(data), is_new)


def _name(number: int) -> str:
    return f"part-{number:06d}"


def _numbers(stems: Iterable[str]) -> set[int]:
    return {int(found[1]) for stem in stems if (found := _PART.fullmatch(stem))}


class StoreTarget:
    """Files `part-000000.parquet` in a folder of a store, and at the end `manifest.json`.

    The first call creates `_release.json`, which names the release. It fails if the folder belongs to another release
    or has other files, and if the store replaces what a writer asks to create.
    """

    def __init__(self, access: StoreAccess, prefix: str, format: TargetFormat, *, owner: str) -> None:
        """`prefix`: the folder, as `core.blobs.store.check_key` accepts it. `owner`: an id of the release that no other
        one has. Raises ValueError for a store that cannot be used."""
        self._access = access
        self._store = access.blobs()
        self._prefix = prefix
        self._format = format
        self._owner = owner
        self._is_claimed = False

    def done(self) -> set[int]:
        self._claim()
        suffix = f".{self._format}"
        return _numbers(key.removesuffix(suffix) for key in self._keys() if key.endswith(suffix))

    def write(self, number: int, data: bytes) -> WrittenPart:
        self._claim()
        standing, is_new = self._create(f"{_name(number)}.{self._format}", data)
        return _digest(standing, is_new=is_new)

    def written(self, number: int) -> WrittenPart:
        with job_failures():
            data = asyncio.run(self._store.get(f"{self._prefix}/{_name(number)}.{self._format}"))
        return _digest(data, is_new=False)

    def finish(self, manifest: Mapping[str, Any]) -> str:
        self._claim()
        data, _ = self._create(MANIFEST, _text(manifest).encode())
        return data.decode()

    def _keys(self) -> list[str]:
        """The names of the files in the folder and below it."""

        async def listed() -> list[str]:
            return [key.removeprefix(f"{self._prefix}/") async for key, _ in self._store.list(self._prefix)]

        with job_failures():
            return asyncio.run(listed())

    def _create(self, name: str, data: bytes) -> tuple[bytes, bool]:
        """Create a file in one request, unless it exists. Return the bytes of the one that stands, and whether they are
        those of the call: its answer may have been lost, and the file is then the one of a first try."""
        key = f"{self._prefix}/{name}"
        with job_failures():
            try:
                asyncio.run(self._store.put(key, data, create_only=True))
            except BlobExists:
                standing = asyncio.run(self._store.get(key))
                return standing, standing == data
        return data, True

    def _claim(self) -> None:
        if self._is_claimed:
            return
        self._access.check_inside(self._prefix)
        keys = self._keys()
        said = "The folder of the target has files already. Name a folder that is empty or does not exist."
        taken = JobFailed(said, reason="target-taken")
        if keys and _CLAIM not in keys:
            raise taken
        claim = orjson.dumps({"release": self._owner})
        _, is_ours = self._create(_CLAIM, claim)
        if not is_ours:
            raise taken
        with job_failures():
            try:
                asyncio.run(self._store.put(f"{self._prefix}/{_CLAIM}", claim, create_only=True))
            except BlobExists:
                self._is_claimed = True
                return
        raise store_failed("store-not-create-only")


class JobTarget:
    """Encrypted files of the job's folder, which become one file at the end: JSON lines, or Parquet with a row group
    for each part."""

    def __init__(self, order: JobOrder, format: TargetFormat, schema: Schema, artifact: Path) -> None:
        """`artifact`: the file, which is not encrypted. `finish` creates it and its folder."""
        self._order = order
        self._format = format
        self._schema = schema
        self._artifact = artifact

    def done(self) -> set[int]:
        return _numbers(path.name for path in self._order.folder.iterdir())

    def write(self, number: int, data: bytes) -> WrittenPart:
        name = _name(number)
        try:
            encrypt(self._order.folder / name, self._order.key, name, data, create_only=True)
        except FileExistsError:
            standing = self._read(number)
            return _digest(standing, is_new=standing == data)
        sync_folder(self._order.folder)
        return _digest(data, is_new=True)

    def written(self, number: int) -> WrittenPart:
        return _digest(self._read(number), is_new=False)

    def finish(self, manifest: Mapping[str, Any]) -> str:
        self._artifact.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self._artifact.with_name(f".{self._artifact.name}.partial")
        with partial.open("wb") as file:
            self._join(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._artifact)
        sync_folder(self._artifact.parent)
        return _text(manifest)

    def _join(self, file: BinaryIO) -> None:
        """Write all parts in their order, one after another in memory."""
        parts = (self._read(number) for number in sorted(self.done()))
        if self._format == "jsonl":
            file.writelines(parts)
            return
        import pyarrow.parquet as pq

        with _parquet_writer(file, self._schema) as writer:
            for part in parts:
                table = pq.read_table(pyarrow().BufferReader(part))
                writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _read(self, number: int) -> bytes:
        """Raises JobFilesLost."""
        return decrypt(self._order.folder / _name(number), self._order.key, _name(number))
