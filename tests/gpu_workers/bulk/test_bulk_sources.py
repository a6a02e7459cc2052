"""Reading rows in parts: every format, every division into parts, and files that attack a reader."""

import csv
import gzip
import io
import json
import os
import resource
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from corpus_kit import json_lines
from hypothesis import given
from hypothesis import strategies as st
from job_kit import written_order

from core.errors import InvalidInput, JobFailed
from gpu_workers.bulk.readers import Format, inflated
from gpu_workers.bulk.sources import BulkPart, BulkRow, BulkSource, Columns, Unreadable
from gpu_workers.bulk.stores import StoreAccess, find_objects
from gpu_workers.jobs.corpus import lines
from service.bulk.schemas import check_installed

TEXT = Columns("text")
ALL = Columns("text", id="id", subject="who")


class Pieces:
    """An object of the memory, in chunks of some size."""

    def __init__(self, data: bytes, step: int = 7) -> None:
        self.data = data
        self.step = step

    def chunks(self, first: int = 0) -> Iterator[bytes]:
        for start in range(first, len(self.data), self.step):
            yield self.data[start : start + self.step]

    def file(self) -> Any:
        return io.BytesIO(self.data)


def source(
    *data: bytes, format: Format = "jsonl", columns: Columns = TEXT, step: int = 1000, **limits: int
) -> BulkSource:
    return BulkSource([Pieces(each, step) for each in data], columns, format, **{"chars_max": 1000, **limits})


def rows_of(source: BulkSource, part_rows: int = 100) -> list[BulkRow | Unreadable]:
    return [row for part in list(source.scan(part_rows)) for row in source.rows(part)]


def read(*data: bytes, **options: Any) -> list[str | None]:
    """What each row holds: its text or the reason why it has none."""
    return [row.text if isinstance(row, BulkRow) else row.reason for row in rows_of(source(*data, **options))]


def refused(*data: bytes, **options: Any) -> JobFailed:
    with pytest.raises(JobFailed) as caught:
        read(*data, **options)
    return caught.value


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def csv_of(rows: Sequence[Sequence[str]]) -> bytes:
    sink = io.StringIO(newline="")
    csv.writer(sink).writerows(rows)
    return sink.getvalue().encode()


ROWS = [{"text": f'text {number}\n"é"', "id": str(number), "who": f"s{number % 3}"} for number in range(23)]
FILES: dict[Format, bytes] = {
    "jsonl": json_lines(ROWS),
    "csv": csv_of([("text", "id", "who"), *(tuple(row.values()) for row in ROWS)]),
    "parquet": parquet({name: [row[name] for row in ROWS] for name in ROWS[0]}, row_group_size=5),
}
EXPECTED = [BulkRow(number, row["text"], row["id"], row["who"]) for number, row in enumerate(ROWS)]


@given(format=st.sampled_from(list(FILES)), part_rows=st.integers(1, 30), step=st.integers(1, 90), order=st.randoms())
def test_any_division_into_parts_reads_the_same_rows(format: Format, part_rows: int, step: int, order: Any) -> None:
    data = FILES[format] if format == "parquet" or step % 2 else gzip.compress(FILES[format])
    found = source(data, data, format=format, columns=ALL, step=step)
    parts = list(found.scan(part_rows))
    assert [part.first_row for part in parts] == [sum(part.rows for part in parts[:n]) for n in range(len(parts))]
    again = source(data, data, format=format, columns=ALL, step=step + 1)
    assert [BulkPart.of_json(json.loads(json.dumps(part.as_json()))) for part in again.scan(part_rows)] == parts
    read = {part.number: again.rows(part) for part in order.sample(parts, len(parts))}
    second = [row._replace(number=row.number + len(ROWS)) for row in EXPECTED]
    assert [row for _, rows in sorted(read.items()) for row in rows] == EXPECTED + second
    assert [row for part in parts for row in found.rows(part)] == EXPECTED + second
    assert sum((Counter(part.subjects) for part in parts), Counter()) == {"s0": 16, "s1": 16, "s2": 14}


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(1, 60))
def test_lines_are_those_of_split_without_those_that_are_too_long(data: bytes, step: int, bytes_max: int) -> None:
    data = data.replace(b"\x00", b"\n")
    whole = data.split(b"\n")
    whole = whole if whole[-1] else whole[:-1]
    starts = [sum(len(line) + 1 for line in whole[:number]) for number in range(len(whole))]
    expected = [(start, line if len(line) <= bytes_max else None) for start, line in zip(starts, whole, strict=True)]
    assert list(lines(Pieces(data, step).chunks(), bytes_max=bytes_max)) == expected


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(1, 50))
def test_gzip_files_in_a_row_are_one(parts: list[bytes], step: int) -> None:
    packed = b"".join(map(gzip.compress, parts)) + b"\0" * 20
    assert b"".join(inflated(Pieces(packed, step).chunks())) == b"".join(parts)


