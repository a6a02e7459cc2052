"""Reads one object as JSON lines, CSV or Parquet, from its start or from the position of a row.

Guarantee: memory holds a chunk and a row of text, or a batch of Parquet, however large the object is or becomes when it
is decompressed. A row that cannot be read is a `Fault` and ends nothing. Errors and faults contain no part of a row.

Positions: `(0, byte)` in text, counted after decompression; `(row group, row)` in Parquet.
"""

import csv
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from core.errors import JobFailed
from gpu_workers.jobs.corpus import MARK, lines
from gpu_workers.jobs.protocol import JobOrder

Format = Literal["jsonl", "csv", "parquet"]
Fault = Literal[
    "not-json", "not-object", "not-csv", "not-utf-8", "no-text", "not-text", "empty", "too-long", "bad-id",
    "no-subject", "bad-subject",
]  # fmt: skip
Position = tuple[int, int]

LINE_BYTES_MAX = 16 * 1024 * 1024  # of a line of JSON, or of a record of CSV
UPLOADED_PARQUET_BYTES_MAX = 1024 * 1024 * 1024  # held in memory, since Parquet needs random access
_INFLATED_BYTES = 1024 * 1024  # of one step
_INFLATION_MAX = 200  # bytes for each compressed byte; text rarely reaches 20
_INFLATION_FREE_BYTES = 64 * 1024 * 1024
_BATCH_ROWS = 128
_PARQUET_BUFFER_BYTES = 4 * 1024 * 1024
_GZIP = b"\x1f\x8b"  # begins neither UTF-8 nor Parquet
_INVALID = object()  # a text of Parquet that is not UTF-8


@dataclass(frozen=True)
class Columns:
    """Which columns of a table, or members of an object, hold what. `text`: a string, or a list of strings, which are
    the sentences of the document."""

    text: str
    id: str | None = None
    subject: str | None = None

    @property
    def each(self) -> tuple[str, str | None, str | None]:
        """The columns in the order of `RowCells`."""
        return self.text, self.id, self.subject

    @property
    def names(self) -> list[str]:
        """Each column that is read, once."""
        return list(dict.fromkeys(name for name in self.each if name is not None))


class RowCells(NamedTuple):
    """What a row has in its columns, not checked yet."""

    text: Any
    id: Any
    subject: Any


Record = tuple[Position, RowCells | Fault]


class ObjectBytes(Protocol):
    """The bytes of one object: of a store (`gpu_workers.bulk.stores.StoredBytes`) or uploaded (`UploadedBytes`)."""

    def chunks(self, first: int = 0) -> Iterator[bytes]:
        """The bytes from `first` on."""

    def file(self) -> Any:
        """A binary file with random access, for Parquet. Raises JobFailed."""


class UploadedBytes:
    """The uploaded data of a job, which is decrypted in one pass each time that it is read."""

    def __init__(self, order: JobOrder) -> None:
        self._order = order

    def chunks(self, first: int = 0) -> Iterator[bytes]:
        return _after(self._order.received(), first)

    def file(self) -> Any:
        """Hold all bytes in memory. Raises JobFailed for more than UPLOADED_PARQUET_BYTES_MAX."""
        whole = bytearray()
        for chunk in self._order.received():
            whole += chunk
            if len(whole) > UPLOADED_PARQUET_BYTES_MAX:
                said = "An uploaded Parquet file has at most 1 GiB. Put a larger one into a store, or divide it."
                raise JobFailed(said, reason="file-too-large", count=UPLOADED_PARQUET_BYTES_MAX)
        return pyarrow().BufferReader(whole)


class Reader(Protocol):
    """The rows of one object."""

    def records(self, start: Position | None = None) -> Iterator[Record]:
        """The rows from a position on, by default all of them. Raises JobFailed."""


def open_reader(data: ObjectBytes, format: Format, columns: Columns, *, line_bytes_max: int) -> Reader:
    """Raises JobFailed, also for a file whose columns cannot be used."""
    if format == "parquet":
        return _ParquetReader(data, columns)
    kind = _JsonReader if format == "jsonl" else _CsvReader
    return kind(data, columns, line_bytes_max)


