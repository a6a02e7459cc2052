"""What is masked in the texts of a conversation, and the result.

This module is light, so that a process without lists of names may receive a result.
"""

from __future__ import annotations

from typing import NamedTuple

from core.text.reversible.mapping import Mapping


class Region(NamedTuple):
    """Code points [start, end) of a text that are replaced as a value of the type."""

    start: int
    end: int
    type: str


class Filled(NamedTuple):
    """Code points [start, end) of a masked text, which stand for [original_start, original_end) of the text."""

    start: int
    end: int
    type: str
    original_start: int
    original_end: int


class MaskedConversation(NamedTuple):
    """`texts`: in the order of the conversation. `filled`: the places of each that were replaced, in order. `mapping`:
    restores them, and answers to them."""

    texts: list[str]
    filled: list[list[Filled]]
    mapping: Mapping

    def __repr__(self) -> str:
        return f"MaskedConversation({len(self.texts)} texts)"
