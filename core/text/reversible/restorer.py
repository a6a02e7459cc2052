"""Restores the surrogates in a text that comes in pieces."""

from __future__ import annotations

from core.text.reversible.key_tree import KeyFinder
from core.text.reversible.mapping import Mapping, restored


class Restorer:
    """Restores one text. Guarantee: the results together are what `Mapping.restore` gives for the whole text, however
    it is cut. Only the end of the text that may still become a surrogate is held back."""

    def __init__(self, mapping: Mapping) -> None:
        self._finder = KeyFinder(mapping.tree)

    def feed(self, chunk: str) -> str:
        """Take the next piece of the text. Return what can be told of the restored text."""
        return "".join(map(restored, self._finder.feed(chunk)))

    def end(self) -> str:
        """Return what was held back. Nothing may be fed afterwards."""
        return "".join(map(restored, self._finder.end()))
