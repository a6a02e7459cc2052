"""DATE_TIME, DATE_OF_BIRTH and AGE."""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

from core.text.surrogates.date_words import month_of, weekday_of
from core.text.surrogates.draw import LONG_DRAWS, Draw
from core.text.surrogates.shape import cased, longer, same_shape
from core.text.surrogates.written_dates import read_date, shifted_time

AGE_MIN, AGE_MAX = 90, 129

_TOKEN = regex.compile(r"\d+|\p{L}+(?:-feira)?|[^\p{L}\d]+")
_AGE = regex.compile(r"\d+")
_TENS = regex.compile(
    r"ninety(?:[ -](?:one|two|three|four|five|six|seven|eight|nine))?|(?:one|a) hundred(?: and \w+)?", regex.IGNORECASE
)
_ONES = ("", "-one", "-two", "-three", "-four", "-five", "-six", "-seven", "-eight", "-nine")


def shifted(original: str, draw: Draw) -> str:
    """Return the date moved by the shift of the document. A further attempt moves it by further days."""
    document = draw.document
    terms, language = document.dates, document.language
    found = read_date(original, language, terms.day_first)
    if found and (new := found.shifted(terms.days + draw.attempt)):
        return new
    time = shifted_time(original, (terms.minutes + draw.attempt * 7) % 1440 or 1)
    return time or _scrambled(original, draw)


def _scrambled(original: str, draw: Draw) -> str:
    """Return other digits and other names, for what is no date of the calendar."""
    fresh = []
    for token in _TOKEN.findall(original):
        named = month_of(token, draw.document.language) or weekday_of(token, draw.document.language)
        if token.isdecimal():
            fresh.append(draw.digits(len(token)))
        elif named:
            name = draw.choice(named[0])
            fresh.append(name.capitalize() if token[0].isupper() and not token.isupper() else cased(token, name))
        else:
            fresh.append(token)
    new = "".join(fresh)
    return same_shape(original, draw) if new == original else new + longer(draw)


def age(original: str, draw: Draw) -> str:
    """Return another age over 89 with the same number of digits, or in English words."""
    if number := _AGE.search(original):
        least, most = (AGE_MIN, 99) if len(number.group()) == 2 and draw.attempt < LONG_DRAWS else (100, AGE_MAX)
        new = str(draw.between(least, most + max(0, draw.attempt - LONG_DRAWS)))
        return original[: number.start()] + new + original[number.end() :]
    if not _TENS.search(original):
        return same_shape(original, draw)
    new = f"ninety{draw.choice(_ONES)}"
    return str(_TENS.sub(lambda found: cased(found.group(), new), original)) + longer(draw)
