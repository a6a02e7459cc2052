"""Restores the surrogates in a text that comes in pieces."""

from __future__ import annotations

from typing import NamedTuple

from core.text.reversible.encodings import encoded_as
from core.text.reversible.key_tree import KeyFinder, KeyTree, Piece

WHOLE, PART, CASE, PART_CASE, INFLECTION, BARE = range(6)  # ranks: of two forms that are equal, the lower one is meant


class Form(NamedTuple):
    rank: int
    written: str
    other: str  # the same form of the other value

    def __repr__(self) -> str:
        return f"Form({self.rank})"


def restored(piece: Piece) -> str:
    """Return what a piece of a text becomes."""
    form: Form | None = piece.value
    if form is None:
        return piece.raw
    return form.other if piece.raw == form.written else encoded_as(piece.raw, form.written, form.other)


class Restorer:
    """Restores one text. Guarantee: the results together are what `Mapping.restore` gives for the whole text, however
    it is cut. Only the end of the text that may still become a surrogate is held back."""

    def __init__(self, tree: KeyTree) -> None:
        self._finder = KeyFinder(tree)

    def feed(self, chunk: str) -> str:
        """Take the next piece of the text. Return what is certain of the restored text."""
        return "".join(map(restored, self._finder.feed(chunk)))

    def end(self) -> str:
        """Return what was held back. Nothing may be fed afterwards."""
        return "".join(map(restored, self._finder.end()))
