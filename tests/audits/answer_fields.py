"""The table of what answers hold (`answer_fields.toml`), and the fields of an answer that it lacks."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from audits.answers_sent import Sent

VERDICTS = ("public", "released", "uncovered")
_TABLE = Path(__file__).with_name("answer_fields.toml")
_BLOCK = "block "
_EVERYTHING = "**"


@dataclass(frozen=True)
class Field:
    """A row: a path, which may hold `*` and `**`, and why what it names may be shown."""

    path: str
    verdict: str
    reason: str

    def names(self, leaf: str) -> bool:
        parts = re.split(r"(\*\*|\*)", self.path)
        pattern = "".join({"**": ".*", "*": r"[^.]+"}.get(part, re.escape(part)) for part in parts)
        return re.fullmatch(pattern, leaf) is not None

    @property
    def is_everything(self) -> bool:
        return self.path.endswith(_EVERYTHING)


@cache
def table() -> Mapping[str, tuple[Field, ...]]:
    """The rows of each operation and each block, those of its headers and its problems not included."""
    sections: dict[str, dict[str, Any]] = tomllib.loads(_TABLE.read_text())
    found: dict[str, tuple[Field, ...]] = {}
    for name, section in sections.items():
        if section.keys() - {*VERDICTS, "also", "with"}:
            raise ValueError(f"unknown words in {name}")
        for operation in (name, *section.get("also", ())):
            if operation in found:
                raise ValueError(f"{operation} has two sections")
            found[operation] = tuple(_rows(sections, section))
    return found


def _rows(sections: Mapping[str, dict[str, Any]], section: dict[str, Any]) -> Iterator[Field]:
    for verdict in VERDICTS:
        for path, reason in section.get(verdict, {}).items():
            yield Field(path, verdict, reason)
    for place, block in section.get("with", {}).items():
        for row in _rows(sections, sections[_BLOCK + block]):
            yield Field(f"{place}.{row.path}" if place else row.path, row.verdict, row.reason)


def operations() -> set[str]:
    """The operations of the table; one with and without a price counts once."""
    return {name.partition(" (")[0] for name in table() if not name.startswith(_BLOCK)}


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all numbers, texts, flags and nulls. An empty list or object has none."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path


def unlisted(answer: Sent) -> list[str]:
    """The headers and fields of an answer that have no row, sorted."""
    rows = [
        *table()["block headers"],
        *(table()["block problem"] if answer.status >= 400 else table()[answer.operation]),
    ]
    shown = {f"header {name}" for name in answer.headers} | set(leaves(answer.body))
    return sorted(leaf for leaf in shown if not any(row.names(leaf) for row in rows))
