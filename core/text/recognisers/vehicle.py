"""Vehicles: licence plates and vehicle identification numbers (ISO 3779)."""

import re
from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import LABELLED_SCORE, Label, phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Pattern, Recogniser, context_of, matches, pattern_scan, texts_of

_TEXTS = texts_of(__name__)

_PLATE_WORDS = phrases(_TEXTS["plate_words"])
# Words that mean other registrations too, and so name a plate only directly before it.
_AMBIGUOUS = set(phrases("registration|registration number|reg|reg no|reg number|plate|plates|patente|placa"))

# A plate after a label: one to three groups of capitals and digits, 4 to 8 in all, with at least one of each.
_GROUP = "[A-ZÄÖÜ0-9]{1,7}"
_END = r"(?![\w]|-\w)"
_GROUPS = tuple(
    regex.compile(rf"{_GROUP}(?:[ \u00a0·•-]{_GROUP}){{{more}}}{_END}") for more in (2, 1, 0)
)  # longest first
_SMALL = regex.compile(
    rf"(?:[a-z]{{2}}\d{{2}} [a-z]{{3}}|\d{{4}} [a-z]{{3}}|[a-zäöü]{{1,3}}[ -][a-z]{{1,2}} \d{{1,4}}"
    rf"|[a-z0-9]{{1,7}}(?:-[a-z0-9]{{1,5}}){{0,2}}){_END}"
)
_PLATE_CHARS = range(4, 9)
BESIDE_SCORE = 0.6
_DIGITS = re.compile(r"[0-9]+")
_LETTERS_BEFORE = regex.compile(r"(?r)(?<![\w-])[A-ZÄÖÜ]{1,4}(?:[ \-][A-Z]{1,3})?[ \u00a0·•\-]?\Z", regex.IGNORECASE)
# Plates near a label word.
_CAPITAL_FORMS = (
    Pattern(
        regex.compile(_TEXTS["capital_forms"]),
        0.1,
    ),
)

# German plates in small letters, as people type them, near a word for a vehicle.
_SMALL_FORMS = (Pattern(regex.compile(r"(?<![\w-])[a-zäöü]{1,3}-[a-z]{1,2}[ -]?\d{1,4}[eh]?(?![\w]|[-.,:]\w)"), 0.1),)
_VEHICLES = phrases(_TEXTS["vehicles"])

# Plates after a word for a vehicle and at most four words, or directly before one: `Das Auto RO-KG 418`, `the grey van
# with AB12 CDE`, `AB-123-CD, une voiture`. The Polish form is that of other codes too, so that its words are Polish.
_VEHICLE_WORDS = phrases(_TEXTS["vehicle_nouns"])
_STANDARDS, _NO_PLATE = _TEXTS["standards"], _TEXTS["no_plates"]
_PLATE_END = r"(?![\w%€$£]|[.,/:-]\w)"


def _beside(nouns: str, forms: str) -> tuple[regex.Pattern[str], regex.Pattern[str], regex.Pattern[str]]:
    """Return the patterns of a plate, of what may precede it, and of what may follow it."""
    between = r"(?:[ ]\p{L}[\p{L}'’.-]{0,14}){0,4}?[\"']?[ ]?[(:,=]{0,2}[ ]?[\"'„“]?"
    return (
        regex.compile(rf"(?!{_STANDARDS}[ -]|{_NO_PLATE}[ -]?\d)(?:{forms}){_PLATE_END}"),
        regex.compile(rf"(?r)(?<![\p{{L}}\d])(?:{nouns}){between}\Z", regex.IGNORECASE),
        regex.compile(rf"[)\"”']?,?[ ](?:\p{{L}}{{1,12}}[ ]){{0,2}}?(?:{nouns})(?!\p{{L}})", regex.IGNORECASE),
    )


_BESIDE = (
    _beside(_TEXTS["vehicle_nouns"], _TEXTS["beside_forms"]),
    _beside(_TEXTS["polish_nouns"], _TEXTS["polish_forms"]),
)
VEHICLE_CHARS = 80
# where a plate may start; `re` finds the places in a tenth of the time
_CAPITALS = re.compile(r"[A-ZÄÖÜ0-9](?<![\w.,/:-].)(?=[A-ZÄÖÜ0-9]{0,3}[ -]?[A-Z0-9])(?=[A-ZÄÖÜ0-9 -]{0,8}[0-9])")


