"""DATE_TIME, DATE_OF_BIRTH and AGE: dates as they are written, their parts, and the same form with another date.

Forms are those that `core.text.recognisers.dates` finds. Kept: order, separators, zeros, names of months and days of
the week in their language and letter case, two-digit years, times of day and zones.

All dates of a document move by the same number of days (`shift_of`). The number is between `DAYS_MIN` and `DAYS_MAX` in
either direction and not a multiple of 7, so that days of the week change as well. It is a keyed function of the
document's key. If a shifted date would be a masked string of the document, the next number of the same key is tried,
and after `ATTEMPTS`, or fewer for many dates, a number that is larger than the span of the dates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

import regex  # type: ignore[import-untyped]

from core.text.recogniser import texts_of
from core.text.surrogates.draw import (
    DAYS_MIN,
    LONG_DRAWS,
    DateShift,
    Draw,
    MakeDraw,
    Originals,
    cased,
    longer,
    same_shape,
)

ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")


def _index(rows: list[tuple[str, str]]) -> dict[str, list[tuple[str, tuple[str, ...], int]]]:
    table: dict[str, list[tuple[str, tuple[str, ...], int]]] = {}
    for language, line in rows:
        words = tuple(line.split())
        for place, word in enumerate(words):
            table.setdefault(word, []).append((language, words, place))
    return table


@cache
def _tables() -> tuple[dict[str, list[tuple[str, tuple[str, ...], int]]], ...]:
    texts = texts_of(__name__)
    return _index(texts["months"]), _index(texts["weekdays"])


def month_of(word: str, language: str) -> tuple[tuple[str, ...], int] | None:
    """Return the twelve names of the form of `word`, and its place; None if it is not the name of a month."""
    return _found(_tables()[0], word, language)


def weekday_of(word: str, language: str) -> tuple[tuple[str, ...], int] | None:
    """As `month_of`, for the seven days from Monday."""
    return _found(_tables()[1], word, language)


def month_words() -> frozenset[str]:
    """Return the names of months in all languages, in small letters."""
    return frozenset(_tables()[0])


def weekday_words() -> frozenset[str]:
    """Return the names of days of the week in all languages, in small letters."""
    return frozenset(_tables()[1])


def _found(
    table: dict[str, list[tuple[str, tuple[str, ...], int]]], word: str, language: str
) -> tuple[tuple[str, ...], int] | None:
    rows = table.get(word.casefold())
    if not rows:
        return None
    _, words, place = next((row for row in rows if row[0] == language), rows[0])
    return words, place


ENGLISH = "en"
DAYS_PER_YEAR, DAYS_PER_MONTH = 365.25, 30.4375
SHORT_YEAR_PIVOT = 50  # from this one on, a year of two digits is of the twentieth century
_LEAP_YEAR, _COMMON_YEAR = 2024, 2023  # of a date without a year

_TOKEN = regex.compile(r"\d+|\p{L}+(?:-feira)?|[^\p{L}\d]+")
_TIME = regex.compile(
    r"(?<![\d./-])(?<!\p{L}(?<![Tt]))\d{1,2}(?::\d{2}(?::\d{2}(?:[.,]\d+)?)?|h\d{0,2}"
    r"|(?:[.:h]\d{2})?[ ]?(?:uhr|uur|hrs|h|[ap]\.?m))(?!\d).*$",
    regex.IGNORECASE | regex.DOTALL,
)
_CLOCK = regex.compile(r"(?P<h>\d{1,2})(?:(?P<s>[.:,]|h)(?P<m>\d{2}))?(?P<rest>.*)$", regex.IGNORECASE | regex.DOTALL)
_HALF = regex.compile(r"([ap])(?=\.?m)", regex.IGNORECASE)
_ENGLISH_ORDINALS = ("st", "nd", "rd", "th")
_FIRST_ORDINALS = ("er", "º", "°")  # only of the first day of a month


@dataclass(frozen=True)
class WrittenDate:
    """A date as it is written. The places are those of its parts in `tokens`; None for a part that it lacks."""

    tokens: tuple[str, ...]
    time: str
    year: int
    month: int
    day: int
    year_at: int | None
    month_at: int | None
    day_at: int | None
    weekday_at: int | None
    language: str
    compact: str = ""  # the order in a run of eight digits, as in `ymd`

    def shifted(self, days: int) -> str | None:
        """Return the date some days later in the same form; None beyond the years of the calendar.

        A date without a day moves by whole months, and a year by whole years: the nearest number, and at least one.
        """
        try:
            return self.at(self._later(days), days)
        except (OverflowError, ValueError):
            return None

    def at(self, new: date, days: int) -> str:
        """Return another date in the same form. `days`: how much later it is, for the day of the week."""
        written = list(self.tokens)
        if self.compact:
            parts = {"y": f"{new.year:04d}", "m": f"{new.month:02d}", "d": f"{new.day:02d}"}
            written[self.year_at or 0] = "".join(parts[part] for part in self.compact)
            return "".join(written) + self.time
        if self.year_at is not None:
            long = len(self.tokens[self.year_at]) == 4
            written[self.year_at] = f"{new.year:04d}" if long else f"{new.year % 100:02d}"
        if self.month_at is not None:
            written[self.month_at] = self._month(new.month)
        if self.day_at is not None:
            written[self.day_at] = self._number(new.day)
            self._mark_day(written, new.day)
        if self.weekday_at is not None and (found := weekday_of(self.tokens[self.weekday_at], self.language)):
            names, place = found
            written[self.weekday_at] = _like(self.tokens[self.weekday_at], names[(place + days) % 7])
        return "".join(written) + self.time

    def _later(self, days: int) -> date:
        if self.day_at is not None or self.compact:
            return date(self.year, self.month, self.day) + timedelta(days=days)
        sign = 1 if days > 0 else -1
        if self.month_at is not None:
            months = self.year * 12 + self.month - 1 + (round(days / DAYS_PER_MONTH) or sign)
            return date(months // 12, months % 12 + 1, 1)
        return date(self.year + (round(days / DAYS_PER_YEAR) or sign), 1, 1)

    def _month(self, month: int) -> str:
        own = self.tokens[self.month_at or 0]
        if own.isdecimal():
            return self._number(month)
        if (named := month_of(own, self.language)) is not None:
            return _like(own, named[0][month - 1])
        return ROMAN[month - 1].upper()

    def _number(self, value: int) -> str:
        numbers = [self.tokens[at] for at in (self.day_at, self.month_at) if at is not None]
        numbers = [number for number in numbers if number.isdecimal()]
        padded = any(number.startswith("0") for number in numbers) or (
            len(numbers) == 2 and all(len(number) == 2 for number in numbers)
        )
        return f"{value:02d}" if padded else str(value)

    def _mark_day(self, written: list[str], day: int) -> None:
        """Adjust what follows the number of the day: `1st`, `1er`."""
        at = (self.day_at or 0) + 1
        mark = self.tokens[at] if at < len(self.tokens) else ""
        if mark.casefold() in _ENGLISH_ORDINALS:
            right = "th" if 10 < day % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
            written[at] = cased(mark, right)
        elif self.day == 1 and day != 1 and mark[:2].casefold().startswith(_FIRST_ORDINALS):
            ordinal = next(each for each in _FIRST_ORDINALS if mark.casefold().startswith(each))
            written[at] = mark[len(ordinal) :]


def _like(original: str, name: str) -> str:
    return name.capitalize() if original[0].isupper() and not original.isupper() else cased(original, name)


def day_leads(original: str) -> bool | None:
    """Return whether a numeric date can only be read with the day first; None if both orders or neither fit."""
    numbers = [token for token in _TOKEN.findall(_TIME.sub("", original)) if token.isdecimal()]
    if len(numbers) != 3 or max(len(numbers[0]), len(numbers[1])) > 2:
        return None
    first, second = int(numbers[0]), int(numbers[1])
    return True if first > 12 >= second else False if second > 12 >= first else None


def read_date(original: str, language: str, day_first: bool | None) -> WrittenDate | None:
    """Return the parts of a date; None for another form or a day that the calendar lacks."""
    clock = _TIME.search(original)
    head = original[: clock.start()] if clock else original
    tokens = tuple(_TOKEN.findall(head))
    numbers = [at for at, token in enumerate(tokens) if token.isdecimal()]
    words = [at for at, token in enumerate(tokens) if token[0].isalpha()]
    weekday_at = words[0] if words and words[0] == 0 and weekday_of(tokens[0], language) else None
    month_at = next((at for at in words if at != weekday_at and month_of(tokens[at], language)), None)
    compact = ""
    if month_at is None:
        month_at = next((at for at in words if tokens[at].isupper() and tokens[at].lower() in ROMAN), None)
    if month_at is not None:
        day_at, year_at = _around_month(tokens, numbers)
    elif len(numbers) == 1 and len(tokens[numbers[0]]) == 8:
        return _compact(tokens, numbers[0], head, original, language)
    else:
        year_at, month_at, day_at = _numeric(tokens, numbers, day_first, language)
    placed = [at for at in (year_at, month_at, day_at) if at is not None]
    if not set(numbers) <= set(placed) or (year_at is None and day_at is None):
        return None
    year = None if year_at is None else _year(tokens[year_at])
    month = 1 if month_at is None else _month_number(tokens[month_at], language)
    day = 1 if day_at is None else int(tokens[day_at])
    if year is None:
        year = _LEAP_YEAR if (month, day) == (2, 29) else _COMMON_YEAR
    if not _exists(year, month, day):
        return None
    return WrittenDate(
        tokens, original[len(head) :], year, month, day, year_at, month_at, day_at, weekday_at, language, compact
    )


def _around_month(tokens: tuple[str, ...], numbers: list[int]) -> tuple[int | None, int | None]:
    """Return the places of the day and the year beside the name of a month."""
    year_at = next((at for at in numbers if len(tokens[at]) == 4), None)
    rest = [at for at in numbers if at != year_at]
    if year_at is None and rest and (len(rest) == 2 or tokens[rest[-1] - 1 : rest[-1]] in (("'",), ("’",))):
        year_at = rest.pop()
    return (rest[0] if len(rest) == 1 and len(tokens[rest[0]]) <= 2 else None), year_at


def _numeric(
    tokens: tuple[str, ...], numbers: list[int], day_first: bool | None, language: str
) -> tuple[int | None, int | None, int | None]:
    """Return the places of the year, the month and the day of a date in numbers."""
    lengths = [len(tokens[at]) for at in numbers]
    if len(numbers) == 1 and lengths == [4]:
        return numbers[0], None, None
    if len(numbers) == 2 and max(lengths) <= 2:
        first, second = numbers
        return None, second, first
    if len(numbers) == 2 and sorted(lengths) in ([1, 4], [2, 4]):
        year = numbers[lengths.index(4)]
        return year, next(at for at in numbers if at != year), None
    if len(numbers) != 3:
        return None, None, None
    first, second, third = numbers
    if lengths[0] == 4:
        return first, second, third
    dotted = tokens[first + 1].startswith(".")
    one, two = int(tokens[first]), int(tokens[second])
    if two > 12 >= one or (one <= 12 and not dotted and _month_leads(day_first, language)):
        return third, first, second
    return third, second, first


def _month_leads(day_first: bool | None, language: str) -> bool:
    return not day_first if day_first is not None else language == ENGLISH


def _compact(tokens: tuple[str, ...], at: int, head: str, original: str, language: str) -> WrittenDate | None:
    run = tokens[at]
    for order, year, month, day in (("ymd", run[:4], run[4:6], run[6:]), ("dmy", run[4:], run[2:4], run[:2])):
        if 1800 <= int(year) < 2100 and _exists(int(year), int(month), int(day)):
            rest = original[len(head) :]
            return WrittenDate(tokens, rest, int(year), int(month), int(day), at, None, None, None, language, order)
    return None


def _year(token: str) -> int:
    value = int(token)
    return value if len(token) > 2 else value + (1900 if value >= SHORT_YEAR_PIVOT else 2000)


def _month_number(token: str, language: str) -> int:
    if token.isdecimal():
        return int(token)
    named = month_of(token, language)
    return ROMAN.index(token.lower()) + 1 if named is None else named[1] + 1


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except (ValueError, OverflowError):  # a year of many digits
        return False
    return True


def shifted_time(original: str, minutes: int) -> str | None:
    """Return a time of day some minutes later, around the clock, in the same form; None for another form. A time
    without minutes moves by whole hours, at least one."""
    clock = _CLOCK.match(original)
    if not clock or int(clock["h"]) > 23 or int(clock["m"] or 0) > 59:
        return None
    rest, hour = clock["rest"], int(clock["h"])
    half = _HALF.search(rest)
    if half:
        hour = hour % 12 + (12 if half.group().lower() == "p" else 0)
    by = minutes if clock["m"] else max(1, minutes // 60) * 60
    hour, minute = divmod((hour * 60 + int(clock["m"] or 0) + by) % 1440, 60)
    if half:
        letter = cased(half.group() * 2, "pp" if hour >= 12 else "aa")[0]
        rest = rest[: half.start()] + letter + rest[half.end() :]
        hour = hour % 12 or 12
    padded = (
        f"{hour:02d}" if clock["h"].startswith("0") or (clock["m"] and len(clock["h"]) == 2 and not half) else str(hour)
    )
    return f"{padded}{clock['s']}{minute:02d}{rest}" if clock["m"] else f"{padded}{rest}"


AGE_MIN, AGE_MAX = 90, 129
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


DAYS_MAX = 1_826
ATTEMPTS = 64
DATES_TRIED_MAX = 200_000  # in all attempts together, so that many dates take few
STRICT_ATTEMPTS = 16  # while a date shall not even contain a shorter masked string
MINUTES = 1_440


def shift_of(originals: Sequence[str], language: str, draw: MakeDraw, known: Originals) -> DateShift:
    """Return the shift of a document. `originals`: its masked dates."""
    leads = next((leads for leads in map(day_leads, originals) if leads is not None), None)
    dates = [found for each in originals if (found := read_date(each, language, leads))]
    minutes = draw("minutes", attempt=0).between(1, MINUTES - 1)
    for attempt in range(max(1, min(ATTEMPTS, DATES_TRIED_MAX // (len(dates) + 1)))):
        days = _days(draw, attempt)
        refused = known.repeated_by if attempt < STRICT_ATTEMPTS else known.equal_to
        if not any(refused(new) for each in dates if (new := each.shifted(days))):
            return DateShift(days, minutes, leads)
    return DateShift(days + (_span(dates) // 7 + 1) * 7 * (1 if days > 0 else -1), minutes, leads)


def _days(draw: MakeDraw, attempt: int) -> int:
    drawn = draw("days", attempt=attempt)
    days = drawn.between(DAYS_MIN, DAYS_MAX)
    return (days if days % 7 else days + 1) * drawn.choice((1, -1))


def _span(dates: Sequence[WrittenDate]) -> int:
    days = [date(each.year, each.month, each.day).toordinal() for each in dates]
    return max(days) - min(days)
