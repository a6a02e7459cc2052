"""What surrogates are drawn from: the terms of a document, keyed draws, the form of a value, and the masked strings.

Guarantee: a `Draw` is a function of the key, the parts and the attempt alone, so that every process that has the key
draws the same surrogate for the same original. Without the key, its values are indistinguishable from random ones if
HMAC-SHA256 is a pseudorandom function.

The terms of a document are its key, language, names and shift of dates (`Document`). They are computed once for a
document (`core.text.surrogates.table`), and passed in bytes to the tasks that draw parts. `Originals` holds the masked
strings of one document, for testing whether a candidate repeats one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Protocol, TypeVar

import regex  # type: ignore[import-untyped]

from core.text.policy import SURROGATE_KEY_BYTES

DAYS_MIN = 61


@dataclass(frozen=True)
class NameBook:
    """Part of a name in small letters -> surrogate. Adjectival Polish surnames are in the masculine form. `initials`:
    surname and initial -> the initial of the given name's surrogate. `mail`: parts without accents, for user names."""

    given: dict[str, str] = field(default_factory=dict)
    surnames: dict[str, str] = field(default_factory=dict)
    initials: dict[str, str] = field(default_factory=dict)
    mail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DateShift:
    """`minutes`: of times of day without a date. `day_first`: the order of the document's numeric dates, if one of them
    shows it."""

    days: int = DAYS_MIN
    minutes: int = DAYS_MIN
    day_first: bool | None = None


@dataclass(frozen=True)
class Document:
    """`strings`: all masked strings, casefolded. Neither they nor the key are in `repr`."""

    key: bytes = field(repr=False)
    language: str
    strings: frozenset[str] = field(default=frozenset(), repr=False)
    names: NameBook = field(default_factory=NameBook, repr=False)
    dates: DateShift = field(default_factory=DateShift, repr=False)

    def packed(self) -> bytes:
        return json.dumps(
            {
                "key": self.key.hex(),
                "language": self.language,
                "strings": sorted(self.strings),
                "names": asdict(self.names),
                "dates": asdict(self.dates),
            }
        ).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Document:
        read = json.loads(packed)
        return cls(
            bytes.fromhex(read["key"]),
            read["language"],
            frozenset(read["strings"]),
            NameBook(**read["names"]),
            DateShift(**read["dates"]),
        )


DIGITS_AT_ONCE = 18
# From this attempt on, a function widens its range. While half of a range is free, so many draws fail for one value in
# 4,000; where a document has used up a range, each of its values takes so many draws.
LONG_DRAWS = 12

_T = TypeVar("_T")


def new_key() -> bytes:
    """Return a random key for one document."""
    return secrets.token_bytes(SURROGATE_KEY_BYTES)


