"""REFERENCE_NUMBER: numbers and codes that name one thing, of whatever kind, in eight languages.

* Two digits or more after a word for "number", and the list that goes on after it (`plots nos. 511, 513 and 44/2`).
  Numbers of laws and other things that everybody knows are none (`Protocol No. 11`).
* Codes of capital letters and at least four digits: `GX-ID-1048576`, `AB12-3344`.
* Numbers of six digits or more, but for round ones.

Values of a known kind have types of their own, which take precedence where they cover as much. Cost: linear in the
text.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Recogniser, matches, texts_of
from core.text.recognisers.case_numbers import OTHER_THINGS

_TEXTS = texts_of(__name__)

SCORE = 0.5
SEEN_CHARS = 40
DIGITS_MIN, CODE_DIGITS_MIN = 2, 4
_VALUE = r"(?:\p{Lu}{1,3}[ -]?)?\d[\d\p{L}]{0,9}(?:[./-][\d\p{L}]{1,9}){0,5}"
_AFTER_WORD = regex.compile(
    rf"(?<![\p{{L}}\d])(?:{_TEXTS['numbers']})[ \u00a0]?(?P<values>{_VALUE}"
    rf"(?:(?:,[ ]?|[ ])(?:(?:{_TEXTS['joint']})[ ])?{_VALUE}(?![\p{{L}}%€$£]|[ ]\p{{L}}{{3,12}}[ ]\d{{4}}))"
    r"{0,30})",
    regex.IGNORECASE,
)
_CODE = regex.compile(
    r"(?<![\p{L}\d]|[\d.:/][.:/-]|\d-)(?=\p{Lu}[\p{Lu}./-]{0,9}\d|\d{1,8}[./-]?\p{Lu})[\p{Lu}\d]{1,24}"
    r"(?:[./-][\p{Lu}\d]{1,24}){0,5}(?![\p{L}\d]|[.:/-]\d)"
)
_LONG = regex.compile(r"(?<![\p{L}\d]|\d[.,:/-]|[€$£¥#][ ]?)\d{6,24}(?![\p{L}\d%]|[.,:/-]\d)")


def _numbers(text: str) -> Iterator[Hit]:
    for match in matches(_AFTER_WORD, text):
        first = max(0, match.start() - SEEN_CHARS)
        known = OTHER_THINGS.search(text, first, match.start(), timeout=REGEX_TIMEOUT_S)
        if _digits(match["values"]) >= DIGITS_MIN and not known:
            yield Hit(match.start("values"), match.end("values"), SCORE)
    for match in matches(_CODE, text):
        if _digits(match.group()) >= CODE_DIGITS_MIN:
            yield Hit(match.start(), match.end(), SCORE)
    for match in matches(_LONG, text):
        if not match.group().endswith("000"):
            yield Hit(match.start(), match.end(), SCORE)


def _digits(value: str) -> int:
    return sum(map(str.isdecimal, value))


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("REFERENCE_NUMBER", _numbers, digits_min=1),)
