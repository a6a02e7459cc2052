"""Where the filled regions come from, and which finds were suppressed: what explains an answer.

Origins are stored as arrays, as spans are (`core.text.spans`). Suppressed finds are few: their number is limited.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

OVERLAPPED = "overlapped"  # a longer or stronger find covers a part of it, or all
BELOW_THRESHOLD = "below_threshold"
NO_CONTEXT = "no_context"  # below the threshold, which a context word nearby would have raised it to
ALLOW_LISTED = "allow_listed"  # within a term of an allow list
RULES = (OVERLAPPED, BELOW_THRESHOLD, NO_CONTEXT, ALLOW_LISTED)


class Origin(NamedTuple):
    """The region [start, end) of the text **as sent**, in code points, that became one span of the output.

    score: of the recogniser, 0 to 1; 0 for a word list. recogniser: its name; empty for a word list.
    """

    start: int
    end: int
    score: float
    recogniser: str


@dataclass(frozen=True)
class Origins(Sequence[Origin]):
    """A sequence of `Origin`, with scores as 32-bit floats."""

    edges: array[int]
    scores: array[float]
    numbers: array[int]
    recognisers: tuple[str, ...]

    @classmethod
    def of(cls, origins: Iterable[Origin]) -> Origins:
        edges, scores, numbers = array("q"), array("f"), array("H")
        names: dict[str, int] = {}
        for start, end, score, recogniser in origins:
            edges.append(start)
            edges.append(end)
            scores.append(score)
            numbers.append(names.setdefault(recogniser, len(names)))
        return cls(edges, scores, numbers, tuple(names))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Origin: ...
    @overload
    def __getitem__(self, index: slice) -> list[Origin]: ...
    def __getitem__(self, index: int | slice) -> Origin | list[Origin]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        edges = self.edges[2 * place], self.edges[2 * place + 1]
        return Origin(*edges, self.scores[place], self.recognisers[self.numbers[place]])

    def __iter__(self) -> Iterator[Origin]:
        return map(self.__getitem__, range(len(self)))


class SuppressedFind(NamedTuple):
    """A find that did not become a region of its own.

    start, end: the region of the text as sent, in code points. rule: one of `RULES`. by: the type of the find that
    covers it, for `overlapped`.
    """

    start: int
    end: int
    type: str
    score: float
    recogniser: str
    rule: str
    by: str | None = None


class SuppressedFinds(NamedTuple):
    """`finds` in order of position, and the number of those `left_out` because of a limit, which have lower scores."""

    finds: tuple[SuppressedFind, ...] = ()
    left_out: int = 0