def _column_failed(columns: Columns, name: str, said: str, reason: str) -> JobFailed:
    """The error of a column, by the member of the request that names it: the name may be private."""
    member = ("text", "id", "subject")[columns.each.index(name)]
    return JobFailed(f"The column for `{member}` {said} in a file of the source.", reason=reason)


def _check_once(columns: Columns, name: str, count: int) -> None:
    if count == 0:
        raise _column_failed(columns, name, "is missing", "no-column")
    if count > 1:
        raise _column_failed(columns, name, "is there several times", "repeated-column")


def inflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of gzip files in a row, in steps of a limited size. Raises JobFailed for what is no gzip or cut short,
    and for bytes that grow by more than text does."""
    damaged = JobFailed("A gzip file of the source is damaged or cut short.", reason="damaged-file")
    decoder = zlib.decompressobj(wbits=31)
    taken = given = 0
    for chunk in chunks:
        taken += len(chunk)
        while chunk:
            if decoder.eof:
                if not chunk.strip(b"\0"):
                    break
                decoder = zlib.decompressobj(wbits=31)
            try:
                step = decoder.decompress(chunk, _INFLATED_BYTES)
            except zlib.error:
                raise damaged from None
            given += len(step)
            if given > _INFLATION_MAX * taken + _INFLATION_FREE_BYTES:
                said = "A gzip file of the source grows too much when it is decompressed. Give it uncompressed."
                raise JobFailed(said, reason="too-compressed")
            yield step
            chunk = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    yield decoder.flush()  # at most one match of 258 bytes
    if not decoder.eof:
        raise damaged


class _TextReader:
    """An object of lines, compressed or not. Compressed bytes are read from their start."""

    def __init__(self, data: ObjectBytes, columns: Columns, line_bytes_max: int) -> None:
        self._data = data
        self._columns = columns
        self._line_bytes_max = line_bytes_max
        head = next(iter(data.chunks()), b"")[: len(MARK)]
        self._is_compressed = head.startswith(_GZIP)
        if self._is_compressed:
            head = next((step for step in inflated(data.chunks()) if step), b"")[: len(MARK)]
        self._first = len(MARK) if head == MARK else 0

    def _lines(self, start: int) -> Iterator[tuple[int, bytes | None]]:
        chunks = _after(inflated(self._data.chunks()), start) if self._is_compressed else self._data.chunks(start)
        return lines(chunks, start, bytes_max=self._line_bytes_max)


def _after(chunks: Iterable[bytes], first: int) -> Iterator[bytes]:
    """The bytes from `first` on."""
    for chunk in chunks:
        if first < len(chunk):
            yield chunk[first:] if first else chunk
        first = max(0, first - len(chunk))


class _JsonReader(_TextReader):
    """Objects, one a line. Blank lines are no rows."""

    def records(self, start: Position | None = None) -> Iterator[Record]:
        names = self._columns.each
        for place, line in self._lines(self._first if start is None else start[1]):
            if line is None:
                yield (0, place), "too-long"
                continue
            if not line or line.isspace():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                yield (0, place), "not-json" if _is_utf_8(line) else "not-utf-8"
                continue
            if isinstance(row, dict):
                yield (0, place), RowCells(*[None if name is None else row.get(name) for name in names])
            else:
                yield (0, place), "not-object"


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _CsvReader(_TextReader):
    """RFC 4180 with a header. Blank lines are no rows, and an empty value is none."""

    def __init__(self, data: ObjectBytes, columns: Columns, line_bytes_max: int) -> None:
        super().__init__(data, columns, line_bytes_max)
        csv.field_size_limit(line_bytes_max)
        rows = self._rows(self._first)
        _, header = next(rows, (0, []))
        if isinstance(header, str):
            said = "A CSV file begins with a line of column names, in UTF-8. Lines end with LF or CRLF."
            raise JobFailed(said, reason="bad-header")
        self._width = len(header)
        for name in columns.names:
            _check_once(columns, name, header.count(name))
        self._places = [None if name is None else header.index(name) for name in columns.each]
        self._body = next(rows, None)

    def records(self, start: Position | None = None) -> Iterator[Record]:
        if self._body is None:
            return
        columns = self._places
        for place, row in self._rows(self._body[0] if start is None else start[1]):
            if isinstance(row, str):
                yield (0, place), row
            elif len(row) != self._width:
                yield (0, place), "not-csv"
            else:
                yield (0, place), RowCells(*[None if column is None else row[column] or None for column in columns])

    def _rows(self, start: int) -> Iterator[tuple[int, list[str] | Fault]]:
        """The place and the fields of each row. Raises JobFailed for a row that is too long, and for a quote without
        an end: it cannot be found out where the next row begins."""
        place: int | None = None
        used = 0
        is_text = True
        is_whole = False

        def texts() -> Iterator[str]:
            nonlocal place, used, is_text, is_whole
            for first, line in self._lines(start):
                place = first if place is None else place
                used += 0 if line is None else len(line) + 1
                if line is None or used > self._line_bytes_max:
                    said = f"has more than {self._line_bytes_max} bytes, or a quote in it has no end."
                    raise JobFailed(f"The row of a CSV file at byte {place} {said}", reason="csv-row-too-long")
                try:
                    yield line.decode() + "\n"
                except UnicodeDecodeError:
                    is_text = False
                    yield line.decode(errors="replace") + "\n"
            is_whole = True

        reader = csv.reader(texts(), strict=True)
        while True:
            place, used, is_text = None, 0, True
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error:
                if is_whole:
                    said = f"The row of a CSV file at byte {place} has a quote without an end."
                    raise JobFailed(said, reason="csv-open-quote") from None
                yield place or 0, "not-csv"
                continue
            if row:
                yield place or 0, row if is_text else "not-utf-8"


class _ParquetReader:
    """Row groups in their order, in batches of the columns that are needed."""

    def __init__(self, data: ObjectBytes, columns: Columns) -> None:
        pyarrow()
        import pyarrow.parquet as pq

        self._columns = columns
        source = data.file()
        with _parquet_failures():
            self._file = pq.ParquetFile(source, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES)
            schema = self._file.schema_arrow
        for name in columns.names:
            found = schema.get_all_field_indices(name)
            _check_once(columns, name, len(found))
            if not _is_readable(schema.field(found[0]).type, is_text=name == columns.text):
                said = "holds no strings" if name == columns.text else "holds neither strings nor integers"
                raise _column_failed(columns, name, said, "column-type")

    def records(self, start: Position | None = None) -> Iterator[Record]:
        first, skipped = start or (0, 0)
        for group in range(first, self._file.num_row_groups):
            row = 0
            for batch in self._batches(group):
                if skipped < row + batch.num_rows:
                    batch_start = max(0, skipped - row)
                    part = batch.slice(batch_start)
                    none = [None] * part.num_rows
                    lists = [none if name is None else _values(part.column(name)) for name in self._columns.each]
                    for number, cells in enumerate(zip(*lists, strict=True), start=row + batch_start):
                        yield (group, number), "not-utf-8" if _INVALID in cells else RowCells(*cells)
                row += batch.num_rows
            skipped = 0

    def _batches(self, group: int) -> Iterator[Any]:
        with _parquet_failures():
            batches = self._file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=[group], columns=self._columns.names, use_threads=False
            )
        while True:
            with _parquet_failures():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def pyarrow() -> Any:
    """The library. Raises JobFailed if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        said = "This gateway cannot read or write Parquet. Ask the operator to install `privacy-gateway[bulk]`."
        raise JobFailed(said, reason="no-parquet") from None
    return pyarrow


@contextmanager
def _parquet_failures() -> Iterator[None]:
    try:
        yield
    except (pyarrow().ArrowException, OSError, ValueError) as error:
        if isinstance(error, MemoryError):
            raise
        said = "A Parquet file of the source is damaged, encrypted or of a form that the gateway cannot read."
        raise JobFailed(said, reason="damaged-file") from None


def _is_readable(kind: Any, *, is_text: bool) -> bool:
    types = pyarrow().types
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    if is_text and any(each(kind) for each in lists):
        kind = kind.value_type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return True
    return not is_text and bool(types.is_integer(kind))


def _values(column: Any) -> list[Any]:
    """The values, with `_INVALID` for those that are not UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return _INVALID
