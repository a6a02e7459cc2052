"""Finds surrogates that a model wrote in another form: numbers, dates, and parts of addresses and of numbers.

The forms of one surrogate are too many for a tree of keys. A number is found by its digits, in any groups and with any
separators between them, a telephone number with or without its country code. A date is found in any form that
`core.text.surrogates.dates` reads, in the eight languages. Parts of addresses are found in any letter case. Each is
restored in the form in which it is written.

A short part, such as the last four digits of a card or the number of a building, is found only after a label: words
before it, or the key of its JSON value. The result depends on the text alone and not on how it is cut.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import cache
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import longest_first
from core.text.recogniser import texts_of
from core.text.reversible.key_tree import UNDECIDED, Found
from core.text.reversible.lexing import OTHER, SPACE, folded_text, kind, lex, normal
from core.text.reversible.mapping import BARE, DATE, LABELLED, PLACE, Rewriting
from core.text.surrogates.dates import month_words, read_date, weekday_words
from core.text.surrogates.draw import alphanumerics, cased, laid_out

BUILDING_TOKENS_MAX = 5  # marks between a street and the number of a building
PLUS = "+"  # a space in a URL
PHRASE_TOKENS_MAX = 24
NUMBER_TOKENS_MAX = 40
PHONE_DIGITS_MAX = 20
PHONE_DIGITS_MIN = 7
DATE_TOKENS_MAX = 14
DATE_CHARS_MIN = 5  # `1 May`
ENDING_DIGITS = 4

BUILDING, REGION, CODE, ENDING = "building", "region", "code", "ending"
_JOIN = r"(?:\s(?:is|ist|lautet|est|es|è|é|to|são|wynosi|of))?[\s\"'*_`:=.()\[\]{}#<>-]{0,6}"
_LABELS = texts_of(__name__)
_LABEL = {
    name: regex.compile(rf"(?r)(?<![^\W_])(?:{words}){_JOIN}\Z", regex.IGNORECASE) for name, words in _LABELS.items()
}
_LABEL[ENDING] = regex.compile(rf"(?r)(?:(?<![^\W_])(?:{_LABELS[ENDING]})|[*•·.…#]{{2,}}|…){_JOIN}\Z", regex.IGNORECASE)
_MONEY = regex.compile(r"(?r)(?:\p{Sc}|\d[.,]|\b(?:EUR|USD|GBP|CHF|PLN))\s?\Z")
_HEAD_CHARS = 2
_AFTER_DATES = "TtrR"  # in the last token of a date: `1984-10-31T10:00`, `1984r.`
_HIDDEN = regex.compile(r"[xX]*+\d{0,4}")  # the token of `XXXX6562`, or its beginning
_HYPHENS = frozenset("-‐‑–./() \u00a0")
_STREET_MARKS = frozenset((" ", ",", "nº", "n", "no", "nr", "º", "°", "."))


def follows_label(name: str, before: str) -> bool:
    """Whether a text ends with a label of the kind."""
    return bool(_LABEL[name].search(before))


class Place(NamedTuple):
    """A part of a surrogate and of its original. `building`: it is a street, after which its number may follow."""

    written: str
    other: str
    building: bool = False

    def __repr__(self) -> str:
        return "Place()"


class Phone(NamedTuple):
    """The national numbers of a surrogate and its original, and the calling code of both."""

    code: str
    written: str
    other: str

    def __repr__(self) -> str:
        return "Phone()"


class Phrases:
    """Phrase in small letters -> value. Phrases are found in any letter case."""

    def __init__(self, values: Mapping[str, Place]) -> None:
        self._values: dict[str, Place] = {}
        self._sizes: dict[str, int] = {}  # first token -> the tokens of the longest phrase that begins with it
        for written, value in values.items():
            tokens = lex(written).tokens
            if tokens and len(tokens) <= PHRASE_TOKENS_MAX:
                first = _folded(tokens[0])
                self._values[folded_text(written).replace(PLUS, SPACE)] = value
                size = len(tokens) + (BUILDING_TOKENS_MAX + 1 if value.building else 0)
                self._sizes[first] = max(self._sizes.get(first, 0), size)
        self._first = sorted(self._sizes)

    @property
    def first_tokens(self) -> frozenset[str]:
        """The first tokens of all phrases, in small letters."""
        return frozenset(self._sizes)

    def may_start(self, part: str) -> bool:
        return _begins(self._first, part.casefold())

    def longest(self, tokens: list[str], at: int, least: int, *, more: bool) -> tuple[int, Place] | str | None:
        """Return the end of the longest phrase from the token `at` on, and its value; nothing if no phrase ends after
        `least`. `more`: a token that is not complete follows the last one."""
        size = self._sizes.get(tokens[at].casefold())
        if size is None or at + size <= least:
            return None
        if more and at + size > len(tokens):
            return UNDECIDED
        written, found = "", None
        for end, token in enumerate(tokens[at : at + size], at + 1):
            written += _folded(token)
            if (value := self._values.get(written)) is not None:
                found = end, value
        return found


def _folded(token: str) -> str:
    return SPACE if token == PLUS else normal(token).casefold()


def _begins(texts: list[str], part: str) -> bool:
    at = bisect_left(texts, part)
    return at < len(texts) and texts[at].startswith(part)


class Forms(NamedTuple):
    """What is found. `places`: parts of addresses. `buildings`: street in small letters, a line break, the number of a
    building -> that of the original. `labelled`: kind of label -> what is found after it. `numbers`: letters and digits
    of a number, in small letters -> those of the original. `phones`: by the national number. `dates`: as in
    `1984-10-31`, `1984-10` or `10-31`."""

    places: Mapping[str, Place]
    buildings: Mapping[str, str]
    labelled: Mapping[str, Mapping[str, str]]
    numbers: Mapping[str, str]
    phones: Mapping[str, Phone]
    dates: Mapping[str, str]
    language: str
    day_first: bool

    def __repr__(self) -> str:
        return "Forms()"


class Rewritten:
    """Finds the forms. It does not change."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms._replace(places={}, labelled={})
        self._places = Phrases(forms.places)
        self._labelled = {
            name: Phrases({key: Place(key, other) for key, other in found.items()})
            for name, found in forms.labelled.items()
        }
        self._numbers = sorted(forms.numbers)
        self._codes = frozenset(phone.code for phone in forms.phones.values())
        self._digits = bool(forms.phones or forms.dates)
        self._endings = ENDING in self._labelled
        # What a find that does not begin with a digit begins with: whole tokens, and the first characters of numbers.
        self._words = self._places.first_tokens.union(*(each.first_tokens for each in self._labelled.values()))
        self._heads = frozenset(number[:_HEAD_CHARS] for number in self._numbers if not number[0].isdecimal())

    def may_start(self, part: str) -> bool:
        """Whether a form begins with a token that begins with `part`."""
        return part[:1].isalnum() and (
            (self._digits and part[:1].isdecimal())
            or (self._endings and bool(_HIDDEN.fullmatch(part)))
            or self._places.may_start(part)
            or any(phrases.may_start(part) for phrases in self._labelled.values())
            or _begins(self._numbers, alphanumerics(part).casefold())
            or (bool(self._forms.dates) and _begins(_date_words(), part.casefold()))
        )

    def match(self, tokens: list[str], at: int, end: int, *, more: bool, before: Callable[[], str]) -> Found | None:
        """Return the longest find at a token that ends after `end`: its end and a `Rewriting`, or that more of the text
        is needed. `more`: a token that is not complete follows the last one. `before`: gives the text before the token,
        or its end."""
        best: Found | None = None
        for found in (
            self._place(tokens, at, end, more, before),
            self._number(tokens, at, more),
            self._date(tokens, at, more, end),
            self._short(tokens, at, end, more, before),
        ):
            if found is None:
                continue
            if found.value is None:
                return found
            if found.end > end:
                best, end = found, found.end
        return best

    def begins_with(self, token: str) -> bool:
        """Whether a form may begin with a whole token."""
        first = token[0]
        if first.isdecimal():
            return True
        if not first.isalpha():
            return False
        folded = token.casefold()
        return (
            folded in self._words
            or folded[:_HEAD_CHARS] in self._heads
            or (self._endings and first in "xX" and bool(_HIDDEN.fullmatch(token)))
            or (bool(self._forms.dates) and folded in _date_names())
        )

    def _place(self, tokens: list[str], at: int, least: int, more: bool, before: Callable[[], str]) -> Found | None:
        found = self._places.longest(tokens, at, least, more=more)
        if found is None:
            return None
        if isinstance(found, str):
            return Found(at, None)
        end, place = found
        plain = "".join(tokens[at:end])
        if place.written.isdecimal() and _MONEY.search(before()):
            return None
        other = _like(plain, place)
        if not place.building:
            return Found(end, Rewriting(PLACE, place.written, other, plain))
        number = end
        while number < len(tokens) and number < end + BUILDING_TOKENS_MAX and _folded(tokens[number]) in _STREET_MARKS:
            number += 1
        if number == len(tokens):
            if more:
                return Found(at, None)
        elif number > end:
            building = self._forms.buildings.get(f"{place.written.casefold()}\n{tokens[number].casefold()}")
            if building:
                between = "".join(tokens[end:number])
                whole = "".join(tokens[at : number + 1])
                return Found(number + 1, Rewriting(PLACE, place.written, other + between + building, whole))
        return Found(end, Rewriting(PLACE, place.written, other, plain))

    def _short(self, tokens: list[str], at: int, least: int, more: bool, before: Callable[[], str]) -> Found | None:
        for name, phrases in self._labelled.items():
            token, hidden = tokens[at], ""
            if name == ENDING and len(token) > ENDING_DIGITS + 1 and _HIDDEN.fullmatch(token):
                hidden, token = token[:-ENDING_DIGITS], token[-ENDING_DIGITS:]
            found = (
                phrases.longest([token], 0, 0, more=False) if hidden else phrases.longest(tokens, at, least, more=more)
            )
            if found is None:
                continue
            if isinstance(found, str):
                return Found(at, None)
            end, place = (at + 1, found[1]) if hidden else found
            if hidden or _LABEL[name].search(before()):
                plain = "".join(tokens[at:end])
                other = hidden + _like(plain, place)
                return Found(end, Rewriting(LABELLED, f"{name} {place.written}", other, plain))
        return None

    def _number(self, tokens: list[str], at: int, more: bool) -> Found | None:
        if not (self._numbers or self._codes):
            return None
        written, best = "", None
        end = at
        while end < len(tokens) and end < at + NUMBER_TOKENS_MAX:
            token = tokens[end]
            if token[:1].isalnum() and kind(token) != OTHER:
                written += alphanumerics(token).casefold()
                end += 1
                if other := self._original(written):
                    best = end, other
                if not self._goes_on(written):
                    break
            elif token in _HYPHENS or (token.isspace() and len(token) < 3 and "\n" not in token):
                end += 1
            else:
                break
        else:
            if more and end == len(tokens):
                return Found(at, None)
        if best is None:
            return None
        end, (key, digits) = best
        plain = "".join(tokens[at:end])
        return Found(end, Rewriting(BARE, key, laid_out(plain, digits), plain))

    def _goes_on(self, written: str) -> bool:
        if self._codes and written.isdecimal() and len(written) < PHONE_DIGITS_MAX:
            return True
        return _begins(self._numbers, written)

    def _original(self, written: str) -> tuple[str, str] | None:
        """Return the number that is found, and the digits of its original as many as `written` has."""
        if other := self._forms.numbers.get(written):
            return written, other
        if not self._codes or len(written) < PHONE_DIGITS_MIN or not written.isdecimal():
            return None
        phones = self._forms.phones
        for national in (written, written[1:] if written[0] == "0" else ""):
            if phone := phones.get(national):
                return national, written[: len(written) - len(national)] + phone.other
        full = written[2:] if written.startswith("00") else written
        for size in (1, 2, 3):
            code, national = full[:size], full[size:]
            if code in self._codes:
                for each in (national, national[1:] if national[:1] == "0" else ""):
                    phone = phones.get(each)
                    if phone and phone.code == code:
                        return each, written[: len(written) - len(each)] + phone.other
        return None

    def _date(self, tokens: list[str], at: int, more: bool, least: int) -> Found | None:
        """`least`: a date that ends there, or before, is not read."""
        dates = self._forms.dates
        first = tokens[at].casefold()
        if not dates or not (first[0].isdecimal() or first in _date_names()):
            return None
        end = at
        while end < len(tokens) and end < at + DATE_TOKENS_MAX and _is_in_date(tokens[end]):
            end += 1
        if more and end == len(tokens) and end < at + DATE_TOKENS_MAX:
            return Found(at, None)
        if end > at and tokens[end - 1].isspace():
            end -= 1
        written = "".join(tokens[at:end])
        if end <= least or len(written) < DATE_CHARS_MIN or not (found := _date_form().match(written)):
            return None
        size, end = found.end(), at
        while size > 0:
            size -= len(tokens[end])
            end += 1
        if end <= least:
            return None
        plain = "".join(tokens[at:end])
        head = found.group()
        if (size < 0 and plain[len(head) : len(head) + 1] not in _AFTER_DATES) or (moved := self._moved(head)) is None:
            return None
        key, other = moved
        return Found(end, Rewriting(DATE, key, other + plain[len(head) :], plain))

    def _moved(self, written: str) -> tuple[str, str] | None:
        """Return the key of a date and the date of the original in the form of `written`."""
        for day_first in (self._forms.day_first, not self._forms.day_first):
            found = read_date(written, _language_of(written) or self._forms.language, day_first)
            if found is None:
                continue
            day = found.day_at is not None or bool(found.compact)
            key = f"{found.month:02d}-{found.day:02d}" if day else f"{found.month:02d}"
            key = f"{found.year:04d}-{key}" if found.year_at is not None else key
            other = self._forms.dates.get(key)
            if other is None:
                continue
            numbers = [int(number) for number in other.split("-")]
            if found.year_at is None:
                numbers = [found.year, *numbers]
            new = _date_of(numbers if day else [*numbers, 1])
            if new:
                return key, found.at(new, (new - date(found.year, found.month, found.day)).days)
        return None