def test_the_upload_is_read_in_every_format(tmp_path: Path) -> None:
    for format, data in [*FILES.items(), ("jsonl", gzip.compress(FILES["jsonl"]))]:
        order = written_order("release", tmp_path / f"{format}-{len(data)}", None, data)
        uploaded = BulkSource.of_upload(order, ALL, format, chars_max=1000)
        assert rows_of(uploaded, 4) == EXPECTED
        parts = list(uploaded.scan(4))
        assert uploaded.rows(parts[3]) == EXPECTED[12:16]
        assert b"text" not in b"".join(path.read_bytes() for path in order.folder.iterdir())


def test_rows_that_cannot_be_read_have_a_reason_each() -> None:
    long = json.dumps({"text": "x" * 5000}).encode()
    data = [
        (b'{"text": "ok"}', "ok"),
        (b"  \t", None),
        (b"{", "not-json"),
        (b"[1]", "not-object"),
        (b'"text"', "not-object"),
        (b'{"text": "\xff"}', "not-utf-8"),
        (b'{"text": "\\ud800"}', "not-json"),
        (b'{"text": "\\u0000"}', "\0"),
        (b'{"text": NaN}', "not-json"),
        (b'{"other": "x"}', "no-text"),
        (b'{"text": null}', "no-text"),
        (b'{"text": 3}', "not-text"),
        (b'{"text": ["a", 3]}', "not-text"),
        (b'{"text": ["a", null]}', "not-text"),
        (b'{"text": {"a": 1}}', "not-text"),
        (b'{"text": " \\n"}', "empty"),
        (b'{"text": []}', "empty"),
        (b'{"text": [""]}', "empty"),
        (json.dumps({"text": "x" * 1001}).encode(), "too-long"),
        (json.dumps({"text": ["x" * 600, "x" * 600]}).encode(), "too-long"),
        (long, "too-long"),
        (b"[" * 5000, "too-long"),
        (b"[" * 3000, "not-json"),
        (b'{"text": "after"}\r', "after"),
    ]
    found = read(b"\n".join(line for line, _ in data), line_bytes_max=4000)
    assert found == [said for _, said in data if said is not None]


def test_names_are_strings_or_integers_of_a_length() -> None:
    one = {"text": "x", "who": "s"}
    rows = [
        {**one, "id": 7},
        {**one, "id": -(2**63)},
        {**one, "id": None},
        {"text": "x", "id": "a", "who": 12},
        {**one, "id": "i" * 128},
        {**one, "id": "i" * 129},
        {**one, "id": 1.5},
        {**one, "id": True},
        {"text": "x"},
        {"text": "x", "who": ""},
        {"text": "x", "who": "s" * 257},
        {"text": "x", "who": ["s"]},
    ]
    found = rows_of(source(json_lines(rows) + b'{"text": "x", "who": "s", "id": 18446744073709551616}', columns=ALL))
    assert [(row.id, row.subject) if isinstance(row, BulkRow) else row.reason for row in found] == [
        ("7", "s"),
        (str(-(2**63)), "s"),
        (None, "s"),
        ("a", "12"),
        ("i" * 128, "s"),
        *["bad-id"] * 3,
        "no-subject",
        *["bad-subject"] * 3,
        "bad-id",
    ]


def test_sentences_of_the_caller_stay_as_they_are() -> None:
    expected = [BulkRow(0, None, None, None, ("One.", " two")), BulkRow(1, None, None, None, ("three",))]
    lists = [["One.", " two"], ["three"]]
    assert rows_of(source(json_lines([{"text": each} for each in lists]))) == expected
    for kind in (
        pa.list_(pa.string()),
        pa.large_list(pa.large_string()),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ):
        data = parquet({"text": pa.array(lists, kind)})
        assert rows_of(source(data, format="parquet")) == expected


def test_a_byte_order_mark_is_no_part_of_the_first_row() -> None:
    mark = b"\xef\xbb\xbf"
    for packed in (bytes, gzip.compress):
        assert read(packed(mark + b'{"text": "x"}')) == ["x"]
        assert read(packed(mark + b"text\nx\n"), format="csv") == ["x"]


