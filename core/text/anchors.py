"""A fast test for whether a text can contain any of many phrases, which decides whether they are searched for."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import regex  # type: ignore[import-untyped]

_SHORT_CHARS = 3  # shorter parts occur within many words, and so are searched for at the start of words


class Anchors:
    """For each phrase, the longest part that every spelling of it has: a run without spaces and accents."""

    def __init__(self, phrases: Sequence[str]) -> None:
        parts = {max(_parts(phrase), key=len) for phrase in phrases}
        self._long = sorted(part for part in parts if len(part) > _SHORT_CHARS)
        short = sorted(parts - set(self._long), key=len, reverse=True)
        starts = rf"(?<!\p{{L}})(?:{'|'.join(map(regex.escape, short))})"
        self._short = regex.compile(starts) if short else None

    def may_occur(self, text: str) -> bool:
        """Return False only if `text` contains none of the phrases, in any case or spelling."""
        small = text.lower()
        if any(part in small for part in self._long):
            return True
        return self._short is not None and self._short.search(small) is not None


def _parts(phrase: str) -> list[str]:
    """Return the runs that are spelt in one way: no space, and no letter that an accent or digraph replaces."""
    plain = "".join(char if _plain(char) else " " for char in phrase.lower())
    return plain.split() or [phrase.lower()]


def _plain(char: str) -> bool:
    return not char.isspace() and char not in "äöüß" and unicodedata.normalize("NFD", char) == char
