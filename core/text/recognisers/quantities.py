"""QUANTITY, DURATION and YEAR, in eight languages.

QUANTITY: an amount of money, a share, or a number, in digits or words, with a unit or what is counted (`EUR 4,310`,
`seven hectares`, `two children`). DURATION: a number with a unit of time, and an age (`two years`, `22 years old`,
`aged 22`). YEAR: a year from 1800 to 2049 that stands alone, with its season, and a decade (`the summer of 1984`,
`1980s`).

Cost: linear in the text. Every pattern has bounded repeats, and runs only at a number or a word of a list. The patterns
are made when a text is first searched for one of the types.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Recogniser, Scan, lower, matches, texts_of

SCORE = 0.6
_DIGITS = r"(?:\d{1,3}(?:[ .,\u00a0\u202f]\d{3}){1,4}(?:[.,]\d{1,2})?|\d{1,9}(?:[.,]\d{1,3})?)(?!\d)"
_WORD = regex.compile(r"(?<![\p{L}\d.,])[^\W_]+")


@cache
def _texts() -> dict[str, Any]:
    return texts_of(__name__)


def _words(table: Mapping[str, str]) -> frozenset[str]:
    return frozenset(word.replace("_", " ") for line in table.values() for word in line.split())


def _any(words: Collection[str]) -> str:
    return f"(?:{'|'.join(regex.escape(word) for word in sorted(words, key=len, reverse=True))})"


@cache
def _numbers() -> frozenset[str]:
    return _words(_texts()["numbers"])


@cache
def _number() -> str:
    words = _any(_numbers())
    return rf"(?:{_DIGITS}|{words}(?:[ -](?:{words}|hundred|thousand)){{0,3}})(?![\p{{L}}\d])"


@cache
def _amount() -> regex.Pattern[str]:
    texts = _texts()
    codes, units = _any(texts["currencies"].split()), _any(_words(texts["counted"]))
    scale = rf"(?:[ ]{_any(texts['scales'].split())}(?:[ ]d[ei])?)?"
    money = rf"(?:{codes}|[€$£¥])[ \u00a0]?{_DIGITS}{scale}"
    measure = rf"[ \u00a0]?(?:[%€$£°]|{codes}(?!\p{{L}}))"
    noun = (
        rf"(?:[ ](?-i:\p{{Lu}}\p{{Ll}}{{2,12}}))?(?:[ -]{_any(texts['other'].split())})?[ \u00a0-]?{units}(?!\p{{L}})"
    )
    named = rf"(?:[ ][(\[](?:{codes}|{units})(?!\p{{L}})[)\]]?)?"
    return regex.compile(rf"(?:{money}|{_number()}{scale}(?:{measure}|{noun})){named}", regex.IGNORECASE)


@cache
def _before_amount() -> regex.Pattern[str]:
    return regex.compile(rf"(?r)(?<!\p{{L}})(?:{_texts()['about']})[ ]\Z", regex.IGNORECASE)


@cache
def _span() -> regex.Pattern[str]:
    texts = _texts()
    unit, number = _any(_words(texts["units"])), _number()
    return regex.compile(
        rf"{number}(?:[ ](?:and|und|et|y|e|en|i)[ ](?:a[ ]half|{number}))?[ \u00a0-]{unit}(?!\p{{L}})"
        rf"(?:[ -](?:{texts['old']})(?!\p{{L}}))?|(?:{texts['aged']})[ ]{number}(?:[ ]{unit}(?!\p{{L}}))?",
        regex.IGNORECASE,
    )


def _at(first: Callable[[], Collection[str]], pattern: Callable[[], regex.Pattern[str]]) -> Scan:
    """Return a scan for `pattern` at the numbers in digits and at the words of `first`."""

    def scan(text: str) -> Iterator[Hit]:
        end = 0
        for word in matches(_WORD, lower(text)):
            if word.start() >= end and (word.group()[0].isdigit() or word.group() in first()):
                found = pattern().match(text, word.start(), timeout=REGEX_TIMEOUT_S)
                if found:
                    end = found.end()
                    yield Hit(found.start(), end, SCORE)

    return scan


@cache
def _starts_of_amounts() -> frozenset[str]:
    return _numbers() | {code.lower() for code in _texts()["currencies"].split()}


_SYMBOL = regex.compile(rf"[€$£¥][ \u00a0]?{_DIGITS}")
_CHARS_BEFORE = 24


def _amounts(text: str) -> Iterator[Hit]:
    """Yield amounts with the word before them that says that they are rounded: `about 200 metres`."""
    found = [(hit.start, hit.end) for hit in _at(_starts_of_amounts, _amount)(text)]
    for symbol in matches(_SYMBOL, text):
        found.append((_amount().match(text, symbol.start(), timeout=REGEX_TIMEOUT_S) or symbol).span())
    for start, end in found:
        about = _before_amount().search(text, max(0, start - _CHARS_BEFORE), start)
        yield Hit(about.start() if about else start, end, SCORE)


@cache
def _starts_of_spans() -> frozenset[str]:
    return _numbers() | frozenset(_texts()["aged_starts"].split())


@cache
def _year() -> regex.Pattern[str]:
    return regex.compile(
        rf"(?:(?<!\p{{L}})(?:{_texts()['seasons']})[ ](?:(?:of|de|del|dell['’]|do|roku|des[ ]Jahres)[ ])?)?"
        r"(?<![\p{L}\d]|\d[.,/:-]|[€$£/§#])"
        r"(?:(?:1[89]\d|20[0-4])0s|(?:1[89]\d\d|20[0-4]\d)(?:[/–-]\d\d(?:\d\d)?)?)(?![\p{L}\d/%]|[.,:-]\d)",
        regex.IGNORECASE,
    )


def _years(text: str) -> Iterator[Hit]:
    for match in matches(_year(), text):
        yield Hit(match.start(), match.end(), SCORE)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("QUANTITY", _amounts),
        Recogniser("DURATION", _at(_starts_of_spans, _span)),
        Recogniser("YEAR", _years, digits_min=4),
    )