def test_csv_is_read_as_rfc_4180() -> None:
    data = b'text,id,who\r\n"a ""b""\r\n\r\nc, d",1,s\r\n\r\n5" pipe,,s\r\nx\0y,3,s'
    assert rows_of(source(data, format="csv", columns=ALL)) == [
        BulkRow(0, 'a "b"\r\n\r\nc, d', "1", "s"),
        BulkRow(1, '5" pipe', None, "s"),
        BulkRow(2, "x\0y", "3", "s"),
    ]


def test_csv_rows_that_cannot_be_read_are_left_out() -> None:
    data = b'text,id\nok,1\nshort\nlong,2,3\n"a"b,4\n\xff,5\n,6\na\rb,7\nend,8\n'
    assert read(data, format="csv") == ["ok", "not-csv", "not-csv", "not-csv", "not-utf-8", "no-text", "not-csv", "end"]


def test_a_csv_file_whose_rows_cannot_be_found_ends_the_job() -> None:
    assert refused(b"text,id\rx,1\ry,2\r", format="csv").reason == "bad-header"
    assert refused("text\nx\n".encode("utf-16"), format="csv").reason == "bad-header"
    assert refused(b'text\nx\n"y\nz\n', format="csv").reason == "csv-open-quote"
    assert refused(b'text\nx\n"y' + b"\nz" * 100, format="csv", line_bytes_max=50).reason == "csv-row-too-long"
    assert refused(b"text\n" + b"x" * 100, format="csv", line_bytes_max=50).reason == "csv-row-too-long"
    assert refused(b"", format="csv").reason == "no-column"
    assert refused(b"id\n1\n", format="csv").reason == "no-column"
    assert refused(b"text,text\n1,2\n", format="csv").reason == "repeated-column"
    failed = refused(b"text\n1\n", b'text\nx\n"y', format="csv")
    assert (failed.reason, str(failed.detail).partition(":")[0]) == ("csv-open-quote", "Object 2 of 2")
    assert "byte 7" in str(failed.detail)


def test_files_without_rows_have_no_part() -> None:
    for data, format in [(b"", "jsonl"), (b"\n \n", "jsonl"), (b"text\r\n\r\n", "csv"), (b"text", "csv")]:
        assert list(source(data, format=format).scan(10)) == []
    assert list(source(parquet({"text": pa.array([], pa.string())}), format="parquet").scan(10)) == []


def test_every_form_of_strings_of_parquet_is_read() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        data = parquet({"text": pa.array(["a", None, "é"], kind), "id": pa.array([1, 2, 3], pa.uint64())})
        found = rows_of(source(data, format="parquet", columns=Columns("text", id="id")))
        assert found == [BulkRow(0, "a", "1", None), Unreadable(1, "no-text"), BulkRow(2, "é", "3", None)]


def test_a_text_of_parquet_that_is_no_utf_8_is_its_own_row() -> None:
    raw = pa.array([b"a", b"\xff", b"c"], pa.binary()).view(pa.string())
    assert read(parquet({"text": raw}), format="parquet") == ["a", "not-utf-8", "c"]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3]), raw)
    assert [type(row) for row in rows_of(source(parquet({"text": lists}), format="parquet"))] == [BulkRow, Unreadable]


def test_columns_of_parquet_that_cannot_be_used_end_the_job() -> None:
    good = pa.array(["a"])
    nested = pa.array([{"text": "a"}])
    cases: list[tuple[Any, str]] = [
        (pa.table({"other": good}), "no-column"),
        (pa.table({"text": nested}), "column-type"),
        (pa.table({"text": pa.array([[["a"]]])}), "column-type"),
        (pa.table({"text": pa.array([1])}), "column-type"),
        (pa.table({"text": pa.array([b"a"])}), "column-type"),
        (pa.table([good, good], names=["text", "text"]), "repeated-column"),
        (pa.table({"a": pa.array([{"text": "x"}])}), "no-column"),
    ]
    for table, reason in cases:
        sink = io.BytesIO()
        pq.write_table(table, sink)
        assert refused(sink.getvalue(), format="parquet").reason == reason
    data = parquet({"text": good, "who": pa.array([1.5])})
    failed = refused(data, format="parquet", columns=Columns("text", subject="who"))
    assert failed.reason == "column-type"
    assert "`subject`" in str(failed.detail)
    assert read(parquet({"text": good, "a.b": nested}), format="parquet") == ["a"]


class _Kms(pe.KmsClient):
    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return bytes.fromhex(wrapped_key)


