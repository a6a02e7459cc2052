"""Payment cards, IBANs, US social security numbers, SWIFT codes (ISO 9362) and machine-readable lines of passports.

Presidio's recognisers have defects for the first three types. Its card pattern misses the 2-series, 19 digits and
separators other than space and hyphen. Its IBAN check logs the string it receives. Its SSN rule drops the numbers that
are commonly typed as examples.
"""

import re
from collections.abc import Iterator

import phonenumbers
import regex  # type: ignore[import-untyped]
from stdnum import luhn

from core.text.labelled import LABELLED_SCORE, Label, phrases
from core.text.recogniser import Hit, Pattern, Recogniser, context_of, matches, pattern_scan, shared

# ---------------------------------------------------------------- cards

CARD_DIGITS_MIN = 12
CARD_DIGITS_MAX = 19
_SEPARATOR = r"[ \u00a0\u2007\u2009\u202f.\-_/\u2010-\u2015\u2212]"
_RUN = regex.compile(rf"(?<!\d)\d++(?:{_SEPARATOR}{{1,2}}+\d++)*+")
_GROUP = regex.compile(r"\d+")
_BRANDS = regex.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|09|[689]\d)\d{11,16}"  # Diners Club
    r"|6(?:011|4[4-9]\d|5\d{2}|2\d{2})\d{12,15}"  # Discover, UnionPay
    r"|(?:35\d{2}\d{12,15}|2131\d{11}|1800\d{11})"  # JCB
    r"|(?:50|5[6-9]|6\d)\d{10,17}"  # Maestro
)


def _card_score(digits: str) -> float:
    brand = _BRANDS.fullmatch(digits) is not None
    if luhn.is_valid(digits) and digits.strip(digits[0]):
        return 0.9 if brand else (0.5 if len(digits) >= 13 else 0.3)
    return 0.25 if brand and len(digits) >= 13 else 0.05


def _card_like(lengths: list[int]) -> bool:
    """Whether the groups are one group, fours with another last length, or as on American Express and Diners Club."""
    return len(lengths) == 1 or lengths[:3] == [4, 4, 4] or lengths in ([4, 6, 5], [4, 6, 4])


def _card(text: str) -> Iterator[Hit]:
    for run in matches(_RUN, text):
        groups = [match.span() for match in _GROUP.finditer(text, *run.span())]
        done = -1
        for first, (start, _) in enumerate(groups):
            if start < done:
                continue
            digits, best = "", Hit(0, 0, 0.0)
            lengths: list[int] = []
            whole = first == 0
            for group_start, group_end in groups[first : first + CARD_DIGITS_MAX + 1]:
                digits += text[group_start:group_end]
                lengths.append(group_end - group_start)
                if not whole and len(lengths) > 1 and lengths[:2] not in ([4, 4], [4, 6]):
                    break
                if len(digits) > CARD_DIGITS_MAX:
                    break
                if len(digits) < CARD_DIGITS_MIN:
                    continue
                score = _card_score(digits)
                if not (whole and group_end == run.end()) and (score < 0.9 or not _card_like(lengths)):
                    score = 0.0  # a part of a longer run needs checksum, brand and a card's grouping
                if score and score >= best.score:
                    best = Hit(start, group_end, score)
            if best.score:
                done = best.end if best.score >= 0.5 else done
                yield best


# ---------------------------------------------------------------- IBAN

_COUNTRIES = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
    "YE30"
)  # country and length, ISO 13616 registry
IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _COUNTRIES.split(" ")}
_IBAN_HEAD = regex.compile(
    rf"(?<![^\W_])([A-Z]{{2}}){_SEPARATOR}?\d{_SEPARATOR}?\d(?={_SEPARATOR}{{0,2}}[A-Z0-9])", regex.IGNORECASE
)
_IBAN_SEPARATOR = regex.compile(rf"{_SEPARATOR}{{1,2}}")


def iban_valid(iban: str) -> bool:
    """Whether an IBAN without separators passes mod 97 of ISO 13616."""
    turned = iban[4:] + iban[:4]
    return int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


def _iban(text: str) -> Iterator[Hit]:
    for head in matches(_IBAN_HEAD, text):
        length = IBAN_LENGTHS.get(head.group(1).upper())
        if length is None:
            continue
        letters: list[str] = []
        at = head.start()
        while len(letters) < length:
            gap = _IBAN_SEPARATOR.match(text, at) if letters else None
            step = gap.end() if gap else at
            char = text[step : step + 1]
            if not (char.isascii() and char.isalnum()):
                break
            letters.append(char)
            at = step + 1
        if len(letters) == length and not text[at : at + 1].isalnum():
            yield Hit(head.start(), at, 1.0 if iban_valid("".join(letters)) else 0.3)


# ---------------------------------------------------------------- SSN

_DASH = r"\-\u2010-\u2015\u2212"
_SSN = (
    Pattern(regex.compile(rf"(?<![\d{_DASH}])\d{{3}}([ .{_DASH}])\d{{2}}\1\d{{4}}(?![\d]|[{_DASH}]\d)"), 0.65),
    Pattern(
        regex.compile(
            rf"(?<![\d{_DASH}])\d{{3}}[ .{_DASH}]{{1,2}}\d{{2}}[ .{_DASH}]{{1,2}}\d{{4}}(?![\d]|[{_DASH}]\d)"
        ),
        0.45,
    ),
    Pattern(regex.compile(r"(?<!\d)\d{9}(?!\d)"), 0.05),
    Pattern(regex.compile(rf"(?<!\d)(?:\d{{5}}[{_DASH}]\d{{4}}|\d{{3}}[{_DASH}]\d{{6}})(?!\d)"), 0.1),
)


