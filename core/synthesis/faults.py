"""The faults of a table, all at once and bounded: which rows cannot be used, in which column, and what is permitted.

No fault contains a value of a row, or the name of a column that is not declared: an undeclared column is its place in
the row and, if there is one, the declared name that is most like it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from core.synthesis.columns import NAME_CHARS_MAX, Column
from core.synthesis.schema import DeclaredTable

KINDS_MAX: Final = 50
LINES_MAX: Final = 5
COUNTED_MAX: Final = 100_000
_COMPARED_CHARS_MAX: Final = 64  # of a name; to compare two takes the square of their length in time
_ABSENT = ("missing-column", "A row has all declared columns.")
_MESSAGES = {
    "missing": "The value is missing; a column permits it with `missing` in its declaration.",
    "not-a-number": "A number is expected.",
    "not-finite": "A finite number is expected.",
    "not-whole": "A whole number is expected.",
    "not-a-date": "A date is expected.",
    "unexpected-offset": "A date without an offset from UTC is expected, because the declared bounds have none.",
    "outside-bounds": "A number lies outside its declared bounds.",
    "unknown-category": "A declared category is expected.",
}


@dataclass
class Fault:
    """One kind of fault: `count` rows have it, `lines` are the first of them, in order.

    `place`: of a declared column in the schema; `column`: its name; `position`: of an unknown column in its row, from
    1; `nearest`: the declared name that is most like the unknown one.
    """

    reason: str
    message: str
    place: str | None = None
    column: str | None = None
    position: int | None = None
    nearest: str | None = None
    permitted: str | None = None
    lines: list[int] = field(default_factory=list)
    count: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the fault as a problem document has it."""
        members = ("reason", "column", "position", "nearest", "permitted", "lines", "count")
        return {name: value for name in members if (value := getattr(self, name)) is not None}


class Faults:
    """The faults of one table: the first 50 kinds, and of each the first five lines and the number of rows."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | int | None], Fault] = {}
        self._counted = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def are_enough(self) -> bool:
        """Whether so many were counted that reading further rows would only cost time."""
        return self._counted >= COUNTED_MAX

    @property
    def first(self) -> Fault:
        """The fault with the first line."""
        return min(self._found.values(), key=lambda fault: fault.lines[0])

    def as_json(self) -> list[dict[str, Any]]:
        """Return all faults as a problem document has them, in the order of their first lines."""
        return [fault.as_json() for fault in sorted(self._found.values(), key=lambda fault: fault.lines[0])]

    def add(self, reason: str, line: int, message: str) -> None:
        """Add a row that cannot be used at all."""
        self._count((reason, None), line, lambda: Fault(reason, message))

    def add_value(self, reason: str, line: int, column: Column, place: str) -> None:
        """Add a value that its column does not read."""
        self._count(
            (reason, place),
            line,
            lambda: Fault(reason, _MESSAGES[reason], place, column.name, permitted=column.permitted),
        )

    def add_names(self, row: Mapping[str, Any], line: int, declared: DeclaredTable) -> None:
        """Add the declared columns that a row does not have, and those that are not declared."""
        known = {*declared.schema.names, *declared.ignore}
        absent = [name for name in declared.schema.names if name not in row]
        for name in absent:
            self._count(("missing-column", name), line, partial(Fault, *_ABSENT, column=name))
        for position, name in enumerate(row, start=1):
            if name not in known:
                self._count(("unknown-column", position), line, partial(_unknown, name, position, absent))

    def _count(self, key: tuple[str, str | int | None], line: int, make: Callable[[], Fault]) -> None:
        self._counted += 1
        fault = self._found.get(key)
        if fault is None:
            if len(self._found) >= KINDS_MAX:
                return
            fault = self._found[key] = make()
        fault.count += 1
        if len(fault.lines) < LINES_MAX:
            fault.lines.append(line)


def _unknown(name: str, position: int, absent: Sequence[str]) -> Fault:
    """The fault of an unknown column, with the most similar of the absent ones, whatever the case."""
    folded = {_compared(other): other for other in absent}
    near = get_close_matches(_compared(name), folded, n=1)
    message = "A row has no other columns than those that are declared or ignored."
    return Fault("unknown-column", message, position=position, nearest=folded[near[0]] if near else None)


def _compared(name: str) -> str:
    return name[:NAME_CHARS_MAX].casefold().strip()[:_COMPARED_CHARS_MAX]
