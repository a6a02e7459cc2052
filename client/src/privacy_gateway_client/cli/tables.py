"""Tables in files: their rows, the faults that a gateway finds in them, and the draft of a schema.

No value is interpreted: the gateway does that, by the schema. A draft follows from the names of columns alone.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from privacy_gateway_client.generated.models import TableFault

_DELIMITERS = (",", ";", "\t", "|")
_SUFFIXES = (".csv", ".tsv")


class TableError(Exception):
    """A file that is no table. The message holds names of columns and numbers of lines, no value."""


@dataclass(frozen=True)
class Table:
    """`rows`: the file of JSON lines itself, or the rows of CSV as texts; of these, `header` has the names of the
    columns, and `lines` where each begins in its file."""

    rows: Any
    header: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    @property
    def is_csv(self) -> bool:
        return not isinstance(self.rows, Path)

    def line(self, number: int) -> int:
        """The line of the file that is meant by a line or row of what was sent."""
        return self.lines[number - 1] if self.lines else number

    @property
    def columns(self) -> list[str]:
        """The names of all columns. Of JSON lines: of all lines, in the order in which they appear first."""
        return self.header or list(dict.fromkeys(name for row in _objects(self.rows) for name in row))

    def column(self, fault: TableFault) -> str | None:
        """The name of the column that a fault is about, or its place where the first row with it has no name for it."""
        if fault.position is None:
            return fault.column
        names = self.header if self.is_csv else list(next(islice(_objects(self.rows), fault.lines[0] - 1, None), ()))
        return names[fault.position - 1] if fault.position <= len(names) else str(fault.position)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The row of each line; an empty one of a line that is no JSON object."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            yield row if isinstance(row, dict) else {}


def table(path: Path) -> Table:
    """The table of a file: CSV (UTF-8, a header, separated by commas, semicolons, tabs or bars), or JSON lines.

    A column without a name, such as an index that pandas wrote, is `column` and its number.

    Raises TableError."""
    if path.suffix.lower() not in _SUFFIXES:
        return Table(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        top = file.readline()
        file.seek(0)
        reader = csv.reader(file, delimiter=max(_DELIMITERS, key=top.count))
        try:
            header = [name or f"column {i}" for i, name in enumerate(next(reader, []), 1)]
            if not header:
                raise TableError(f"{path.name} has no header")
            if len(set(header)) < len(header):
                twice = sorted({name for name in header if header.count(name) > 1})
                raise TableError(f"{path.name} has two columns of the name {', '.join(twice)}")
            rows, lines = [], []
            for line, cells in _records(reader):
                row = dict(zip(header, cells))  # noqa: B905 - the gateway reports a short row
                rows.append(row | {f"column {i}": cell for i, cell in enumerate(cells, 1) if i > len(header) and cell})
                lines.append(line)
        except csv.Error:
            raise TableError(f"line {reader.line_num} of {path.name} is no CSV") from None
    return Table(rows, header, lines)


def _records(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not blank, and the line on which it begins."""
    begins = reader.line_num + 1
    for cells in reader:
        if cells:
            yield begins, cells
        begins = reader.line_num + 1


def described(faults: Sequence[TableFault], of: Table) -> list[str]:
    """The faults of a table in words, a line for each kind."""
    found = []
    for fault in faults:
        more = fault.count - len(fault.lines)
        lines = ", ".join(str(of.line(number)) for number in fault.lines) + (f" and {more} more" if more else "")
        column = of.column(fault)
        text = f"line {lines}: " + (fault.reason if column is None else f"column {column}: {fault.reason}")
        text += f"; permitted: {fault.permitted}" if fault.permitted else ""
        found.append(text + (f"; is it {fault.nearest}?" if fault.nearest else ""))
    return found


PLACEHOLDER = "?"
LEAK = (
    "Fill in each ? from public knowledge: a bound or a list of categories that is read off the private rows leaks"
    " them, and no guarantee covers that."
)
_REQUIRED = {
    "numeric": ("minimum", "maximum"),
    "date": ("minimum", "maximum"),
    "categorical": ("categories",),
    "boolean": (),
    "ignore": (),
}
_WORDS = {
    "ignore": "id uuid guid key email mail phone name iban url",
    "date": "date time day birth birthday born at on since joined created updated datum timestamp",
    "boolean": "is has was can flag active consent subscribed enabled deleted member",
    "numeric": "age amount price cost count total sum income salary balance score rate hours visits spent revenue"
    " weight height quantity distance km kg eur usd number duration minutes seconds year percent size value betrag",
}


def draft(names: Sequence[str], *, label: str | None, ask: Callable[[str], str] | None) -> dict[str, Any]:
    """A schema of columns with these names. `ask`: answers a question; without it, what is not known is a "?"."""
    columns: list[dict[str, Any]] = []
    schema: dict[str, Any] = {"columns": columns, "label": None, "ignore": []}
    for name in names:
        kind = _kind(name) if name != label else "categorical"
        if ask is not None:
            kind = _choice(ask(f"{name}: {', '.join(_REQUIRED)} [{kind}]? ").strip() or kind, kind)
        if kind == "ignore":
            schema["ignore"].append(name)
            continue
        column: dict[str, Any] = {"name": name, "kind": kind}
        for member in _REQUIRED[kind]:
            column[member] = (
                PLACEHOLDER if ask is None else _member(member, kind, ask(f"{name}: {_QUESTIONS[member]}? "))
            )
        if ask is not None and ask(f"{name}: may a value be missing, yes or no [no]? ").strip().lower().startswith("y"):
            column["missing"] = True
        if name == label:
            schema["label"] = column
        else:
            columns.append(column)
    return schema


_QUESTIONS = {
    "minimum": "the least value that is possible, from public knowledge",
    "maximum": "the greatest value that is possible, from public knowledge",
    "categories": "all categories that are possible, from public knowledge, separated by commas",
}


def _choice(answer: str, default: str) -> str:
    return next((kind for kind in _REQUIRED if kind.startswith(answer.lower())), default)


def _member(member: str, kind: str, answer: str) -> Any:
    answer = answer.strip()
    if not answer:
        return PLACEHOLDER
    if member == "categories":
        return [part.strip() for part in answer.split(",") if part.strip()]
    if kind == "date":
        return answer
    try:
        number = float(answer)
    except ValueError:
        return PLACEHOLDER
    return int(number) if number.is_integer() else number


def _kind(name: str) -> str:
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return next((kind for kind, known in _WORDS.items() if set(words) & set(known.split())), "categorical")


def placeholders(schema: dict[str, Any]) -> list[str]:
    """What a draft still leaves open: "amount minimum" for a "?"."""
    every = [*schema.get("columns", ()), schema.get("label")]
    return [
        f"{column.get('name')} {member}"
        for column in every
        if isinstance(column, dict)
        for member, value in column.items()
        if value == PLACEHOLDER and member != "name"
    ]
