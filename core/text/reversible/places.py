"""Where the texts of a conversation are replaced: in the regions that were found, and wherever else a value stands."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.reversible.draws import Value
from core.text.reversible.encodings import encoded_as
from core.text.reversible.forms import PERSON, in_small_letters, is_marker, joined, letter_cases, parts_of
from core.text.reversible.frequent import is_frequent
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.lexing import OTHER, Lexed, kind, lex
from core.text.reversible.masked import Region

_NAMES = (PERSON, "LOCATION", "ORGANIZATION")
_LINE_BREAK = regex.compile(r"[^\S\r\n]*+(?:[\r\n]|\\[nrt](?![a-z]))\s*+")  # also as an escape of a code string


class Writing(NamedTuple):
    """A value in one of its letter cases, `written`. `change` makes them."""

    value: Value
    written: str
    change: Callable[[str], str] = str

    def __repr__(self) -> str:
        return f"Writing({self.value})"


class Place(NamedTuple):
    """Code points [start, end) of a text, which are `raw`: a value in some writing and encoding."""

    start: int
    end: int
    raw: str
    writing: Writing

    def __repr__(self) -> str:
        return f"Place({self.start}, {self.end}, {self.writing})"

    def filled(self, surrogate: str) -> str:
        """Return the surrogate in the writing and the encoding of the place. A marker has one writing."""
        if is_marker(self.writing.value.type, surrogate):
            return surrogate
        changed = self.writing.change(surrogate)
        return changed if self.raw == self.writing.written else encoded_as(self.raw, self.writing.written, changed)

    def as_one_of(self, values: Mapping[str, Value]) -> Place:
        """Return the place with the value whose original it has, if there is one."""
        value = values.get(self.raw)
        return self if value is None else self._replace(writing=Writing(value, self.raw))


class Source:
    """A text and its tokens: where each begins, and where the last one ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lexed = lex(text)
        self.starts = [0, *accumulate(map(len, self.lexed.raws))]

    def kept(self, places: Sequence[Place]) -> Iterator[list[str]]:
        """Yield the tokens before, between and after places."""
        read = 0
        for place in places:
            yield self.lexed.tokens[read : bisect_left(self.starts, place.start)]
            read = bisect_left(self.starts, place.end)
        yield self.lexed.tokens[read:]

    def widened(self, region: Region, tokens: int = 0) -> Region | None:
        """Return the region with whole tokens, and so many more on each side, without white space at its edges; None
        if nothing is left. More tokens may begin or end with an escape of white space."""
        own = self.lexed.raws if tokens else self.lexed.tokens
        if region.start >= region.end:
            return None
        first = max(bisect_right(self.starts, region.start) - 1 - tokens, 0)
        last = min(bisect_right(self.starts, region.end - 1) + tokens, len(own))
        while first < last and own[first].isspace():
            first += 1
        while first < last and own[last - 1].isspace():
            last -= 1
        return Region(self.starts[first], self.starts[last], region.type) if first < last else None


def lines_of(text: str, region: Region) -> Iterator[Region]:
    """Yield a region, that of a name line by line: a town and a person on two lines are two values, and a model may
    write either alone, or both in an encoding of its own."""
    at = max(region.start, 0)
    if region.type in _NAMES:
        for found in _LINE_BREAK.finditer(text, at, region.end):
            if at < found.start():
                yield Region(at, found.start(), region.type)
            at = found.end()
    if at < region.end:
        yield Region(at, region.end, region.type)


def disjoint(regions: Iterable[Region]) -> list[Region]:
    """Return regions in order. Those that overlap become one, with the type of the longest."""
    found: list[Region] = []
    longest = 0
    for region in sorted(regions):
        size = region.end - region.start
        if found and region.start < found[-1].end:
            type_ = region.type if size > longest else found[-1].type
            found[-1] = Region(found[-1].start, max(found[-1].end, region.end), type_)
            longest = max(longest, size)
        else:
            found.append(region)
            longest = size
    return found


def writings(values: Iterable[Value], language: str) -> KeyTree:
    """Return what finds values in a text: as they are, in all capitals, and, unless they are frequent words, in small
    letters; and the parts of persons' names that are words of their own."""
    keys: dict[str, Writing] = {}
    listed = list(values)
    parts = [Value(PERSON, part) for value in listed if value.type == PERSON for part in parts_of(value.original)]
    for group in (listed, parts):
        for value in group:
            keys.setdefault(value.original, Writing(value, value.original))
        for value in group:
            for written, change in letter_cases(value.type, value.original):
                if not (in_small_letters(written) and is_frequent(written, language)):
                    keys.setdefault(written, Writing(value, written, change))
            for written, change in joined(value.original) if value.type == PERSON else ():
                keys.setdefault(written, Writing(value, written, change))
    return KeyTree(keys, accepts=_searched)


def _searched(tokens: list[str]) -> bool:
    """Whether a value is replaced where it was not found: not punctuation, nor what white space belongs to."""
    return any(kind(token) != OTHER for token in tokens) and not tokens[0].isspace() and not tokens[-1].isspace()


def places_of(source: Source, regions: Sequence[Region], tree: KeyTree) -> list[Place]:
    """Return the places of a text that are replaced, in order. `regions`: disjoint, of whole tokens."""
    text = source.text
    found = list(_found(text, 0, len(text), tree, source.lexed))
    if not regions:
        return found
    own = [
        Place(region.start, region.end, original, Writing(Value(region.type, original), original))
        for region in regions
        for original in [text[region.start : region.end]]
    ]
    fixed = _with_containing(own, found)
    if {(place.start, place.end) for place in fixed} <= {(place.start, place.end) for place in found}:
        by_place = {place.start: place for place in fixed}
        return [by_place.get(place.start, place) for place in found]
    places: list[Place] = []
    read = 0
    for place in fixed:
        places += _found(text, read, place.start, tree)
        places.append(place)
        read = place.end
    places += _found(text, read, len(text), tree)
    return places


def _found(text: str, start: int, end: int, tree: KeyTree, lexed: Lexed | None = None) -> Iterator[Place]:
    if start >= end:
        return
    at = start
    for piece in tree.find(text[start:end], lexed):
        if piece.value is not None:
            yield Place(at, at + len(piece.raw), piece.raw, piece.value)
        at += len(piece.raw)


def _with_containing(regions: list[Place], found: list[Place]) -> list[Place]:
    """Return the places of the regions. A longer value that was found around one, or around several, is taken instead:
    `Anna Kowalska` where the region is `Anna`. So is one with escapes, since a surrogate is written with them, too."""
    fixed: list[Place] = []
    at = 0
    for place in found:
        while at < len(regions) and regions[at].end <= place.start:
            fixed.append(regions[at])
            at += 1
        last = at
        while last < len(regions) and regions[last].end <= place.end:
            last += 1
        inside = at < last and place.start <= regions[at].start
        overlaps_next = last < len(regions) and regions[last].start < place.end
        longer = inside and place.end - place.start > regions[at].end - regions[at].start
        if inside and not overlaps_next and (longer or place.raw != place.writing.written):
            fixed.append(place)
        else:
            fixed += regions[at:last]
        at = last
    return fixed + regions[at:]
