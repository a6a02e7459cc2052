"""The form of a document: where its values are, and the text that recognisers read instead of the document.

This text, the **view**, holds the values of the document in order, each after its label (a key, a column, a header).
Recognisers, taggers and fills work on the view as on any other text. `Form.restrict` limits their masks to values, and
`Form.rebuild` writes the fills into the source. Hence a value is replaced consistently in the whole document, and
everything that is no masked value keeps its source, character for character. `FormRegions` says where finds of the view
are in the source.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from core.text.formats.codecs import CODECS, Codec, Transfer
from core.text.policy import Mask, Span
from core.text.recogniser import BOUNDARY
from core.text.segment import HIDDEN, INVISIBLE, Token

# A run of them is read once, because no find begins inside a run.
_AT_EDGES = re.compile(rf"\A{INVISIBLE}++|(?<!{INVISIBLE}){INVISIBLE}++\Z")
# Not characters of a text: halves of a surrogate pair, NUL, and the boundary of values.
_NO_TEXT = re.compile(rf"[\ud800-\udfff\x00{BOUNDARY}]")
_REPLACEMENT = "\ufffd"


def read_value(codec: Codec, raw: str) -> tuple[str, Sequence[int]]:
    """Return what `codec` reads, as `core.text.segment` shows it, and the places of its characters and of its end.

    Invisible characters at the edges are left out, so that values that follow one another directly hide none.
    """
    text, places = codec.read(raw)
    if text.isascii():
        return (text.replace("\x00", _REPLACEMENT) if "\x00" in text else text), places
    text = _NO_TEXT.sub(_REPLACEMENT, text)
    for pattern in (_AT_EDGES, HIDDEN):
        text, places = _without(pattern, text, places)
    return text, places


def _without(pattern: re.Pattern[str], text: str, places: Sequence[int]) -> tuple[str, Sequence[int]]:
    if pattern.search(text) is None:
        return text, places
    pieces: list[str] = []
    kept: list[int] = []
    read = 0
    for match in pattern.finditer(text):
        pieces.append(text[read : match.start()])
        kept.extend(places[read : match.start()])
        read = match.end()
    pieces.append(text[read:])
    # The end is that of the last character which is kept, so that what follows it stays.
    kept.extend(places[read:-1] if read < len(text) else ())
    end = places[-1] if read < len(text) else places[len(text) - len(match.group())]
    return "".join(pieces), [*kept, end]


RULE = "rule"  # the technique of a mask that a rule asks for
CODEC_NAMES = tuple(CODECS)

_Change = tuple[int, Sequence[tuple[Mask, str]]]  # a place, and its masks with their fills


@dataclass(frozen=True)
class SourceBlock:
    """Characters `start:end` of the source, which are `content` in another encoding. Places `first:last` are in it."""

    start: int
    end: int
    content: str = field(repr=False)
    transfer: Transfer
    first: int
    last: int


class Rebuilt(NamedTuple):
    """A text with filled regions: `spans` of it, and the mask that each of them fills."""

    text: str
    spans: list[Span]
    masks: list[Mask]


@dataclass(frozen=True)
class Form:
    """Place i is `starts[i]:ends[i]` of the source, or of its block's content, and `view_starts[i]:view_ends[i]` of the
    view. Places are disjoint, and in the order of the view.

    codecs: the place in `CODEC_NAMES` of each codec. types: the places that are masked as a whole, with their types.
    cuts: the places that are replaced by a fixed source. They are not in the view.
    """

    source: str = field(repr=False)
    view: str = field(repr=False)
    starts: array[int] = field(repr=False)
    ends: array[int] = field(repr=False)
    view_starts: array[int] = field(repr=False)
    view_ends: array[int] = field(repr=False)
    codecs: array[int] = field(repr=False)
    types: Mapping[int, str]
    cuts: Mapping[int, str] = field(repr=False)
    blocks: Sequence[SourceBlock] = field(repr=False)

    def tokens(self, tokens: Iterable[Token]) -> list[Token]:
        """Return the parts of `tokens`, words of the view, that are in values."""
        return [Token(start, end) for token in tokens for _, start, end in self.parts(token.start, token.end)]

    def restrict(self, masks: Sequence[Mask]) -> list[Mask]:
        """Return the masks of values: the parts of `masks` that are in values, and the values that a rule masks.

        A part without a letter or digit is dropped. A number is masked as a whole.
        """
        own = [Mask(self.view_starts[at], self.view_ends[at], kind, RULE) for at, kind in self.types.items()]
        for mask in masks:
            for at, start, end in self.parts(mask.start, mask.end):
                part = self.view[start:end]
                if at in self.types or not any(map(str.isalnum, part)):
                    continue
                if self.codec(at).whole:
                    start, end = self.view_starts[at], self.view_ends[at]
                elif end - start < mask.end - mask.start:
                    start, end = end - len(part.lstrip()), start + len(part.rstrip())
                own.append(replace(mask, start=start, end=end))
        disjoint: list[Mask] = []
        for mask in sorted(own, key=lambda each: each.start):
            if not disjoint or mask.start >= disjoint[-1].end:
                disjoint.append(mask)
        return disjoint

    def rebuild(self, masks: Sequence[Mask], fills: Sequence[str]) -> Rebuilt:
        """Return the source with its values filled.

        `masks`: as `restrict` returns them, with one of `fills` each.
        """
        changes = list(self._changes(masks, fills))
        out = _Output()
        read, at = 0, 0
        for block in self.blocks:
            own: list[_Change] = []
            while at < len(changes) and changes[at][0] < block.last:
                own.append(changes[at])
                at += 1
            if own:
                out.add(self.source[read : block.start])
                inner = _Output()
                self._write(inner, block.content, sorted(own, key=lambda change: self.starts[change[0]]))
                out.add_block(block.transfer, inner)
                read = block.end
        out.add(self.source[read:])
        return Rebuilt("".join(out.pieces), out.spans, out.masks)

    def in_source_order(self, masks: Sequence[Mask]) -> list[Mask]:
        """Return `masks`, as `restrict` returns them, in the order of their places in the source."""

        def place(mask: Mask) -> tuple[int, int, int]:
            at = bisect_right(self.view_ends, mask.start)
            return self.block(at).start, self.starts[at], mask.start

        return sorted(masks, key=place)

    def block(self, at: int) -> SourceBlock:
        """Return the block of a place."""
        return self.blocks[bisect_right(self.blocks, at, key=lambda each: each.first) - 1]

    def parts(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield each place that `start:end` of the view touches, with what of the view it touches."""
        at = bisect_right(self.view_ends, start)
        while at < len(self.view_starts) and self.view_starts[at] < end:
            first, last = max(start, self.view_starts[at]), min(end, self.view_ends[at])
            if first < last:
                yield at, first, last
            at += 1

    def codec(self, at: int) -> Codec:
        """Return the codec of a place."""
        return CODECS[CODEC_NAMES[self.codecs[at]]]

    def _changes(self, masks: Sequence[Mask], fills: Sequence[str]) -> Iterator[_Change]:
        filled = zip(masks, fills, strict=True)
        places = groupby(filled, key=lambda each: bisect_right(self.view_ends, each[0].start))
        changes: dict[int, Sequence[tuple[Mask, str]]] = {at: list(own) for at, own in places}
        changes.update((at, []) for at in self.cuts)
        yield from sorted(changes.items())

    def _write(self, out: _Output, content: str, changes: Sequence[_Change]) -> None:
        read = 0
        for at, filled in changes:
            start, end = self.starts[at], self.ends[at]
            out.add(content[read:start])
            if at in self.cuts:
                out.add(self.cuts[at])
            else:
                self._write_value(out, at, content, filled)
            read = end
        out.add(content[read:])

    def _write_value(self, out: _Output, at: int, content: str, filled: Sequence[tuple[Mask, str]]) -> None:
        codec, base = self.codec(at), self.starts[at]
        raw = content[base : self.ends[at]]
        _, places = read_value(codec, raw)
        written = codec.written(raw, [fill for _, fill in filled])
        out.add(written.before)
        read = 0
        for mask, fill in filled:
            first, last = mask.start - self.view_starts[at], mask.end - self.view_starts[at]
            start = max(read, places[first])
            out.add(written.keep(raw[read:start]))
            # Several characters may have one place, as an entity of two characters has.
            while places[last] <= places[last - 1] and last + 1 < len(places):
                last += 1
            read = max(start, places[last])
            out.add(written.guard(written.write(fill), content[base + read : base + read + 1]), mask)
        out.add(written.keep(raw[read:]))
        out.add(written.after)


