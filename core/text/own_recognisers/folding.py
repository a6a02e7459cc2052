"""A form of a text in which two spellings of a term are equal, with the place of each character in the original.

* Letter case is folded (Unicode case folding), unless the case matters.
* Characters are decomposed, and combining marks are in canonical order (NFD), so that NFC and NFD are equal.
* A run of white space is one space, so that a term matches across a line break.
* Invisible characters (zero width, soft hyphen, direction marks) are left out, so that they do not hide a term.

Time is linear in the text, up to the logarithm of the length of a run of combining marks.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]

_INVISIBLE = frozenset(map(chr, (0xAD, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF)))
_ASCII_SPACES = {code: " " for code in range(128) if chr(code).isspace()}
_MARKS = regex.compile(r"\p{M}{2,}")
_SPACE = ord(" ")


@dataclass(frozen=True)
class Folded:
    """`text` is the form; its character i comes from the character `places[i]` of the original, or from character i if
    `places` is None."""

    text: str = field(repr=False)
    places: npt.NDArray[np.int64] | None = field(repr=False)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the original that `start:end` of the form comes from; `start < end`. A character
        that the form shows in part belongs to them."""
        if self.places is None:
            return start, end
        return int(self.places[start]), int(self.places[end - 1]) + 1


def fold(text: str, *, case_sensitive: bool) -> Folded:
    """Return the form of `text`."""
    if text.isascii():
        plain = (text if case_sensitive else text.lower()).translate(_ASCII_SPACES)
        if "  " not in plain:
            return Folded(plain, None)
        return _single_spaced(plain, np.arange(len(plain)))
    codes, numbers = np.unique(_codes(text), return_inverse=True)
    forms = {int(code): _form(chr(code), case_sensitive) for code in codes}
    lengths = np.array([len(form) for form in forms.values()])[numbers]
    ordered = _MARKS.sub(lambda run: _ordered(run.group()), text.translate(forms))
    return _single_spaced(ordered, np.repeat(np.arange(len(text)), lengths))


def is_word_character(character: str) -> bool:
    """Whether it is a letter, mark, digit or underscore."""
    return character.isalnum() or character == "_" or (not character.isascii() and is_mark(character))


def is_mark(character: str) -> bool:
    """Whether it is a combining mark."""
    return unicodedata.category(character)[0] == "M"


def continues(character: str) -> bool:
    """Whether it belongs to the character before it: a combining mark, or a vowel or final consonant of Hangul."""
    return not character.isascii() and (is_mark(character) or "\u1160" <= character <= "\u11ff")


@lru_cache(maxsize=8192)
def _form(character: str, case_sensitive: bool) -> str:
    if character in _INVISIBLE:
        return ""
    if character.isspace():
        return " "
    form = unicodedata.normalize("NFD", character)
    return form if case_sensitive else unicodedata.normalize("NFD", form.casefold())


def _ordered(marks: str) -> str:
    """Put combining marks into canonical order. `unicodedata.normalize` takes quadratic time for a long run."""
    runs = groupby(marks, key=lambda mark: unicodedata.combining(mark) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if moves else run) for moves, run in runs)


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _single_spaced(text: str, places: npt.NDArray[np.int64]) -> Folded:
    codes = _codes(text)
    keep = np.ones(len(codes), dtype=bool)
    keep[1:] = (codes[1:] != _SPACE) | (codes[:-1] != _SPACE)
    return Folded(codes[keep].tobytes().decode("utf-32-le", "surrogatepass"), places[keep])