def test_damaged_and_encrypted_parquet_ends_the_job() -> None:
    whole = FILES["parquet"]
    middle = bytearray(whole)
    middle[40:120] = bytes(80)
    for data in (b"", b"PAR1", whole[:-20], whole[:200], b"PAR1" + os.urandom(500) + b"PAR1", bytes(middle)):
        assert refused(data, format="parquet").reason == "damaged-file"
    for plaintext_footer in (False, True):
        config = pe.EncryptionConfiguration("k", column_keys={"k": ["text"]}, plaintext_footer=plaintext_footer)
        properties = pe.CryptoFactory(lambda _: _Kms()).file_encryption_properties(pe.KmsConnectionConfig(), config)
        data = parquet({"text": ["a"]}, encryption_properties=properties)
        assert refused(data, format="parquet").reason == "damaged-file"


@given(st.data(), st.sampled_from(["jsonl", "csv", "gzip"]))
def test_any_damage_gives_rows_or_the_error_of_a_job(data: st.DataObject, format: Any) -> None:
    whole = gzip.compress(FILES["jsonl"]) if format == "gzip" else FILES[format]
    start = data.draw(st.integers(0, len(whole)))
    damaged = whole[:start] + data.draw(st.binary(max_size=9)) + whole[start + data.draw(st.integers(0, 9)) :]
    with suppress(JobFailed):
        read = rows_of(source(damaged, format="csv" if format == "csv" else "jsonl", columns=ALL), 5)
        assert [row.number for row in read] == list(range(len(read)))


def test_damaged_gzip_ends_the_job() -> None:
    packed = gzip.compress(FILES["jsonl"])
    for data in (packed[:-3], packed[:30], packed + b"x", packed[:40] + b"\0\0\0" + packed[43:]):
        assert refused(data).reason == "damaged-file"


def test_a_line_and_a_bomb_hold_little_memory() -> None:
    """2 GiB, which no reader holds."""
    one = zlib.compress(b"x" * (1 << 20), wbits=31)

    class Bomb(Pieces):
        def chunks(self, first: int = 0) -> Iterator[bytes]:
            return iter([one] * 2048)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(JobFailed) as caught:
        rows_of(BulkSource([Bomb(b"")], TEXT, "jsonl", chars_max=10))
    assert caught.value.reason == "too-compressed"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB

    class Long(Pieces):
        def chunks(self, first: int = 0) -> Iterator[bytes]:
            yield from [b"x" * (1 << 20)] * 50
            yield b'\n{"text": "after"}'

    found = BulkSource([Long(b"")], TEXT, "jsonl", chars_max=10)
    assert next(found.scan(10)).unreadable == (Unreadable(0, "too-long"),)


def test_without_its_library_only_parquet_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for format in ("jsonl", "csv"):
        assert rows_of(source(FILES[format], format=format, columns=ALL)) == EXPECTED
    failed = refused(FILES["parquet"], format="parquet")
    assert failed.reason == "no-parquet"
    assert "privacy-gateway[bulk]" in str(failed.detail)
    with pytest.raises(InvalidInput, match="bulk"):
        check_installed("parquet", field="source.format")
    check_installed("jsonl", field="source.format")


def local(folder: Path) -> StoreAccess:
    return StoreAccess("files", folder.as_uri())


def test_a_source_that_changes_or_disappears_is_not_read_on(tmp_path: Path) -> None:
    access = local(tmp_path)
    for format, data in FILES.items():
        path = tmp_path / format
        path.write_bytes(data)
        objects = find_objects(access, keys=[format])
        found = BulkSource.of_store(access, objects, ALL, format, chars_max=1000)
        parts = list(found.scan(5))
        assert found.rows(parts[2]) == EXPECTED[10:15]
        path.write_bytes(data.replace(b"text 7", b"text 8"))
        path.touch()
        for source in (found, BulkSource.of_store(access, objects, ALL, format, chars_max=1000)):
            with pytest.raises(JobFailed) as caught:
                source.rows(parts[0])
            assert caught.value.reason == "source-changed"
        path.unlink()
        with pytest.raises(JobFailed) as caught:
            found.rows(parts[0])
        assert caught.value.reason == "source-missing"


def test_errors_quote_no_row(tmp_path: Path) -> None:
    (tmp_path / "private-name.jsonl").write_bytes(b'{"text": "private"')
    access = local(tmp_path)
    with pytest.raises(JobFailed) as caught:
        find_objects(access, keys=["private-names.jsonl"])
    objects = find_objects(access, prefix="")
    parts = list(BulkSource.of_store(access, objects, TEXT, "jsonl", chars_max=10).scan(1))
    for shown in (str(caught.value), repr(access), repr(objects), repr(parts), str(caught.value.detail)):
        assert "private" not in shown
        assert str(tmp_path) not in shown
