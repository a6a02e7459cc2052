"""Finds up to a hundred thousand terms in one pass over a text (Aho and Corasick 1975).

Terms are compared in a form of the text in which two spellings are equal, with the place of each character in the
original:

* Letter case is folded (Unicode case folding), unless the case matters.
* Characters are decomposed, and combining marks are in canonical order (NFD), so that NFC and NFD are equal.
* A run of white space is one space, so that a term matches across a line break.
* Invisible characters (zero width, soft hyphen, direction marks) are left out, so that they do not hide a term.

Occurrences may overlap. Of those that end at one character, the longest is found, which covers the others. So that time
stays linear in the text (up to the logarithm of the length of a run of combining marks), at most `NESTED_TERMS_MAX`
terms may end with one another: this is the largest number of terms that end at one character.
"""

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

import ahocorasick
import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]

from core.errors import InvalidInput

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


NESTED_TERMS_MAX = 16
_BETWEEN = "\0"  # terms are folded together, which is several times as fast


def folded_terms(terms: Sequence[str], *, field: str, case_sensitive: bool) -> set[str]:
    """Return the forms of `terms`, as `TermFinder` takes them.

    Raises InvalidInput for a term without a letter or digit, one with a zero character, one that begins with a
    combining mark, and more than `NESTED_TERMS_MAX` terms that end with one another.
    """
    forms = set()
    for index, term in enumerate(terms):
        if _BETWEEN in term:
            raise InvalidInput("A term contains no zero character.", field=f"{field}.{index}")
    together = fold(_BETWEEN.join(terms), case_sensitive=case_sensitive).text.split(_BETWEEN) if terms else []
    for index, term in enumerate(together):
        form = term.strip(" ")
        if not any(map(str.isalnum, form)):
            raise InvalidInput("A term contains a letter or a digit.", field=f"{field}.{index}")
        if is_mark(form[0]):
            raise InvalidInput("A term does not begin with a combining mark.", field=f"{field}.{index}")
        forms.add(form)
    if _nested(forms) > NESTED_TERMS_MAX:
        raise InvalidInput(f"At most {NESTED_TERMS_MAX} terms end with one another.", field=field)
    return forms


def _nested(forms: Collection[str]) -> int:
    """Return the largest number of terms that are all ends of one of them."""
    most = 0
    ends: list[str] = []
    for backwards in sorted(form[::-1] for form in forms):
        while ends and not backwards.startswith(ends[-1]):
            ends.pop()
        ends.append(backwards)
        most = max(most, len(ends))
    return most


class TermFinder:
    """Finds `forms`, the results of `folded_terms`."""

    def __init__(self, forms: Collection[str], *, whole_words: bool) -> None:
        self._whole_words = whole_words
        self._automaton = None
        if forms:
            self._automaton = ahocorasick.Automaton(ahocorasick.STORE_LENGTH)
            for form in forms:
                self._automaton.add_word(form)
            self._automaton.make_automaton()

    def spans(self, folded: Folded) -> Iterator[tuple[int, int]]:
        """Yield the occurrences as characters of the original, in the order of their ends. An occurrence ends with a
        whole character: `cafe` is not found in `café`, whether the accent is a character of its own or not."""
        if self._automaton is None:
            return
        text, whole_words = folded.text, self._whole_words
        done = -1
        for last, length in self._automaton.iter(text):  # of the same end, the longest comes first
            if last == done:
                continue
            after = text[last + 1 : last + 2]
            if after and (continues(after) or (whole_words and is_word_character(after))):
                done = last
                continue
            start = last - length + 1
            if whole_words and start and is_word_character(text[start - 1]):
                continue
            done = last
            yield folded.original(start, last + 1)
