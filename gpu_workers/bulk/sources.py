"""The documents of a bulk release: rows of one or several objects, in parts.

Guarantee: the division into parts is a function of the source and of `part_rows` alone, so every attempt of a job finds
the same parts with the same rows. Text is in memory only. What describes a source (`BulkPart`, `Unreadable`, errors)
contains no text of a row; a part also contains the subjects of its rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from core.errors import JobFailed
from gpu_workers.bulk.readers import (
    LINE_BYTES_MAX,
    Columns,
    Fault,
    Format,
    ObjectBytes,
    Reader,
    Record,
    RowCells,
    UploadedBytes,
    open_reader,
)
from gpu_workers.bulk.stores import StoreAccess, StoredBytes, StoredObject, store_failed
from gpu_workers.jobs.protocol import JobOrder

ID_CHARS_MAX = 128
SUBJECT_CHARS_MAX = 256


class BulkRow(NamedTuple):
    """One document: either `text`, or `sentences` that the caller gives. `number` counts the rows of all objects from
    0, those that are unreadable included."""

    number: int
    text: str | None
    id: str | None
    subject: str | None
    sentences: tuple[str, ...] | None = None


class Unreadable(NamedTuple):
    """A row that has no document, or one that cannot be released, and why: a `Fault`, or what `refused` says."""

    number: int
    reason: str


Refused = Callable[[BulkRow], str | None]


@dataclass(frozen=True)
class BulkPart:
    """Consecutive rows of one object.

    number: of the part, from 0. first_row: the number of its first row. rows: how many, unreadable ones included.
    object: which one, from 0. position: where it begins in the object (`gpu_workers.bulk.readers`).
    subjects: how many readable rows each subject has, without rows that have no subject. unreadable: the other rows.
    """

    number: int
    first_row: int
    rows: int
    object: int
    position: tuple[int, int]
    subjects: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The part as what JSON can hold."""
        return {**vars(self), "position": list(self.position), "unreadable": [list(row) for row in self.unreadable]}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "BulkPart":
        """The part of `as_json`, also after JSON. Raises KeyError, TypeError."""
        group, place = stored["position"]
        unreadable = tuple(Unreadable(*row) for row in stored["unreadable"])
        return cls(**{**stored, "position": (group, place), "unreadable": unreadable})


class BulkSource:
    """Every method raises JobFailed, also if the source has changed since it was scanned.

    An instance keeps one object open and belongs to one thread.
    """

    def __init__(
        self,
        objects: Sequence[ObjectBytes],
        columns: Columns,
        format: Format,
        *,
        chars_max: int,
        refused: Refused = lambda _: None,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        """`chars_max`: of a document. `refused`: why a row cannot be released, as a fixed word, None if it can.
        `line_bytes_max`: of a line of JSON or a record of CSV."""
        self._objects = objects
        self._columns = columns
        self._format: Format = format
        self._chars_max = chars_max
        self._refused = refused
        self._line_bytes_max = line_bytes_max
        self._reader: tuple[int, Reader] | None = None
        self._records: Iterator[Record] = iter(())
        self._next_row: tuple[int, int] | None = None  # the object and the row that `_records` yields next

    @classmethod
    def of_upload(cls, order: JobOrder, columns: Columns, format: Format, **limits: Any) -> "BulkSource":
        """The uploaded data of a job, compressed by gzip or not. `limits`: as above."""
        return cls([UploadedBytes(order)], columns, format, **limits)

    @classmethod
    def of_store(
        cls, access: StoreAccess, objects: Sequence[StoredObject], columns: Columns, format: Format, **limits: Any
    ) -> "BulkSource":
        """Objects of a store in the versions that `find_objects` has found. `limits`: as above."""
        store = access.open()
        return cls([StoredBytes(access, store, each) for each in objects], columns, format, **limits)

    def scan(self, part_rows: int) -> Iterator[BulkPart]:
        """Yield the parts in one pass over all objects. A part has `part_rows` rows, the last one of an object may have
        fewer. An object without rows has no part."""
        number = first_row = 0
        for index in range(len(self._objects)):
            with self._named(index):
                records = self._open(index).records()
            while taken := self._taken(records, part_rows, index):
                rows = self._rows(taken, first_row)
                yield BulkPart(
                    number,
                    first_row,
                    len(rows),
                    index,
                    taken[0][0],
                    dict(Counter(row.subject for row in rows if isinstance(row, BulkRow) and row.subject is not None)),
                    tuple(row for row in rows if isinstance(row, Unreadable)),
                )
                number += 1
                first_row += len(rows)

    def rows(self, part: BulkPart) -> list[BulkRow | Unreadable]:
        """The rows of a part. Parts in their order are read without going back."""
        if self._next_row != (part.object, part.first_row):
            with self._named(part.object):
                self._records = self._open(part.object).records(part.position)
        self._next_row = None
        taken = self._taken(self._records, part.rows, part.object)
        if len(taken) != part.rows or taken[0][0] != part.position:
            raise store_failed("source-changed")
        self._next_row = (part.object, part.first_row + part.rows)
        return self._rows(taken, part.first_row)

    @contextmanager
    def _named(self, index: int) -> Iterator[None]:
        """Says which of several objects an error is about, by its number: names of objects may be private."""
        try:
            yield
        except JobFailed as error:
            if len(self._objects) == 1:
                raise
            said = f"Object {index + 1} of {len(self._objects)}: {error.detail}"
            raise JobFailed(said, reason=error.reason, count=error.count) from None

    def _taken(self, records: Iterator[Record], count: int, index: int) -> list[Record]:
        with self._named(index):
            return list(islice(records, count))

    def _open(self, index: int) -> Reader:
        if self._reader is None or self._reader[0] != index:
            self._reader = None  # releases the memory of the last one first
            data = self._objects[index]
            self._reader = index, open_reader(data, self._format, self._columns, line_bytes_max=self._line_bytes_max)
        return self._reader[1]

    def _rows(self, records: Sequence[Record], first_row: int) -> list[BulkRow | Unreadable]:
        return [self._row(number, cells) for number, (_, cells) in enumerate(records, start=first_row)]

    def _row(self, number: int, cells: RowCells | Fault) -> BulkRow | Unreadable:
        if isinstance(cells, str):
            return Unreadable(number, cells)
        content, id, subject = cells
        if content is None:
            return Unreadable(number, "no-text")
        parts = content if isinstance(content, list) else [content]
        if not all(isinstance(part, str) for part in parts):
            return Unreadable(number, "not-text")
        if sum(map(len, parts)) > self._chars_max:
            return Unreadable(number, "too-long")
        if not any(part and not part.isspace() for part in parts):
            return Unreadable(number, "empty")
        id, subject = _name(id), _name(subject)
        if id is not None and not (isinstance(id, str) and len(id) <= ID_CHARS_MAX):
            return Unreadable(number, "bad-id")
        if subject is None and self._columns.subject is not None:
            return Unreadable(number, "no-subject")
        if subject is not None and not (isinstance(subject, str) and 1 <= len(subject) <= SUBJECT_CHARS_MAX):
            return Unreadable(number, "bad-subject")
        given = isinstance(content, list)
        row = BulkRow(number, None if given else content, id, subject, tuple(content) if given else None)
        reason = self._refused(row)
        return row if reason is None else Unreadable(number, reason)


def _name(value: Any) -> Any:
    """An integer as its digits; anything else as it is. Integers beyond 64 bits are floating-point numbers of JSON."""
    return str(value) if type(value) is int else value
