"""The shift of the dates of a document: all dates move by the same number of days.

The number is between `DAYS_MIN` and `DAYS_MAX` in either direction and not a multiple of 7, so that days of the week
change as well. It is a keyed function of the document's key. If a shifted date would be a masked string of the
document, the next number of the same key is tried, and after `ATTEMPTS`, or fewer for many dates, a number that is
larger than the span of the dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from core.text.surrogates.name_book import MakeDraw
from core.text.surrogates.originals import Originals
from core.text.surrogates.terms import DAYS_MIN, DateShift
from core.text.surrogates.written_dates import WrittenDate, day_leads, read_date

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
