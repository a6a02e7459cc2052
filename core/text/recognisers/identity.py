"""Passports and driving licences: after a label, by a form near a word for them, and by machine-readable lines."""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import Label, Value, labelled_scan, phrases
from core.text.recogniser import Hit, Pattern, Recogniser, context_of, matches, pattern_scan

_PASSPORT = phrases(
    "passport|passports|travel document|Reisepass|Reisepässe|Passnummer|Pass-Nr|Pass Nr|Passnr|Passport-Nr|"
    "passeport|pasaporte|passaporto|paspoort|paspoortnummer|passaporte|paszport|paszportu|paszporcie"
)
_LICENCE = phrases(
    "driver's license|driver’s license|drivers license|driver license|driver's licence|driver’s licence|"
    "drivers licence|driver licence|driving licence|driving license|driver's permit|license number|"
    "licence number|DLN|DL|D.L.|Führerschein|Führerscheinnummer|Fahrerlaubnis|permis de conduire|permis B|"
    "permiso de conducir|permiso de conducción|carnet de conducir|licencia de conducir|licencia de conducción|"
    "patente di guida|patente|patente B|rijbewijs|rijbewijsnummer|carta de condução|carteira de motorista|CNH|"
    "carteira de habilitação|carteira nacional de habilitação|prawo jazdy|prawa jazdy"
)
_PASSPORT_VALUE = Value(
    r"(?=(?:\D*\d){4})(?:[A-Z]{0,3}[ -]?\d{5,9}|[A-Z0-9]{8,10}|\d{2} ?[A-Z]{2} ?\d{5}|\d{2} \d{7})", spaced=True
)
_LICENCE_VALUE = Value(r"(?=(?:[^\W_][-/. ]{0,2}){5,20}\Z)(?=(?:\D*\d){4})[A-Za-z0-9/. -]+", spaced=True)
# Most countries: one to three letters and digits. Germany: letters without vowels among digits. France: 12AB34567.
_PASSPORT_FORMS = (
    Pattern(regex.compile(r"(?<![\w])(?:[A-Z]{1,3}\d{6,8}|\d{2}[A-Z]{2}\d{5})(?![\w]|[-.]\d)"), 0.1),
    Pattern(regex.compile(r"(?<![\w])(?=(?:[A-Z]*\d){3})[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}(?![\w])"), 0.1),
)
# United Kingdom: five letters of the surname, birth date, initials, check characters.
_UK_LICENCE = (
    Pattern(
        regex.compile(r"(?<![\w])[A-Z]{2}[A-Z9]{3}\d[0156]\d[0-3]\d{2}[A-Z][A-Z9]\d[A-Z]{2}(?:[ ]?\d{2})?(?![\w])"), 0.6
    ),
)

# ---------------------------------------------------------------- machine-readable lines (ICAO 9303)

_LINE = regex.compile(r"(?<![\w<])[A-Z0-9<]{30,44}+(?![\w<])")
_NAMES = regex.compile(r"(?:[PVIAC][A-Z<][A-Z<]{3})?[A-Z]+(?:<[A-Z]+)*<<[A-Z<]*")
_LINE_LENGTHS = (30, 36, 44)
_VALUES = {char: place for place, char in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")} | {"<": 0}
# Fields that the digit after them checks, for each kind of line.
_FIELDS = {
    44: (((0, 9), (13, 19), (21, 27)),),
    36: (((0, 9), (13, 19), (21, 27)),),
    30: (((5, 14),), ((0, 6), (8, 14))),
}


def _checked(line: str, start: int, end: int) -> bool:
    total = sum(_VALUES[char] * (7, 3, 1)[place % 3] for place, char in enumerate(line[start:end]))
    return line[end : end + 1] == str(total % 10)


def _machine_readable(text: str) -> Iterator[Hit]:
    for match in matches(_LINE, text):
        line = match.group()
        if len(line) not in _LINE_LENGTHS:
            continue
        names = line.endswith("<") and _NAMES.fullmatch(line)
        fields = any(all(_checked(line, *field) for field in kind) for kind in _FIELDS[len(line)])
        document = len(line) != 30 or (fields and (line[0] in "IAC" or line[:6].isdigit()))
        if names or (fields and document and any(map(str.isdigit, line))):
            yield Hit(match.start(), match.end(), 0.9)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("PASSPORT", labelled_scan(Label(names=_PASSPORT), _PASSPORT_VALUE), digits_min=4, copies=True),
        Recogniser("PASSPORT", pattern_scan(_PASSPORT_FORMS), context_of(_PASSPORT), digits_min=3),
        Recogniser("PASSPORT", _machine_readable),
        Recogniser("DRIVER_LICENSE", labelled_scan(Label(names=_LICENCE), _LICENCE_VALUE), digits_min=4, copies=True),
        Recogniser("DRIVER_LICENSE", pattern_scan(_UK_LICENCE), digits_min=6),
    )
