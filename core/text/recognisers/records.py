"""Rows of records without headings: `Harold Finch,345-67-8912,07/30/1978,3782 8224 6310 005,7891,12/28`.

A row is a line of at least three cells between the same separators (`,`, `;`, a tab, `|`), or values of a form that
follow each other. In such a row a payment card, a national number, an IBAN or an e-mail address shows what the cells
beside it are: a date is one of birth, if it may be that of an adult; after a card, three or four digits are its
security code, and a month with a year its expiry.

Only a cell that is nothing else than such a value is found, at most `CELLS` cells away. Outside rows an expiry needs
the number of a card before it, or a word for an expiry before it and one for a card near. Cost: linear in the text.
"""

import re
from collections.abc import Iterator
from datetime import date
from itertools import chain

import regex  # type: ignore[import-untyped]
from stdnum import luhn

from core.text.labelled import phrases
from core.text.recogniser import BOUNDARY, REGEX_TIMEOUT_S, Hit, Recogniser, Span, context_of, stands_near, texts_of
from core.text.recognisers.dates import first_date

_TEXTS = texts_of(__name__)

CELLS = 6
LINE_CHARS_MAX = 2_000
CELLS_MIN = 3
SCORE = 0.7
YEARS_MIN, YEARS_MAX = 16, 110

_START = re.compile(r"[,;\t|\n(\[] ?[\"']?(?=\d)")  # of a cell; `re` finds them in a tenth of the time
_AFTER = r"(?=[\"']?[ ]?(?:[,;\t|\n)\]]|\r|$))"
_CARD = regex.compile(rf"(?:\d{{4}}(?:[ -]?\d{{4}}){{2}}[ -]?\d{{1,7}}|\d{{4}}[ -]\d{{6}}[ -]\d{{4,5}}){_AFTER}")
_PERSON = regex.compile(
    r"\d{3}-\d{2}-\d{4}|[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?"  # United States, IBAN
    r"|\d{11}|\d{3}\.\d{3}\.\d{3}-\d{2}|[XYZ]?\d{7,8}-?[A-Z]"  # Poland, Germany, Brazil, Spain
    r"|[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]|[A-Z]{2}[ ]?\d{2}[ ]?\d{2}[ ]?\d{2}[ ]?[A-D]"  # Italy, United Kingdom
    r"|[12][ ]?\d{2}[ ]?[01]\d[ ]?\d{2}[ ]?\d{3}[ ]?\d{3}(?:[ ]?\d{2})?"  # France
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+|\+\d[\d ()/-]{7,16}|\d{5}[ ]\p{Lu}[\p{L} .-]{2,30}"
)
_DATE = regex.compile(
    rf"(?:\d{{1,2}}([/.-])\d{{1,2}}\1(?:\d{{4}}|\d{{2}})|\d{{4}}([/.-])\d{{2}}\2\d{{2}}|\d{{8}}"
    rf"|\d{{1,2}}\.?[ -]\p{{L}}{{3,10}}\.?[ -]\d{{4}}){_AFTER}"
)
_SEPARATORS = ("\t", ";", "|", ",")
_MARKS = " \"'()[]{};\r\n\ufeff"
_CODE = regex.compile(r"\d{3,4}")
_EXPIRY = regex.compile(r"(?:0[1-9]|1[0-2])[ ]?[/-][ ]?(?:20)?\d{2}|20\d{2}[/-](?:0[1-9]|1[0-2])")
_NAMED_EXPIRY = re.compile(
    r"(?<![\w/.-])(?:(?:0?[1-9]|1[0-2]) ?[/-] ?(?:20)?[2-4]\d|20[2-4]\d-(?:0[1-9]|1[0-2]))(?![\w/-]|[.,]\d)"
)
_OF_CARD = rf"(?:[ ](?:{_TEXTS['of_card']})(?!\p{{L}})){{0,4}}"
_EXPIRES = regex.compile(rf"(?r)(?<!\p{{L}})(?:{_TEXTS['expires']}){_OF_CARD}[\s\"':=._()-]{{0,4}}\Z", regex.IGNORECASE)
_NEAR_CARD = context_of(phrases(_TEXTS["card"]))
_CARD_BEFORE = regex.compile(
    r"(?r)(?<![\d.])\d{4}(?:[ -]?\d{4}){2}[ -]?\d{1,7}[\s,;|/]{1,3}(?:\p{L}{2,10}[ .:]{0,2}){0,3}\Z"
)
_CODE_AFTER = regex.compile(r"[\s,;|/]{1,3}(?:\p{L}{2,10}[ .:]{0,2}){0,2}(?P<code>\d{3,4})(?![\w/-]|[.,:]\d)")
_SEEN = 60
_YEAR = regex.compile(r"\A(?:19|20)\d{2}|(?:19|20)\d{2}\Z|(?<=\D)\d{2}\Z")


