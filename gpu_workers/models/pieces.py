"""Text as word pieces, with their positions and the case of their words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class Case(IntEnum):
    """The case of a word, which helps to recognise names and which an uncased vocabulary does not keep."""

    SPECIAL = 0
    LOWER = 1
    INITIAL = 2
    UPPER = 3
    LETTER = 4
    MIXED = 5
    DIGITS = 6
    OTHER = 7


def case_of(word: str) -> Case:
    """The class of one word, as split by the pre-tokeniser."""
    if word.isalpha() and word.islower():
        return Case.LOWER
    if any(character.isdigit() for character in word):
        return Case.DIGITS
    if not any(character.isalpha() for character in word):
        return Case.OTHER
    if word.islower():
        return Case.LOWER
    if word.isupper():
        return Case.LETTER if len(word) == 1 else Case.UPPER
    if word[:1].isupper() and word[1:].islower():
        return Case.INITIAL
    return Case.MIXED if word.upper() != word.lower() else Case.OTHER


@dataclass(frozen=True)
class Pieces:
    """The word pieces of one text, without special tokens. Every array has one entry for each piece.

    `starts`, `ends`: code points of the text. `words`: the number of the word that a piece belongs to, ascending.
    """

    ids: IntArray
    starts: IntArray
    ends: IntArray
    words: IntArray
    cases: IntArray

    def __len__(self) -> int:
        return len(self.ids)


def pieces_of(text: str, encoding: Any) -> Pieces:
    """`Pieces` from a `tokenizers.Encoding` of `text` made without special tokens and without truncation."""
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    cases = np.zeros(len(words), dtype=np.int64)
    if len(words):
        firsts = np.flatnonzero(np.diff(words, prepend=-2))
        lasts = np.append(firsts[1:], len(words)) - 1
        for first, last in zip(firsts, lasts, strict=True):
            cases[first : last + 1] = case_of(text[offsets[first, 0] : offsets[last, 1]])
    return Pieces(np.array(encoding.ids, dtype=np.int64), offsets[:, 0], offsets[:, 1], words, cases)
