"""Numbers in the forms in which they are written, with their check digits.

A form is a string of `9` for a digit, `A` for a letter, and separators as they are: `999.999.999-99`. A space also
stands for the spaces that do not break, and a hyphen for all dashes. A row lists forms that pass alone, because few
other numbers are written so or pass the check, and forms that need a context word nearby. Only numbers with valid check
digits are found.

Cost: linear in the text, and one check for each form that a number fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Scan, matches

ALONE_SCORE = 0.6
NEAR_SCORE = 0.2

_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PLAIN = {ord(char): " " for char in "\u00a0\u2007\u2009\u202f"} | {
    ord(char): "-" for char in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
}
_SHAPE = _PLAIN | {ord(char): "9" for char in _DIGITS} | {ord(char): "A" for char in _LETTERS}
_START = regex.compile(r"(?<![\w])(?<!\d[.,/])(?=[A-Za-z]{0,4}[- ]?\d)[A-Za-z0-9]")
_GOES_ON = regex.compile(r"[\w@]|[-./,:][A-Za-z0-9]")

Check = Callable[[str], bool]


class Number(NamedTuple):
    """A number of a country (`ISO 3166`; `EU`). `check`: a module of stdnum, or a function. Forms are separated by
    `|`; `?` stands for a letter or a digit."""

    country: str
    name: str
    check: str | Check
    alone: str = ""
    near: str = ""

    def forms(self) -> Iterator[tuple[str, float]]:
        """Yield each form with its score."""
        for forms, score in ((self.alone, ALONE_SCORE), (self.near, NEAR_SCORE)):
            for form in forms.split("|"):
                yield from ((each, score) for each in _spelt(form) if each)

    def valid(self, number: str) -> bool:
        check = import_module(f"stdnum.{self.check}").is_valid if isinstance(self.check, str) else self.check
        return bool(check(number))


def _spelt(form: str) -> list[str]:
    head, wild, tail = form.partition("?")
    return [head + char + rest for char in "9A" for rest in _spelt(tail)] if wild else [form]


def number_scan(rows: Sequence[Number]) -> Scan:
    """Return a scan for the numbers of `rows`. Where several forms fit, the longest valid one counts."""
    table: dict[str, list[tuple[Number, float]]] = {}
    for row in rows:
        for form, score in row.forms():
            table.setdefault(form, []).append((row, score))
    lengths = sorted({len(form) for form in table}, reverse=True)

    def scan(text: str) -> Iterator[Hit]:
        shapes = text.translate(_SHAPE)
        done = 0
        for match in matches(_START, text):
            start = match.start()
            if start < done:
                continue
            for length in lengths:
                end = start + length
                if (found := table.get(shapes[start:end])) is None or _GOES_ON.match(text, end):
                    continue
                number = text[start:end].translate(_PLAIN).upper()
                if " " in number and _in_longer_row(shapes, start, end):
                    continue
                if len(set(number) & set(_DIGITS)) < 2:
                    continue
                score = max((score for row, score in found if row.valid(number)), default=0.0)
                if score:
                    yield Hit(start, end, score)
                    done = end
                    break

    return scan


def _in_longer_row(shapes: str, start: int, end: int) -> bool:
    """Whether more digit groups stand beside groups that spaces separate."""
    return shapes[max(0, start - 2) : start] == "9 " or shapes[end : end + 2] == " 9"
