"""Synthetic rows as text: drawn from a job's artifact, a block at a time, as JSON lines or CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import orjson

if TYPE_CHECKING:
    from core.synthesis.declared import DeclaredTable
    from gpu_workers.synthesis.artifact import RowSource

Format = Literal["jsonl", "csv"]


@dataclass(frozen=True)
class RowText:
    """Draws rows and writes them as text. This is post-processing: no private row is read."""

    source: RowSource
    declared: DeclaredTable
    form: Format

    def head(self) -> bytes:
        """The header: the names of the columns for CSV, nothing for JSON lines."""
        return b"" if self.form == "jsonl" else _csv([list(self.declared.schema.names)])

    def drawn(self, count: int) -> bytes:
        """`count` fresh rows."""
        from core.synthesis.encoding import decode_rows

        rows = decode_rows(self.source.sample(count))
        if self.form == "csv":
            return _csv([list(row.values()) for row in rows])
        return b"".join(orjson.dumps(self.declared.written(row)) + b"\n" for row in rows)


def open_rows(path: Path, dimension: int | None, form: Format) -> RowText:
    """The rows of an artifact. `dimension`: of embeddings, which JSON lines hold as lists. Raises ValueError."""
    # imported late: scipy, which a front end without such jobs does not need
    from core.synthesis.declared import DeclaredTable
    from gpu_workers.synthesis.artifact import load_source

    source = load_source(path)
    return RowText(source, DeclaredTable(source.schema, dimension), form)


def _csv(rows: list[list[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