def _beside_vehicle(text: str) -> Iterator[Hit]:
    low = text.lower()
    if not any(word in low for word in _VEHICLE_WORDS):
        return
    starts = [found.start() for found in _CAPITALS.finditer(text)]
    for plate, before, after in _BESIDE:
        for start in starts:
            match = plate.match(text, start, timeout=REGEX_TIMEOUT_S)
            first = max(0, start - VEHICLE_CHARS)
            if match is None:
                continue
            if before.search(text, first, start, timeout=REGEX_TIMEOUT_S) or after.match(
                text, match.end(), timeout=REGEX_TIMEOUT_S
            ):
                yield Hit(match.start(), match.end(), BESIDE_SCORE)


_LABEL = Label(names=_PLATE_WORDS)


def _labelled_plate(text: str) -> Iterator[Hit]:
    if not _LABEL.may_occur(text):
        return
    done = 0
    for digits in _DIGITS.finditer(text):
        if digits.start() < done:
            continue
        for start in _plate_starts(text, digits.start()):
            share = _LABEL.score(text, start)
            if share and (end := _plate_end(text, start)):
                done = end
                yield Hit(start, end, LABELLED_SCORE * share)
                break


def _plate_starts(text: str, digits: int) -> list[int]:
    """Return where a plate may start whose first digit is at `digits`: there, or at letters before it."""
    places = [digits] if digits == 0 or not text[digits - 1].isalnum() else []
    for chars in (5, 9):
        if letters := _LETTERS_BEFORE.search(text, max(0, digits - chars), digits):
            places.append(letters.start())
    # Capitals after small letters belong to the plate (`placa O 1234 AB`), even if they are a word (`o`).
    capitals = (
        text[places[-1]].isupper() and not text[max(0, places[-1] - 3) : places[-1]].isupper() if places else False
    )
    return places[::-1] if capitals else places


def _plate_end(text: str, start: int) -> int | None:
    for pattern in (*_GROUPS, _SMALL):
        if plate := pattern.match(text, start):
            chars = [char for char in plate.group() if char.isalnum()]
            if len(chars) in _PLATE_CHARS and any(map(str.isdigit, chars)) and any(map(str.isalpha, chars)):
                return int(plate.end())
    return None


# ---------------------------------------------------------------- vehicle identification numbers

_VIN = regex.compile(r"(?<![\w-])[A-HJ-NPR-Z0-9]{17}(?![\w@-])", regex.IGNORECASE)
_VIN_WORDS = phrases(_TEXTS["vin_words"])
_VIN_VALUES = {char: place for place, char in enumerate("0123456789")} | dict(
    zip("ABCDEFGHJKLMNPRSTUVWXYZ", (1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 7, 9, 2, 3, 4, 5, 6, 7, 8, 9), strict=True)
)
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def vin_check(vin: str) -> str:
    """Return the check digit (place 9) that a VIN of 17 capital characters must have."""
    total = sum(_VIN_VALUES.get(char, 0) * weight for char, weight in zip(vin, _VIN_WEIGHTS, strict=True))
    return "0123456789X"[total % 11]


def _vin(text: str) -> Iterator[Hit]:
    """A valid check digit passes alone in capitals that end in four digits, as all makers number their vehicles."""
    for match in matches(_VIN, text):
        vin = match.group()
        digits = sum(map(str.isdecimal, vin))
        if digits < 4 or digits == len(vin):
            continue
        strict = vin.isupper() and vin[13:].isdecimal() and vin_check(vin) == vin[8]
        yield Hit(match.start(), match.end(), 0.6 if strict else 0.1)


def recognisers() -> tuple[Recogniser, ...]:
    near = [word for word in _PLATE_WORDS if word not in _AMBIGUOUS]
    return (
        Recogniser("LICENSE_PLATE", _labelled_plate, digits_min=1, copies=True),
        Recogniser("LICENSE_PLATE", pattern_scan(_CAPITAL_FORMS), context_of(near), digits_min=1),
        Recogniser("LICENSE_PLATE", pattern_scan(_SMALL_FORMS), context_of(_VEHICLES), digits_min=1),
        Recogniser("LICENSE_PLATE", _beside_vehicle, digits_min=1),
        Recogniser("VIN", _vin, context_of(_VIN_WORDS), digits_min=4),
    )
