"""CASE_NUMBER: the numbers of applications, cases and files of courts and authorities, in eight languages.

Three ways lead to a number: a word for it (`Aktenzeichen`, `application no.`, `sygn. akt`), a form that only the
registers of courts have (`5 C 214/19`, `VI ZR 12/18`, `2:19-cv-01234`, `ECLI:...`), and `no. 18403/91` with nothing
before it that has numbers of this form as well, such as a law, an invoice or a bus.

A number and a year of two digits after `no.` count only with at least three digits before the slash, or after a word
for a case. Cost: linear in the text.
"""

import re
from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import CODE, LABELLED_SCORE, Label, LabelledValue, labelled_scan, phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Recogniser, Scan, matches, matches_in, merged, texts_of

_TEXTS = texts_of(__name__)
_NOUNS = phrases(_TEXTS["nouns"])

# A number and a year, after a word that needs no word for "number": `autos 123/2019`, `case 214/19`, `RG 19/01234`.
_SLASHED = LabelledValue(
    r"(?!(?:19|20)\d\d/\d\d\Z)(?:[A-Z]{1,4}[-/])?(?:\d{1,7}/(?:19|20)\d{2}|\d{3,7}/\d{2}|\d{2}/\d{4,6})"
    r"(?:[./-][A-Z0-9]{1,8}){0,3}|[CTF]-\d{1,4}/\d{2}(?: P)?"
    r"|(?!CVE)[A-Z]{2,4}-(?:19|20)\d{2}-\d{3,7}|(?:20)?\d{2}-[A-Z]{1,4}-\d{3,7}"
)

FORM_SCORE = 0.7
BARE_SCORE = 0.6
_FORMS = tuple(map(regex.compile, _TEXTS["forms"]))
# every form holds one of these
_MARKS = re.compile(
    r"[\dCB]/\d\d|\d:\d\d-?[cmbapCMBAP]|\d-(?:cv|cr|civ|crim|CV|CR|CIV|CRIM)-|ECLI|Civ\.|Cr\.|\d-\d\d\.\d"
    r"|(?:HA|KG|FA) [ZR]|AWB|EXPL|(?:[Aa][Zz]|G[Zz]|Aktenz)[.:]"
)
_SLASH = re.compile(r"\d/\d\d|[A-Za-z]-\d")
_CHARS = 60
_BARE = regex.compile(
    rf"(?<![\p{{L}}\d])(?:{_TEXTS['before']})[ \u00a0]?(?P<first>\d{{3,6}}/\d{{2}})(?![\d/%]|[.,-]\d)"
    r"(?P<more>(?:,? (?:and|und|et|y|e|en|i|oraz)? ?\d{3,6}/\d{2}(?![\d/%]|[.,-]\d)){0,20})",
    regex.IGNORECASE,
)
_NUMBER = regex.compile(r"\d{3,6}/\d{2}")
_OPENING = regex.compile(rf"(?r)(?:{_TEXTS['opening']})\Z", regex.IGNORECASE)
OTHER_THINGS = regex.compile(_TEXTS["other_things"], regex.IGNORECASE)
_CHARS_BEFORE = 70


def _formed(text: str) -> Iterator[Hit]:
    parts = merged(
        (max(0, mark.start() - _CHARS), min(len(text), mark.end() + _CHARS)) for mark in _MARKS.finditer(text)
    )
    for pattern in _FORMS if parts else ():
        for match in matches_in(pattern, text, parts):
            yield Hit(match.start(), match.end(), FORM_SCORE)


def _slashed(label: Label) -> Scan:
    scan = labelled_scan(label, _SLASHED)
    return lambda text: scan(text) if _SLASH.search(text) else iter(())


def _bare(text: str) -> Iterator[Hit]:
    """Yield the numbers after `no.` alone: `(no. 18403/91)`, `Smith v. Utopia, nos. 18403/91 and 2210/92`."""
    for match in matches(_BARE, text):
        first = max(0, match.start() - _CHARS_BEFORE)
        if not _OPENING.search(text, first, match.start(), timeout=REGEX_TIMEOUT_S):
            continue
        if OTHER_THINGS.search(text, first, match.start(), timeout=REGEX_TIMEOUT_S):
            continue
        for number in _NUMBER.finditer(text, match.start("first"), match.end()):
            yield Hit(number.start(), number.end(), BARE_SCORE)


def recognisers() -> tuple[Recogniser, ...]:
    label = Label(names=phrases(_TEXTS["names"]), nouns=_NOUNS, numbers=phrases(_TEXTS["numbers"]), far=False)
    return (
        Recogniser("CASE_NUMBER", labelled_scan(label, CODE, score=LABELLED_SCORE), digits_min=3, copies=True),
        Recogniser("CASE_NUMBER", _slashed(Label(names=_NOUNS, far=False)), digits_min=3, copies=True),
        Recogniser("CASE_NUMBER", _formed, digits_min=3),
        Recogniser("CASE_NUMBER", _bare, digits_min=5),
    )