# ---------------------------------------------------------------- SWIFT (ISO 9362)

_BIC = regex.compile(r"(?<![\w-])[A-Z]{4}([A-Z]{2})[A-Z0-9]{2}([A-Z0-9]{3})?(?![\w-])", regex.IGNORECASE)
_UPPER_WITH_DIGIT = re.compile("[A-Z\u0130\u212a]{6}[A-Z0-9\u0130\u212a]{0,4}[0-9]")
_BIC_COUNTRIES = frozenset(phonenumbers.SUPPORTED_REGIONS)
_BIC_LABEL = Label(
    names=phrases(
        "BIC|BIC code|BIC/SWIFT|SWIFT/BIC|SWIFT-BIC|SWIFT code|SWIFT number|SWIFT address|code BIC|code SWIFT|"
        "código SWIFT|código BIC|codice SWIFT|codice BIC|kod SWIFT|kod BIC"
    )
)
_SWIFT_LABEL = regex.compile(r"(?r)(?<![^\W_])SWIFT[ \t]*[:=#(][\s\"'*]{0,4}\Z", regex.IGNORECASE)


_PAID_THROUGH = regex.compile(
    r"(?r)(?<!\p{L})(?:[Ww]ired?|[Rr]emit|[Tt]ransfer(?:red)?|[Pp]ay(?:ment|able)?|[Üü]berweis\p{L}{1,6}|[Vv]irement"
    r"|[Tt]ransferencia|[Bb]onifico|[Oo]verboeking|[Tt]ransferência|[Pp]rzelew)[ ](?:\p{Ll}{1,10}[ ]){0,2}"
    r"(?:via|through|to|über|an|par|por|tramite|para|przez|do)[ ]\Z"
)
# Each code that counts is beside one of these, or ends with the last one.
_SWIFT_WORDS = (
    *("bic", "swift", "wire", "remit", "transfer", "pay", "berweis", "virement", "bonifico", "overboeking", "przelew"),
    "xxx",
)


def _paid_through(text: str, start: int) -> bool:
    """Whether money goes through the bank whose code starts at `start`. The code holds a digit: words in capitals do
    not."""
    code = text[start : start + 8]
    return any(map(str.isdecimal, code)) and _PAID_THROUGH.search(text, max(0, start - 50), start) is not None


def _codes(text: str) -> list[regex.Match[str]]:
    """Return what has the form of a code, in capital or in small letters, with the code of a country."""
    return [
        match
        for match in matches(_BIC, text)
        if match.group(1).upper() in _BIC_COUNTRIES and (match.group().isupper() or match.group().islower())
    ]


def _labelled_code(text: str) -> Iterator[Hit]:
    """Yield codes after a label and those of a head office (XXX). Words have this form too: `business`, NE is Niger."""
    if not any(map(shared(text, str.lower).__contains__, _SWIFT_WORDS)):
        return
    for match in shared(text, _codes):
        start, end = match.span()
        if (
            _BIC_LABEL.score(text, start)
            or _SWIFT_LABEL.search(text, max(0, start - 12), start)
            or _paid_through(text, start)
        ):
            yield Hit(start, end, LABELLED_SCORE)
        elif match.group(2) == "XXX":
            yield Hit(start, end, 0.6)


def _code_with_digit(text: str) -> Iterator[Hit]:
    for match in shared(text, _codes):
        if match.group().isupper() and any(map(str.isdecimal, match.group())):
            yield Hit(match.start(), match.end(), 0.1)


# ---------------------------------------------------------------- machine-readable lines (ICAO 9303)

_LINE = regex.compile(r"(?<![\w<])[A-Z0-9<]{30,44}+(?![\w<])")
_NAMES = regex.compile(r"(?:[PVIAC][A-Z<][A-Z<]{3})?[A-Z]+(?:<[A-Z]+)*<<[A-Z<]*")
_LINE_LENGTHS = (30, 36, 44)
_CHECK_VALUES = {char: place for place, char in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")} | {"<": 0}
# Fields that the digit after them checks, for each kind of line.
_FIELDS = {
    44: (((0, 9), (13, 19), (21, 27)),),
    36: (((0, 9), (13, 19), (21, 27)),),
    30: (((5, 14),), ((0, 6), (8, 14))),
}


def _checked(line: str, start: int, end: int) -> bool:
    total = sum(_CHECK_VALUES[char] * (7, 3, 1)[place % 3] for place, char in enumerate(line[start:end]))
    return line[end : end + 1] == str(total % 10)


def machine_readable(text: str) -> Iterator[Hit]:
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
    card = "credit debit card cards visa mastercard amex american express discover jcb diners maestro cc payment pan"
    ssn = ("social security", "social-security", "social", "ssn", "ss#", "ssid", "ss number", "tax id", "tin")
    return (
        Recogniser("CREDIT_CARD", _card, context_of(card.split()), digits_min=CARD_DIGITS_MIN),
        Recogniser(
            "IBAN_CODE", _iban, context_of(("iban", "bank", "account", "transfer", "swift", "bic")), digits_min=2
        ),
        Recogniser("US_SSN", pattern_scan(_SSN), context_of(ssn), digits_min=9),
        Recogniser("SWIFT_CODE", _labelled_code, copies=True),
        Recogniser(
            "SWIFT_CODE", _code_with_digit, context_of(("BIC", "SWIFT", "IBAN")), digits_min=1, sign=_UPPER_WITH_DIGIT
        ),
    )
