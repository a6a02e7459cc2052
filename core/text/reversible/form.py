"""One form in which a value may be written again (`core.text.reversible.forms` makes them)."""

from __future__ import annotations

from typing import NamedTuple

WHOLE, PART, CASE, PART_CASE, INFLECTION, BARE = range(6)  # ranks: of two forms that are equal, the lower one is meant


class Form(NamedTuple):
    rank: int
    written: str
    other: str  # the same form of the other value

    def __repr__(self) -> str:
        return f"Form({self.rank})"
