"""Common code of the list maskers: mask every token that is not in a list.

A token is kept if the list contains it, its base before a possessive `'s`, or every part of its hyphenation.
A token with a digit is masked unless the list contains exactly that token, because numbers identify people too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.mechanisms.words.normal_form import normal
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
    """Return one mask for each token of `text` for which `holds` (called with the normalised token) is false."""
    types: dict[str, str | None] = {}  # of each distinct token, None for one that is kept
    found = []
    for start, end in tokens:
        token = text[start:end]
        if token not in types:
            types[token] = None if _kept(normal(token), holds) else WORD if has_letter(token) else NUMBER
        if kind := types[token]:
            found.append(Mask(start, end, kind, technique, 0.0))
    return found
