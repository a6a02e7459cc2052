"""The text that recognisers read."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

# Invisible characters between visible ones: soft hyphens, joiners, marks of direction, variation selectors, tags.
# They would split a number or an address for a recogniser, but not for a reader. In other places (emoji, scripts that
# join, the ends of a line) they have a meaning and stay. The pattern begins with the class of invisible characters
# because a search for a rare character is fast.
INVISIBLE = (
    r"[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e0fff]"
)
# ASCII, spaces, digits of any script, and letters of scripts that do not join: Latin, Greek, Cyrillic.
_BESIDE = r"[ -~\u00a0\u2007\u2009\u202f\d\u00c0-\u02af\u0370-\u052f]"
HIDDEN = re.compile(rf"{INVISIBLE}(?<={_BESIDE}{INVISIBLE}){INVISIBLE}*+(?={_BESIDE})")


def visible(text: str) -> str:
    """Return the text without invisible characters inside visible ones: the text that inspection and taggers use."""
    return text if text.isascii() else HIDDEN.sub("", text)


class Regions(Protocol):
    """Maps regions of the text that recognisers read to regions of the text as the caller sent it."""

    def region(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the region for the non-empty region [start, end); None if the caller sent none of it."""


@dataclass(frozen=True)
class SentText:
    """Maps places of `visible(text)` to places of `text`, the text as the caller sent it."""

    places: tuple[int, ...] = field(default=())  # of visible characters after removed ones
    shifts: tuple[int, ...] = field(default=())  # how many characters were removed before each of those

    @classmethod
    def of(cls, text: str) -> SentText:
        places: list[int] = []
        shifts: list[int] = []
        removed = 0
        for hidden in () if text.isascii() else HIDDEN.finditer(text):
            places.append(hidden.start() - removed)
            removed += hidden.end() - hidden.start()
            shifts.append(removed)
        return cls(tuple(places), tuple(shifts))

    def region(self, start: int, end: int) -> tuple[int, int]:
        """Return the region of the sent text for the non-empty region [start, end) of the visible text."""
        return self._at(start), self._at(end - 1) + 1

    def _at(self, place: int) -> int:
        number = bisect_right(self.places, place)
        return place + self.shifts[number - 1] if number else place


def hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `text` that `visible` leaves out, in order."""
    if not text.isascii():
        yield from (match.span() for match in HIDDEN.finditer(text))
