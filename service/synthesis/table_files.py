"""Converts a table's file (CSV, JSON lines, Parquet) to the JSON lines that `POST /jobs/synthesis` takes.

Values are converted to the types that the schema declares; the gateway checks them. Raises ValueError with the number
of a line, never with its content.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from core.synthesis.declared import EMBEDDING, DeclaredTable
from core.synthesis.schema import NumericColumn

FORMATS = (".csv", ".jsonl", ".ndjson", ".parquet")
_BATCH_ROWS = 10_000
_PIECE_ROWS = 1_000


def json_lines(path: Path, declared: DeclaredTable) -> Iterator[bytes]:
    """The file's rows as JSON lines, in pieces. The extension selects the format. Raises ValueError, OSError."""
    kind = path.suffix.lower()
    if kind in (".jsonl", ".ndjson"):
        with path.open("rb") as lines:
            yield from lines
        return
    if kind == ".csv":
        rows = _csv_rows(path, declared)
    elif kind == ".parquet":
        rows = _parquet_rows(path)
    else:
        raise ValueError(f"the file's name ends in one of {', '.join(FORMATS)}")
    while piece := list(itertools.islice(rows, _PIECE_ROWS)):
        yield b"".join(orjson.dumps(row) + b"\n" for row in piece)


def _csv_rows(path: Path, declared: DeclaredTable) -> Iterator[Mapping[str, Any]]:
    """Rows by the names of the header. Embeddings have the columns `embedding.0`, `embedding.1`, ..."""
    readers = {
        column.name: _number_of(column) for column in declared.schema.columns if isinstance(column, NumericColumn)
    }
    with path.open(newline="", encoding="utf-8-sig") as text:
        table = csv.DictReader(text, strict=True)
        try:
            for row in table:
                if None in row or None in row.values():
                    raise ValueError(f"line {table.line_num}: not as many values as the header has names")
                yield declared.written(_converted(row, readers, table.line_num))
        except (csv.Error, UnicodeDecodeError):
            raise ValueError(f"after line {table.line_num}: not CSV in UTF-8") from None
        except KeyError:
            last = (declared.dimension or 1) - 1
            raise ValueError(f"the header has no columns {EMBEDDING}.0 to {EMBEDDING}.{last}") from None


def _converted(row: Mapping[str, str], readers: Mapping[str, Callable[[str], Any]], line: int) -> dict[str, Any]:
    converted: dict[str, Any] = dict(row)
    for place, name in enumerate(row):
        if name in readers:
            try:
                converted[name] = readers[name](row[name].strip())
            except ValueError:
                raise ValueError(f"line {line}: value {place + 1} is no finite number") from None
    return converted


def _number_of(column: NumericColumn) -> Callable[[str], float | int]:
    def number(text: str) -> float | int:
        value = float(text)
        if not abs(value) < float("inf"):  # NaN is refused as well
            raise ValueError
        return int(value) if column.integer and value.is_integer() else value

    return number


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Rows of a Parquet file. An embedding is a column of lists."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError("Parquet needs pyarrow: pip install 'privacy-gateway[parquet]'") from None
    try:
        batches: Iterable[Any] = parquet.ParquetFile(path).iter_batches(batch_size=_BATCH_ROWS)
        for batch in batches:
            yield from batch.to_pylist()
    except ArrowException:
        raise ValueError("not a readable Parquet file") from None
