"""Mobile devices: the IMEI. Its check digit is the one of payment cards, which one number in ten has by chance."""

from __future__ import annotations

from core.text.labelled import Label, Value, labelled_scan, phrases
from core.text.recogniser import Recogniser
from core.text.recognisers.numbers import luhn
from core.text.written_numbers import Number, number_scan

_WORDS = phrases("IMEI|IMEIs|IMEI number|IMEI-Nummer|numéro IMEI|número IMEI|numero IMEI|numer IMEI|IMEISV")


def _valid(imei: str) -> bool:
    return luhn("".join(filter(str.isdecimal, imei)))


_NUMBERS = (
    Number("", "IMEI", _valid, near="99-999999-999999-9|999999999999999|999999 99 999999 9|99 999999 999999 9"),
)
_VALUE = Value(r"\d{14,16}|\d{2}[ -]?\d{6}[ -]?\d{6}[ -]?\d{1,2}|\d{6}[ -]\d{2}[ -]\d{6}[ -]\d", spaced=True)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("IMEI", labelled_scan(Label(names=_WORDS), _VALUE), digits_min=14, copies=True),
        Recogniser("IMEI", number_scan(_NUMBERS, _WORDS), digits_min=14, copies=True),
    )