class _Output:
    """Pieces of an output, and the spans of those that fill a mask."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.spans: list[Span] = []
        self.masks: list[Mask] = []
        self._length = 0

    def add(self, piece: str, mask: Mask | None = None) -> None:
        start = self._length
        self.pieces.append(piece)
        self._length += len(piece)
        if mask is not None:
            self.spans.append(Span(start, self._length, mask.type, mask.technique))
            self.masks.append(mask)

    def add_block(self, transfer: Transfer, inner: _Output) -> None:
        """Add a block. In one that is encoded as a whole, each span covers all of it."""
        start = self._length
        self.add(transfer.encode("".join(inner.pieces)))
        self.masks += inner.masks
        for span in inner.spans:
            ends = (self._length, start) if transfer.encoded else (start + span.end, start + span.start)
            self.spans.append(span._replace(start=ends[1], end=ends[0]))


class FormRegions:
    """Maps regions of the view to regions of the source. In a block that is encoded as a whole, the region is the
    block. Regions in ascending order take time linear in the source."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._read: tuple[int, Sequence[int]] | None = None  # a place, and where its characters are

    def region(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the smallest region with all characters of values in [start, end); None if there are none."""
        found = [self._source(*part) for part in self._form.parts(start, end)]
        return (min(first for first, _ in found), max(last for _, last in found)) if found else None

    def _source(self, at: int, start: int, end: int) -> tuple[int, int]:
        form = self._form
        block = form.block(at)
        if block.transfer.encoded:
            return block.start, block.end
        if self._read is None or self._read[0] != at:
            raw = block.content[form.starts[at] : form.ends[at]]
            self._read = at, read_value(form.codec(at), raw)[1]
        places, base = self._read[1], block.start + form.starts[at]
        first, last = start - form.view_starts[at], end - form.view_starts[at]
        # Several characters may have one place, as an entity of two characters has.
        while places[last] <= places[last - 1] and last + 1 < len(places):
            last += 1
        return base + places[first], base + places[last]
