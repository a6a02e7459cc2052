"""The format `csv`: every cell is a value, and the name of its column is its label.

The dialect is that of RFC 4180 and Python's `csv`, with a comma, semicolon, tab or pipe between cells. Quotes, line
ends and the order of cells are kept. A replacement that a bare cell cannot hold is put in quotes.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from core.errors import InvalidInput
from core.text.formats.builder import (
    DELIMITERS,
    DROP,
    KEEP,
    NEW_VALUE,
    Action,
    Builder,
    CsvChoices,
    FormatOptions,
    label_of,
    malformed,
    unfit,
)

_LINE_END = re.compile(r"\r\n|\n|\r")
_QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
_NAME_CHARS_MAX = 64
_SAMPLE_ROWS = 20
_SAMPLE_CHARS = 100_000
_NO_ACTION = Action()


class Cell(NamedTuple):
    """Characters `start:end` of a document; of a quoted cell these are between the quotes."""

    start: int
    end: int
    quoted: bool


def rows(source: str, delimiter: str, *, cells_max: int) -> Iterator[list[Cell]]:
    """Yield the cells of each row. Raises InvalidInput for quotes that are not closed, or that end inside a cell, and
    for a longer row."""
    bare = re.compile(rf"[^{re.escape(delimiter)}\r\n]*+")
    at = int(source.startswith("\ufeff"))
    row: list[Cell] = []
    while at < len(source) or row:
        quoted = source.startswith('"', at)
        match = (_QUOTED if quoted else bare).match(source, at)
        if match is None:
            raise malformed("CSV", source, at)
        if len(row) == cells_max:
            raise unfit(f"A row of CSV has at most {cells_max} cells.")
        row.append(Cell(at + quoted, match.end() - quoted, quoted))
        at = match.end()
        if source.startswith(delimiter, at):
            at += 1
            continue
        line_end = _LINE_END.match(source, at)
        if line_end is None and at < len(source):
            raise malformed("CSV", source, at)
        at = line_end.end() if line_end else at
        yield row
        row = []


def read(builder: Builder, options: FormatOptions) -> None:
    """Add the cells of the document. Raises InvalidInput if it is not CSV, or lacks the column of a rule."""
    source = builder.source
    delimiter = DELIMITERS[options.csv.delimiter] or _delimiter(source)
    every = rows(source, delimiter, cells_max=builder.limits.values_max)
    first = next(every, [])
    second = next(every, None)
    names = [source[cell.start : cell.end].strip() for cell in first]
    header = options.csv.header == "yes" or (
        options.csv.header == "auto"
        and second is not None
        and all(map(_is_name, names))
        and len(set(names)) == len(names)
    )
    actions = _actions(options.csv, names if header else [])
    labels = [label_of(name) for name in names] if header else []
    width = max(len(first), len(second or ()))
    if not header:
        _add(builder, first, labels, actions)
    elif options.csv.header == "auto":
        _add(builder, first, [], {})
    if second is not None:
        _add(builder, second, labels, actions)
    for row in every:
        width = max(width, len(row))
        _add(builder, row, labels, actions)
    if any(column >= width for column in actions):
        raise InvalidInput("A column of a rule is not in the document.", field="format_options.csv.columns")


def _add(builder: Builder, row: list[Cell], labels: list[str], actions: Mapping[int, Action]) -> None:
    for column, cell in enumerate(row):
        action = actions.get(column, _NO_ACTION)
        if action.action == DROP:
            builder.cut(cell.start - cell.quoted, cell.end + cell.quoted, '""')
        elif action.action != KEEP:
            before = NEW_VALUE + (labels[column] if column < len(labels) else "")
            codec = "csv_quoted" if cell.quoted else "csv_bare"
            builder.value(cell.start, cell.end, codec, before=before, kind=action.type)


def _actions(options: CsvChoices, names: list[str]) -> dict[int, Action]:
    actions: dict[int, Action] = {}
    for column, action in options.columns:
        if isinstance(column, int):
            actions.setdefault(column, action)
        elif column in names:
            actions.setdefault(names.index(column), action)
        else:
            raise InvalidInput(
                "A column of a rule is not in the document's header.", field="format_options.csv.columns"
            )
    return actions


def _is_name(cell: str) -> bool:
    digits = sum(map(str.isdigit, cell))
    return (
        0 < len(cell) <= _NAME_CHARS_MAX and "@" not in cell and any(map(str.isalpha, cell)) and digits * 3 <= len(cell)
    )


def _delimiter(source: str) -> str:
    """Return the delimiter that gives the first rows the same number of cells, the most of them; else a comma."""
    best, chosen = 1, ","
    sample = source[:_SAMPLE_CHARS]
    for delimiter in filter(None, DELIMITERS.values()):
        try:
            widths = {len(row) for row in islice(rows(sample, delimiter, cells_max=_SAMPLE_CHARS), _SAMPLE_ROWS)}
        except InvalidInput:
            continue
        if len(widths) == 1 and (width := widths.pop()) > best:
            best, chosen = width, delimiter
    return chosen