_GERMAN_DATE = regex.compile(r"\d\.[ ]?\p{L}")
_ENGLISH_DATE = regex.compile(r"\p{L}+\.?[ ]\d{1,2}(?:st|nd|rd|th)?,[ ]\d{4}|.*\d(?:st|nd|rd|th)\b")


def _language_of(written: str) -> str | None:
    """Return the language of a date by its form, for a name of a month that several languages have."""
    return "de" if _GERMAN_DATE.search(written) else "en" if _ENGLISH_DATE.match(written) else None


def _date_of(numbers: Iterable[int]) -> date | None:
    try:
        return date(*numbers)
    except (ValueError, TypeError):
        return None


def _like(plain: str, place: Place) -> str:
    """Return the part of the original in the letter case of `plain`."""
    return place.other if plain == place.written else cased(plain, place.other)


_LINKS = frozenset(("of", "the", "de", "del", "do", "den", "dnia", "el", "le", "il", "d"))
_DATE_MARKS = frozenset((" ", ",", ".", "-", "/", "'", "’", "–", "º", "°", "ª"))


@cache
def _date_names() -> frozenset[str]:
    return month_words() | weekday_words()


@cache
def _date_words() -> list[str]:
    return sorted(_date_names())


def _is_in_date(token: str) -> bool:
    if token[0].isdecimal():
        return len(token) <= 12
    if token.isspace():
        return len(token) == 1 and token.isprintable()
    folded = token.casefold()
    return folded in _DATE_MARKS or folded in _LINKS or folded in _date_names()


