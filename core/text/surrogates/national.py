"""National identity, tax and health numbers: the shape of the original, with valid check digits.

The number of a country is found by its check: of the modules of python-stdnum for the type, the first that accepts the
original decides. A number that none accepts keeps its shape alone. Ranges that are never issued are used where they
are known: 666 of the American social security numbers, QQ of the British national insurance numbers, 999 of the British
health service numbers. Other numbers may by chance be those of a person.
"""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from core.text.recognisers.written_numbers import NUMBERS, Number
from core.text.surrogates.draw import Draw, alphanumerics, laid_out, longer, same_shape

CHARS_MAX = 64  # of a number with its separators
BODIES = 300  # candidates, each with every last character; then the check digit is given up

LONG_NUMBER = 18  # the Chinese one, whose date begins with the ninth character

_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MONTH_OFFSETS = (0, 20, 40, 50, 60, 70, 80)  # of centuries, genders and kinds of numbers


def ssn(original: str, draw: Draw) -> str:
    return laid_out(original, f"666{draw.between(1, 99):02d}{draw.between(1, 9999):04d}")


def itin(original: str, draw: Draw) -> str:
    return laid_out(original, f"9{draw.digits(2)}{draw.between(70, 88)}{draw.digits(4)}")


def nino(original: str, draw: Draw) -> str:
    return laid_out(original, f"QQ{draw.digits(6)}{draw.choice('ABCD')}")


def nhs(original: str, draw: Draw) -> str:
    while True:
        body = f"999{draw.digits(6)}"
        check = 11 - sum(int(digit) * (10 - place) for place, digit in enumerate(body)) % 11
        if check != 10:
            return laid_out(original, body + str(check % 11))


def npi(original: str, draw: Draw) -> str:
    from stdnum import luhn

    body = f"{draw.between(1, 2)}{draw.digits(8)}"
    return laid_out(original, body + luhn.calc_check_digit("80840" + body))


def german_tax_id(original: str, draw: Draw) -> str:
    """Return ten digits of which one occurs twice, and the check digit."""
    from stdnum.de import idnr

    digits = list(_DIGITS)
    for place in range(9, 0, -1):
        other = draw.below(place + 1)
        digits[place], digits[other] = digits[other], digits[place]
    if digits[0] == "0":
        digits[0], digits[1] = digits[1], digits[0]
    digits[9] = digits[draw.below(9)]
    fresh = _completed("".join(digits), idnr)
    return laid_out(original, fresh) + longer(draw)


def _completed(body: str, module: Any) -> str:
    return next((body + digit for digit in _DIGITS if module.is_valid(body + digit)), body + "0")


def medicare_beneficiary(original: str, draw: Draw) -> str:
    return same_shape(original, draw, letters="ACDEFGHJKMNPQRTUVWXY")


def checked(*modules: str) -> Callable[[str, Draw], str]:
    """Return the function of a type whose numbers these modules of stdnum check."""
    rows = tuple(Number(module) for module in modules)
    return lambda original, draw: _valid_like(original, draw, rows)


def national_id(original: str, draw: Draw) -> str:
    return _valid_like(original, draw, NUMBERS["national"])


def tax_id(original: str, draw: Draw) -> str:
    return _valid_like(original, draw, NUMBERS["tax"])


def _valid_like(original: str, draw: Draw, rows: tuple[Number, ...]) -> str:
    if len(original) > CHARS_MAX:
        return same_shape(original, draw)
    plain = original.upper()
    row = next((row for row in rows if _accepts(row, plain)), None)
    if row is None or draw.long:
        return same_shape(original, draw)
    compact = alphanumerics(plain)
    if not _accepts(row, compact):
        compact = plain  # separators are part of the number
    module = row.module
    for _ in range(BODIES):
        body = _body(compact, draw, sex_year_month=row.check == "fr.nir")
        for candidate in _endings(body, compact, module):
            if _accepts(row, candidate):
                return laid_out(original, alphanumerics(candidate))
    return same_shape(original, draw)


def _accepts(row: Number, number: str) -> bool:
    try:
        return row.valid(number)
    except (ValueError, KeyError, IndexError, ArithmeticError):
        return False


def _body(compact: str, draw: Draw, *, sex_year_month: bool) -> str:
    """Return the shape of a number. A birth date of the original becomes another one. `sex_year_month`: the number
    begins with these."""
    fresh = same_shape(compact, draw)[: len(compact)]
    if sex_year_month:
        return f"{draw.between(1, 2)}{draw.digits(2)}{draw.between(1, 12):02d}{fresh[5:]}"
    if not (places := _date_places(compact)):
        return fresh
    year, month, day, offset = places
    written = list(fresh)
    written[year : year + 2] = draw.digits(2)
    written[month : month + 2] = f"{draw.between(1, 12) + offset:02d}"
    written[day : day + 2] = f"{draw.between(1, 28):02d}"
    start = min(year, month, day)
    for at in range(start)[-2:]:  # the digits of the century
        written[at] = compact[at]
    return "".join(written)


def _date_places(number: str) -> tuple[int, int, int, int] | None:
    """Return where the year, the month and the day of a birth date stand, and what the month is raised by."""
    for start in (8,) if len(number) == LONG_NUMBER else (0, 1):
        for order in ((0, 2, 4), (4, 2, 0)):
            year, month, day = (start + place for place in order)
            parts = number[year : year + 2], number[month : month + 2], number[day : day + 2]
            if all(len(part) == 2 and part.isdecimal() for part in parts):
                for offset in _MONTH_OFFSETS:
                    if _is_date(int(parts[0]), int(parts[1]) - offset, int(parts[2])):
                        return year, month, day, offset
    return None


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        date(2000 + year, month, day)
    except ValueError:
        return False
    return True


def _endings(body: str, compact: str, module: Any) -> Iterator[str]:
    """Yield the body with its check digits: those that the module computes, then every last one or two characters."""
    for name, count in (("calc_check_digit", 1), ("calc_check_digits", 2)):
        if compute := getattr(module, name, None):
            try:
                yield body[:-count] + str(compute(body[:-count]))
            except (ValueError, KeyError, IndexError, TypeError, ArithmeticError):
                continue
    if not compact[-1].isdecimal():
        yield from (body[:-1] + letter for letter in _LETTERS)
        return
    yield from (body[:-1] + digit for digit in _DIGITS)
