"""The filled regions of an output text, stored as arrays.

A text may have as many regions as words. As objects, they would take most of the time of sending a result from a worker
to the gateway, and hundreds of bytes each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload


class Span(NamedTuple):
    """One filled region [start, end) of the **output** text."""

    start: int
    end: int
    type: str
    technique: str


@dataclass(frozen=True)
class Spans(Sequence[Span]):
    """A sequence of `Span`. Region i is `edges[2 * i] : edges[2 * i + 1]`, of the type and technique
    `kinds[numbers[i]]`."""

    edges: array[int]
    numbers: array[int]
    kinds: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Spans:
        edges, numbers = array("q"), array("H")
        kinds: dict[tuple[str, str], int] = {}
        for start, end, kind, technique in spans:
            edges.append(start)
            edges.append(end)
            numbers.append(kinds.setdefault((kind, technique), len(kinds)))
        return cls(edges, numbers, tuple(kinds))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Span: ...
    @overload
    def __getitem__(self, index: slice) -> list[Span]: ...
    def __getitem__(self, index: int | slice) -> Span | list[Span]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return Span(self.edges[2 * place], self.edges[2 * place + 1], *self.kinds[self.numbers[place]])

    def __iter__(self) -> Iterator[Span]:
        return map(self.__getitem__, range(len(self)))