class Draw:
    """An endless stream of random values. `attempt`: how many values were drawn for the same original before."""

    def __init__(self, document: Document, *parts: str, attempt: int = 0) -> None:
        self.document = document
        self.attempt = attempt
        self.long = attempt >= LONG_DRAWS
        framed = "\0".join((*parts, str(attempt))).encode("utf-8", "surrogatepass")
        self._seed = hmac.digest(document.key, framed, "sha256")
        self._bytes = b""
        self._block = 0

    def below(self, limit: int) -> int:
        """Return an integer of [0, limit). The bias is below 2^-32."""
        count = (limit.bit_length() + 7) // 8 + 4
        while len(self._bytes) < count:
            block = hashlib.sha512(self._seed + self._block.to_bytes(4, "big")).digest()
            self._bytes, self._block = self._bytes + block, self._block + 1
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        return int.from_bytes(taken, "big") % limit

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def choice(self, values: Sequence[_T]) -> _T:
        return values[self.below(len(values))]

    def digits(self, count: int) -> str:
        groups = [min(DIGITS_AT_ONCE, count - done) for done in range(0, count, DIGITS_AT_ONCE)]
        return "".join(str(self.below(10**group)).zfill(group) for group in groups)

    def letters(self, count: int) -> str:
        return "".join(self.choice(string.ascii_lowercase) for _ in range(count))

    def raw(self, count: int) -> bytes:
        return self.below(256**count).to_bytes(count, "big")

    def invented(self) -> str:
        """Return a random name, for a document that masks the names of the lists."""
        return self.letters(8 + self.attempt // LONG_DRAWS).capitalize()


class MakeDraw(Protocol):
    def __call__(self, *parts: str, attempt: int) -> Draw: ...


ORDINALS = "ºª"  # letters to Unicode, marks to a reader

LETTER_DRAWS = 2 * LONG_DRAWS
_UPPER = string.ascii_uppercase


def same_shape(original: str, draw: Draw, *, letters: str = _UPPER, kept: int = 0) -> str:
    """Return another digit for each digit and another letter for each letter, and everything else as it is.

    The first digit of a number that does not begin with 0 is not 0. The first `kept` characters stay. Two originals
    that differ in separators and letter case only get the same digits and letters.
    """
    if draw.attempt >= LETTER_DRAWS:  # every number of some length is a masked string
        return draw.letters(8 + draw.attempt // LETTER_DRAWS)
    fresh: list[str] = [original[:kept]]
    inside = False
    for char in original[kept:]:
        if char.isnumeric():
            least = 0 if inside or char == "0" else 1
            fresh.append(str(draw.between(least, 9)))
        elif char.isalpha() and char not in ORDINALS:
            new = draw.choice(letters)
            fresh.append(new if char.isupper() else new.lower())
        else:
            fresh.append(char)
        inside = inside or char.isnumeric()
    return "".join(fresh) + longer(draw)


def longer(draw: Draw) -> str:
    """Return nothing, or some digits once the values of the shape seem to be used up."""
    return draw.digits(1 + draw.attempt // LONG_DRAWS) if draw.long else ""


def alphanumerics(text: str) -> str:
    return text if text.isalnum() else "".join(filter(str.isalnum, text))


def laid_out(original: str, fresh: Iterable[str]) -> str:
    """Return the letters and digits of `fresh` with the separators and the letter case of `original`."""
    values = iter(fresh)
    written = []
    for char in original:
        if not char.isalnum():
            written.append(char)
        elif value := next(values, ""):
            written.append(value.lower() if char.islower() and value.isalpha() else value)
    return "".join((*written, *values))


def cased(original: str, value: str) -> str:
    """Return `value` in capitals or in small letters if `original` has no other letters."""
    if not original.isupper() or len(alphanumerics(original)) < 2:
        return value.lower() if original.islower() else value
    return value.upper()


SAME_MAX = 3  # the first characters that must not all be those of the original

_MARKER = regex.compile(r"-{4,5} ?(?:BEGIN|END) [A-Z0-9 ]{1,60}-{4,5}|^[a-z][a-z0-9+]{1,15}://|\\[nr]")


def secret(original: str, draw: Draw) -> str:
    """Return random characters of the same kinds in the same places, for a SECRET or PASSWORD.

    No prefix by which a scanner would take the surrogate for a token of a provider is kept: a scanner that verifies
    finds would call that provider. Kept are the lines around a block of a key and the scheme of a connection string.
    """
    pieces, read = [], 0
    for marker in _MARKER.finditer(original):
        pieces += [_random(original[read : marker.start()], draw), marker.group()]
        read = marker.end()
    return "".join((*pieces, _random(original[read:], draw))) + longer(draw)


def _random(text: str, draw: Draw) -> str:
    fresh = same_shape(text, draw)[: len(text)]
    while len(text) > SAME_MAX and text[:SAME_MAX].isalnum() and fresh[:SAME_MAX] == text[:SAME_MAX]:
        fresh = same_shape(text, draw)[: len(text)]
    return fresh


LEAK_CHARS_MIN = 4
WINDOW_CHARS = 64  # a longer string is looked for by its first characters, so that a test is linear in the candidate

DIGITS_FORM_CHARS_MAX = 16  # no document has a quarter of the numbers of a longer form

_DIGIT = re.compile(r"\d")


class Originals:
    """It lives for one call. `strings`: all masked strings, casefolded."""

    def __init__(self, strings: AbstractSet[str]) -> None:
        self._strings = strings
        self._lengths: dict[str, set[int]] = {}  # first characters -> lengths of the strings that begin with them
        self._long: dict[str, list[str]] = {}
        for each in strings:
            if len(each) > WINDOW_CHARS:
                self._long.setdefault(each[:WINDOW_CHARS], []).append(each)
            elif len(each) >= LEAK_CHARS_MIN:
                self._lengths.setdefault(each[:LEAK_CHARS_MIN], set()).add(len(each))
        self._forms = Counter(form for each in strings if (form := _form_of_digits(each)))

    def uses_up(self, original: str) -> bool:
        """Whether a quarter of all numbers of the form of `original` are masked strings, so that half of them are taken
        once each has a surrogate of that form. Not for an original with letters, of which there are many."""
        form = _form_of_digits(original)
        return bool(form) and 4 * self._forms[form] > 10 ** form.count("0")

    def equal_to(self, candidate: str) -> bool:
        """Whether the candidate is a masked string."""
        return candidate.casefold() in self._strings

    def repeated_by(self, candidate: str) -> bool:
        """Whether the candidate is a masked string, or contains one of `LEAK_CHARS_MIN` characters or more."""
        folded = candidate.casefold()
        if folded in self._strings:
            return True
        for start in range(len(folded) - LEAK_CHARS_MIN + 1):
            for length in self._lengths.get(folded[start : start + LEAK_CHARS_MIN], ()):
                if folded[start : start + length] in self._strings:
                    return True
        return bool(self._long) and any(
            folded.startswith(each, start)
            for start in range(len(folded) - WINDOW_CHARS)
            for each in self._long.get(folded[start : start + WINDOW_CHARS], ())
        )


def _form_of_digits(string: str) -> str:
    """Return a short string with each digit as 0; empty for a longer one, and for one with letters or no digit."""
    if len(string) > DIGITS_FORM_CHARS_MAX or not any(map(str.isdecimal, string)):
        return ""
    return "" if any(map(str.isalpha, string)) else _DIGIT.sub("0", string)