def _row(text: str, start: int, end: int) -> tuple[list[Span], int]:
    """Return the cells of the row of a cell, and its number; no cells if it is in no row."""
    cells = cells_of(text, *_line(text, start, end))
    own = next((at for at, cell in enumerate(cells) if cell == (start, end)), None)
    return ([], 0) if own is None else (cells, own)


def _line(text: str, start: int, end: int) -> Span:
    """Return the line around `start:end`, or the values of a form around it."""
    first, last = max(0, start - LINE_CHARS_MAX), min(len(text), end + LINE_CHARS_MAX)
    if BOUNDARY in text[max(0, start - 2) : start] or BOUNDARY in text[end : end + 2]:
        return first, last
    left, right = text.rfind("\n", first, start), text.find("\n", end, last)
    return (first if left < 0 else left + 1), (last if right < 0 else right)


def cells_of(text: str, start: int, end: int, least: int = CELLS_MIN) -> list[Span]:
    """Return the cells of a row without the quotes and brackets around them; none if there are fewer than `least`."""
    line = text[start:end]
    counts = {separator: line.count(separator) for separator in _SEPARATORS}
    separator = BOUNDARY if BOUNDARY in line else max(_SEPARATORS, key=counts.__getitem__)
    cells, at = [], start
    for part in line.split(separator):
        inner = part.strip(_MARKS)
        first = at + part.find(inner) if inner else at
        cells.append((first, first + len(inner)))
        at += len(part) + 1
    return cells if len(cells) >= least else []


def _starting(pattern: regex.Pattern[str], text: str) -> Iterator[regex.Match[str]]:
    """Yield the matches of `pattern` at the starts of cells."""
    for start in chain([0], (found.end() for found in _START.finditer(text))):
        if match := pattern.match(text, start, timeout=REGEX_TIMEOUT_S):
            yield match


def _births(text: str) -> Iterator[Hit]:
    for match in _starting(_DATE, text):
        value = match.group()  # alone: a digit and a comma before it are no part of a number
        if not _of_adult(value) or first_date(value, 0, len(value)) != (0, len(value)):
            continue
        cells, own = _row(text, *match.span())
        near = [cell for cell in cells[max(0, own - CELLS) : own + CELLS + 1] if cell != match.span()]
        if any(_identifies(text, cell) for cell in near):
            yield Hit(match.start(), match.end(), SCORE)


def _of_adult(value: str) -> bool:
    """Whether a date may be the birth of an adult."""
    found = _YEAR.search(value)
    if found is None:
        return False
    today, year = date.today().year, int(found.group())
    if year < 100:
        year += 1900 if year + 2000 > today - YEARS_MIN else 2000
    return YEARS_MIN <= today - year <= YEARS_MAX


def _identifies(text: str, cell: Span) -> bool:
    card = _CARD.fullmatch(text, *cell)
    return _PERSON.fullmatch(text, *cell) is not None or (card is not None and _valid(card))


def _valid(card: regex.Match[str]) -> bool:
    return bool(luhn.is_valid("".join(filter(str.isdecimal, card.group()))))


def _beside_cards(text: str, form: regex.Pattern[str]) -> Iterator[Hit]:
    for card in _starting(_CARD, text):
        cells, own = _row(text, *card.span()) if _valid(card) else ([], 0)
        for cell in cells[own + 1 : own + CELLS]:
            if form.fullmatch(text, *cell):
                yield Hit(*cell, SCORE)
                break


def _codes(text: str) -> Iterator[Hit]:
    yield from _beside_cards(text, _CODE)
    for match in _NAMED_EXPIRY.finditer(text):
        code = _CODE_AFTER.match(text, match.end())
        if code and _CARD_BEFORE.search(text, max(0, match.start() - _SEEN), match.start()):
            yield Hit(code.start("code"), code.end("code"), SCORE)


def _expiries(text: str) -> Iterator[Hit]:
    yield from _beside_cards(text, _EXPIRY)
    for match in _NAMED_EXPIRY.finditer(text):
        start, end = match.span()
        first = max(0, start - _SEEN)
        named = _EXPIRES.search(text, first, start) and stands_near(_NEAR_CARD, text, start, end)
        if named or _CARD_BEFORE.search(text, first, start):
            yield Hit(start, end, SCORE)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("DATE_OF_BIRTH", _births, digits_min=6, name="date_of_birth.record"),
        Recogniser("PASSWORD", _codes, digits_min=12, name="password.record"),
        Recogniser("CREDIT_CARD", _expiries, digits_min=3, name="credit_card.record"),
    )
