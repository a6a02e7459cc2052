"""Numbers in their written forms, with check digits: a row of written_numbers.toml for each number of a country.

A form is a string of `9` for a digit, `A` for a letter, and separators as they are: `999.999.999-99`. A space also
stands for the spaces that do not break, and a hyphen for all dashes. A row lists forms that pass alone and forms that
need a context word nearby. Only numbers with valid check digits are found. A form that passes alone has separators or
letters, and at most one number in 40 of that form is valid by chance; or it is a bare number, of which at most one in
1,000 is valid. Numbers with a type of their own (`US_SSN`, `UK_NINO`, `ES_NIF`, `PL_PESEL`, ...) have no row.

Cost: linear in the text, and one check for each form that a number fits.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import regex  # type: ignore[import-untyped]
from stdnum import luhn
from stdnum.cn import ric
from stdnum.exceptions import ValidationError

from core.text.labelled import Anchors
from core.text.recogniser import Hit, Scan, context_of, shared, stands_near, texts_of
from core.text.recognisers.numbers import iban_valid

ALONE_SCORE = 0.6
NEAR_SCORE = 0.55

_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PLAIN = {ord(char): " " for char in "\u00a0\u2007\u2009\u202f"} | {
    ord(char): "-" for char in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
}
_SHAPE = {ord(char): "9" for char in _DIGITS} | {ord(char): "A" for char in _LETTERS}
_RUN = re.compile(r"[0-9](?<!\d\d)(?<!\d[.,/-][0-9])[0-9]*")  # not after a digit, nor after one with a mark
_LETTERS_BEFORE = regex.compile(r"(?r)(?<![\w])[A-Za-z]{1,4}[ -]?\Z")
_GOES_ON = regex.compile(r"[\w@]|[-./,:][A-Za-z0-9]")
_HEAD_CHARS = 4


class Number(NamedTuple):
    """A number of a `country` (`ISO 3166`; `EU`). `check`: a module of stdnum, or a key of `_CHECKS`. Forms are
    separated by `|`; `?` stands for a letter or a digit."""

    check: str
    alone: str = ""
    near: str = ""
    country: str = ""

    def forms(self) -> Iterator[tuple[str, bool]]:
        """Yield each form, and whether it passes alone."""
        for forms, alone in ((self.alone, True), (self.near, False)):
            for form in forms.split("|"):
                yield from ((each, alone) for each in _spelt(form) if each)

    @property
    def module(self) -> Any:
        """The module of stdnum, None for a number that another function checks."""
        return None if self.check in _CHECKS else import_module(f"stdnum.{self.check}")

    def valid(self, number: str) -> bool:
        check = _CHECKS.get(self.check) or self.module.is_valid
        return bool(check(number))


def _spelt(form: str) -> list[str]:
    head, wild, tail = form.partition("?")
    return [head + char + rest for char in "9A" for rest in _spelt(tail)] if wild else [form]


class _Forms:
    """The forms of rows, by their first characters and their length."""

    def __init__(self, rows: Sequence[Number], *, near: bool) -> None:
        self.table: dict[str, list[tuple[Number, bool]]] = {}
        for row in rows:
            for form, alone in row.forms():
                if alone or near:
                    self.table.setdefault(form, []).append((row, alone))
        lengths: dict[str, set[int]] = {}
        for form in self.table:
            lengths.setdefault(form[:_HEAD_CHARS], set()).add(len(form))
        self._lengths = {head: sorted(each, reverse=True) for head, each in lengths.items()}

    def of(self, shape: str) -> Iterator[tuple[int, list[tuple[Number, bool]]]]:
        """Yield the length and the rows of each form that `shape` begins with, longest first."""
        for length in self._lengths.get(shape[:_HEAD_CHARS], ()):
            if fits := self.table.get(shape[:length]):
                yield length, fits


def number_scan(rows: Sequence[Number], words: Sequence[str]) -> Scan:
    """Return a scan for the numbers of `rows`. `words`: one of them stands near a number that does not pass alone.

    Where several forms fit, the longest valid one counts.
    """
    every, alone_only = _Forms(rows, near=True), _Forms(rows, near=False)
    anchors, context = Anchors(words), context_of(words)

    def score_of(text: str, start: int, end: int, number: str, fits: list[tuple[Number, bool]]) -> float:
        if any(alone and row.valid(number) for row, alone in fits):
            return ALONE_SCORE
        near = stands_near(context, text, start, end) and any(row.valid(number) for row, alone in fits if not alone)
        return NEAR_SCORE if near else 0.0

    def scan(text: str) -> Iterator[Hit]:
        forms = every if anchors.may_occur(text) else alone_only
        done = 0
        for start, plain, shape in shared(text, _shapes) if forms.table else ():
            if start < done:
                continue
            for length, fits in forms.of(shape):
                number, end = plain[:length], start + length
                if _GOES_ON.match(text, end) or len(set(number) & set(_DIGITS)) < 2:
                    continue
                if " " in number and _in_longer_row(text, start, end):
                    continue
                if score := score_of(text, start, end, number, fits):
                    yield Hit(start, end, score)
                    done = end
                    break

    return scan


def _shapes(text: str) -> list[tuple[int, str, str]]:
    """Return where a number may start, with its characters and their shape."""
    found = []
    for start in _starts(text):
        plain = text[start : start + _CHARS_MAX].translate(_PLAIN).upper()
        found.append((start, plain, plain.translate(_SHAPE)))
    return found


def _starts(text: str) -> Iterator[int]:
    """Yield where a number may start: at a run of digits, and at up to four letters before it."""
    for run in _RUN.finditer(text):
        start = run.start()
        if letters := _LETTERS_BEFORE.search(text, max(0, start - _HEAD_CHARS - 2), start):
            yield letters.start()
        if start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_"):
            yield start


def _in_longer_row(text: str, start: int, end: int) -> bool:
    """Whether more digit groups stand beside groups that spaces separate."""
    return (start > 1 and text[start - 1].isspace() and text[start - 2].isdecimal()) or (
        text[end : end + 1].isspace() and text[end + 1 : end + 2].isdecimal()
    )


def _chinese(number: str) -> bool:
    """As `ric.is_valid`, which raises KeyError for an unknown county. Birth years begin with 19 or 20."""
    if number[6:8] not in ("19", "20"):
        return False
    try:
        ric.get_birth_date(number)
    except ValidationError:
        return False
    return bool(number[-1] == ric.calc_check_digit(number))


def _german_insurance(number: str) -> bool:
    """Whether the check digit of a Krankenversichertennummer (a letter and nine digits) is valid."""
    digits = f"{ord(number[0]) - 64:02d}{number[1:]}"
    total = sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(digits[:-1]))
    return total % 10 == int(digits[-1])


def _polish_account(number: str) -> bool:
    return iban_valid("PL" + number.replace(" ", ""))


def _imei(number: str) -> bool:
    """Whether the check digit, the one of payment cards, is valid. One number in ten has it by chance."""
    return bool(luhn.is_valid("".join(filter(str.isdecimal, number))))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "chinese": _chinese,
    "german_insurance": _german_insurance,
    "polish_account": _polish_account,
    "imei": _imei,
}
NUMBERS = {
    kind: tuple(Number(row["check"], row.get("alone", ""), row.get("near", ""), row["country"]) for row in rows)
    for kind, rows in texts_of(__name__).items()
}
_CHARS_MAX = max(len(form) for rows in NUMBERS.values() for row in rows for form, _ in row.forms())
