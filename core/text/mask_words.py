"""What the two list maskers share: mask every token that a list does not hold.

A token is kept if the list holds it, its base before a possessive `'s`, or every part of its hyphenation.
A token with a digit is masked unless the list holds exactly that token: numbers name people too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.text.lists import normal
from core.text.policy import NUMBER, WORD, Mask
from core.text.tokens import Token, has_letter


def _kept(word: str, holds: Callable[[str], bool]) -> bool:
    if holds(word):
        return True
    base = word.removesuffix("'s")
    parts = base.split("-")
    if base == word and len(parts) == 1:
        return False
    return not any(char.isnumeric() for char in base) and all(part and holds(part) for part in parts)


def outside(text: str, tokens: Sequence[Token], holds: Callable[[str], bool], technique: str) -> list[Mask]:
    """One mask a token of `text` for which `holds` (given the normalised token) is false."""
    found = []
    for start, end in tokens:
        token = text[start:end]
        if not _kept(normal(token), holds):
            found.append(Mask(start, end, WORD if has_letter(token) else NUMBER, technique, 0.0))
    return found
