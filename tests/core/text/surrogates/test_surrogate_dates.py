"""Surrogates of dates keep the written form, and the distances between the dates of a document."""

import re
from datetime import date, datetime

from surrogate_kit import all_of, surrogates_of
from table_kit import rows

from core.text.surrogates.dates import DAYS_MAX, DAYS_MIN, month_of, weekday_of


def test_distances_are_kept_and_the_shift_is_in_range():
    days = ["1984-05-03", "2024-02-29", "2024-12-31", "2001-01-01"]
    shifts = set()
    for _ in range(20):
        moved = [date.fromisoformat(each) for each in all_of("DATE_TIME", *days)]
        own = {(new - date.fromisoformat(day)).days for new, day in zip(moved, days, strict=True)}
        assert len(own) == 1
        (shift,) = own
        assert DAYS_MIN <= abs(shift) <= DAYS_MAX
        assert shift % 7
        shifts.add(shift)
    assert len(shifts) > 10, "another document has another shift"


FORMS = rows("""
03/05/1984 | %d/%m/%Y | fr || 05/03/1984 | %m/%d/%Y | en || 03.05.84 | %d.%m.%y | de || 1984/05/03 | %Y/%m/%d | en
19840503 | %Y%m%d | en || May 03, 1984 | %B %d, %Y | en || 03 May 1984 | %d %B %Y | en || 03-Jan-1984 | %d-%b-%Y | en
Thursday, May 03, 1984 | %A, %B %d, %Y | en || 1984-05-03T14:30:05 | %Y-%m-%dT%H:%M:%S | en
03 May 1984 at 03:15 PM | %d %B %Y at %I:%M %p | en
""")


def test_a_form_is_kept_and_moves_as_far_as_another():
    for original, form, language in FORMS:
        moved, other = surrogates_of(("DATE_OF_BIRTH", original), ("DATE_TIME", "2020-06-15"), language=language)
        assert datetime.strptime(moved, form).strftime(form) == moved
        assert (datetime.strptime(moved, form) - datetime.strptime(original, form)).days == (
            date.fromisoformat(other) - date(2020, 6, 15)
        ).days


def test_month_names_are_those_of_the_language():
    for original, form, language in rows(r"""
        3. Mai 1984 | (\d{1,2})\. (\w+) (\d{4}) | de || 3 de mayo de 1984 | (\d{1,2}) de (\w+) de (\d{4}) | es
        3 mai 1984 | (\d{1,2}) (\w+) (\d{4}) | fr || 3 maggio 1984 | (\d{1,2}) (\w+) (\d{4}) | it
        3 mei 1984 | (\d{1,2}) (\w+) (\d{4}) | nl || 3 maja 1984 r. | (\d{1,2}) (\w+) (\d{4}) r\. | pl
        3 de maio de 1984 | (\d{1,2}) de (\w+) de (\d{4}) | pt
    """):
        moved, other = all_of("DATE_TIME", original, "1984-05-03", language=language)
        day, month, year = re.fullmatch(form, moved).groups()
        place = month_of(month, language)[1]
        assert (int(year), place + 1, int(day)) == tuple(map(int, other.split("-")))


def test_the_day_of_the_week_fits_the_new_date():
    for original, language in rows("""
        Mittwoch, 1. Mai 2024 | de || środa, 1 maja 2024 | pl || mercredi 1 mai 2024 | fr || Wed, May 1, 2024 | en
    """):
        moved, other = all_of("DATE_TIME", original, "2024-05-01", language=language)
        word = re.match(r"\w+", moved).group()
        assert weekday_of(word, language)[1] == date.fromisoformat(other).weekday()


def test_ordinals_fit_the_new_day():
    for _ in range(20):
        (moved,) = all_of("DATE_TIME", "1st of May 2024")
        day, mark = re.match(r"(\d+)(st|nd|rd|th) of ", moved).groups()
        assert mark == ("th" if day in ("11", "12", "13") else {"1": "st", "2": "nd", "3": "rd"}.get(day[-1], "th"))
        (french,) = all_of("DATE_TIME", "1er mai 2024", language="fr")
        assert re.fullmatch(r"(1er|\d+) \w+ \d{4}", french)


def test_one_date_shows_the_order_of_the_others():
    for _ in range(5):
        clear, unclear, iso = all_of("DATE_TIME", "25/12/2023", "03/04/2023", "2023-04-03")
        assert date.fromisoformat(iso) == datetime.strptime(unclear, "%d/%m/%Y").date()
        datetime.strptime(clear, "%d/%m/%Y")


def test_invalid_dates_and_times_of_day_keep_their_shape():
    for original, form in rows(r"""
        31.02.2024 | \d{2}\.\d{2}\.\d{4} || 45/45/1999 | \d\d/\d\d/\d{4}
        3 May 4111111111111111 | \d{1,2} [A-Za-z]{3} \d{16} || 14:30 | [0-2]\d:[0-5]\d || 3 pm | \d{1,2} [ap]m
    """):
        (moved,) = all_of("DATE_TIME", original)
        assert re.fullmatch(form, moved)
        assert moved != original


def test_parts_of_dates_move_too():
    month, year = all_of("DATE_TIME", "May 2024", "2023")
    assert re.fullmatch(r"[A-Z][a-z]+ \d{4}", month)
    assert re.fullmatch(r"\d{4}", year)
    assert (month, year) != ("May 2024", "2023")


def test_a_document_of_many_days_has_no_masked_date():
    days = [date.fromordinal(738_000 + day).isoformat() for day in range(3_000)]
    moved = all_of("DATE_TIME", *days)
    assert not set(moved) & set(days)
    assert len(set(moved)) == len(days)
    distances = {date.fromisoformat(new) - date.fromisoformat(old) for new, old in zip(moved, days, strict=True)}
    assert len(distances) == 1


def test_ages_stay_over_89():
    for original, form in (
        ("93-year-old", r"9\d-year-old"),
        ("101 ans", r"1[0-2]\d ans"),
        ("ninety-two years old", r"ninety(-\w+)? years old"),
    ):
        (new,) = all_of("AGE", original)
        assert re.fullmatch(form, new)
        assert new != original