@cache
def _date_form() -> regex.Pattern[str]:
    """Return the pattern of a date, of a month with its year, and of a day with its month."""
    month, weekday = longest_first(month_words()), longest_first(weekday_words())
    link, end = r"(?:[ ]?(?:of|del|de|do)[ ]|[ ]?d['’])", r"(?!\d)(?![./-]\d)"
    year = rf"(?:,?[ ](?:(?:del|de|of|do)[ ])?\d{{4}}|[-/.]\d{{4}}|[-/.]\d{{2}}|[ ]?['’]\d{{2}}){end}"
    return regex.compile(
        rf"\d{{4}}(?P<a>[-/.])\d{{1,2}}(?P=a)\d{{1,2}}{end}"
        rf"|\d{{1,2}}(?P<b>[-/.]|\.?[ ])\d{{1,2}}(?P=b)(?:\d{{4}}|\d{{2}}){end}"
        rf"|\d{{8}}{end}|\d{{1,2}}[-/.]\d{{4}}{end}|\d{{4}}[-/]\d{{1,2}}{end}"
        rf"|(?:(?:{weekday})\.?,?[ ](?:(?:the|den|dnia|el|le|il|de)[ ])?)?(?:"
        rf"\d{{1,2}}(?:st|nd|rd|th|er|º|°|ª)?\.?(?:{link}|[ -])(?:{month})(?!\p{{L}})\.?(?:{year})?"
        rf"|(?:{month})\.?[ -]\d{{1,2}}(?:st|nd|rd|th)?(?:,?[ ]\d{{4}}|-\d{{4}})?(?!\d)"
        rf"|(?:{month})\.?(?:,?[ ](?:(?:del|de|of|do)[ ])?|[-/])\d{{4}}{end})",
        regex.IGNORECASE,
    )
