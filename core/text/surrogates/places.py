"""LOCATION and ADDRESS: a place of the same kind, in the country that the language and the postal code show.

An address is read in the parts that commas and line breaks separate. Each part keeps its kind: a street with or without
a number, a flat or a floor, a postal code with a town, a town, a region, a country. The parts do not belong together:
the street need not exist in the town, nor the postal code.

Countries, towns and streets are faker's. The lists of a country are built at the first use: up to 0.6 s and 0.5 MB
each. They depend on the installed version of faker alone.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import regex  # type: ignore[import-untyped]
from faker import Faker

from core.text.surrogates.draw import Draw, cased, laid_out, longer, same_shape
from core.text.surrogates.names import LOCALES

STREETS = TOWNS = 1_000
_SEED = 20  # any fixed number


class Country(NamedTuple):
    """`postcode`: the form of a postal code. `first`: the least and the greatest value of its first two digits."""

    locale: str
    postcode: regex.Pattern[str]
    first: tuple[int, int] | None = None


def _form(code: str) -> regex.Pattern[str]:
    return regex.compile(rf"(?<![\w-])(?:{code})(?![\w-])")


# names in small letters that faker's lists of countries lack
_HOME = {
    "en": ("usa", "uk", "united states", "england", "scotland", "wales", "great britain"),
    "de": ("deutschland", "österreich", "schweiz"),
    "es": ("españa",),
    "fr": ("france", "belgique", "suisse"),
    "it": ("italia",),
    "nl": ("nederland", "belgië"),
    "pl": ("polska",),
    "pt": ("portugal", "brasil"),
}
_FIVE, _FOUR = _form(r"\d{5}"), _form(r"(?:[A-Z]{1,2}-)?\d{4}")

# Countries that the form of a postal code tells, strictest first
FORMS = {
    "GB": Country("en_GB", _form(r"[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}")),
    "CA": Country("en_CA", _form(r"[ABCEGHJ-NPRSTVXY]\d[A-Z] ?\d[A-Z]\d")),
    "NL": Country("nl_NL", _form(r"[1-9]\d{3} ?[A-Z]{2}")),
    "BR": Country("pt_BR", _form(r"\d{5}-\d{3}")),
    "PT": Country("pt_PT", _form(r"[1-9]\d{3}-\d{3}")),
    "PL": Country("pl_PL", _form(r"\d{2}-\d{3}")),
    "US": Country("en_US", _form(r"(?<=\b[A-Z]{2},? )\d{5}(?:-\d{4})?|\d{5}-\d{4}")),
}
# The country of a language, and the one of its codes with four digits
OF_LANGUAGE = {
    "en": Country("en_US", _FIVE),
    "de": Country("de_DE", _FIVE, (1, 97)),
    "fr": Country("fr_FR", _FIVE, (1, 95)),
    "es": Country("es_ES", _FIVE, (1, 52)),
    "it": Country("it_IT", _FIVE),
    "nl": FORMS["NL"],
    "pl": FORMS["PL"],
    "pt": FORMS["PT"],
}
FOUR_DIGITS = {"de": Country("de_AT", _FOUR), "fr": Country("fr_CH", _FOUR), "nl": Country("nl_BE", _FOUR)}


def country_of(original: str, language: str) -> Country:
    """Return the country of an address: by the form of its postal code, else that of the language."""
    for country in FORMS.values():
        if country.postcode.search(original):
            return country
    own = OF_LANGUAGE[language]
    if language in FOUR_DIGITS and not own.postcode.search(original) and _FOUR.search(original):
        return FOUR_DIGITS[language]
    return own


def _faker(locale: str) -> Faker:
    """Return a faker of its own for each list, so that a list does not depend on which is built first."""
    fake = Faker(locale)
    fake.seed_instance(_SEED)
    return fake


@cache
def towns(locale: str) -> tuple[str, ...]:
    own = getattr(import_module(f"faker.providers.address.{locale}").Provider, "cities", None)
    if own is None:
        fake = _faker(locale)
        own = [fake.city() for _ in range(TOWNS)]
    return tuple(sorted({str(name) for name in own}))  # some lists of faker have no order


def is_town(name: str, locale: str) -> bool:
    return name.casefold() in _folded_towns(locale)


@cache
def _folded_towns(locale: str) -> frozenset[str]:
    return frozenset(name.casefold() for name in towns(locale))


@cache
def streets(locale: str) -> tuple[str, ...]:
    """Return names of streets. Those of Poland, which faker gives without one, have no word for the street."""
    fake = _faker(locale)
    return tuple(dict.fromkeys(fake.street_name() for _ in range(STREETS)))


@cache
def countries(language: str) -> tuple[str, ...]:
    names = import_module(f"faker.providers.address.{LOCALES[language][0]}").Provider.countries
    return tuple(name for name in dict.fromkeys(map(str, names)) if len(name) < 20)


def country_language(name: str) -> str | None:
    """Return a language in which this is the name of a country; None if it is none."""
    return _folded_countries().get(name)


@cache
def _folded_countries() -> dict[str, str]:
    """Return the names of countries in small letters, each with the first language that has it."""
    names = {each: (*map(str.casefold, countries(each)), *_HOME.get(each, ())) for each in LOCALES}
    return {name: language for language in reversed(LOCALES) for name in names[language]}


@cache
def regions() -> dict[str, tuple[str, ...]]:
    """Return region in small letters -> the regions of its country: states, provinces, departments."""
    table: dict[str, tuple[str, ...]] = {}
    for locales in LOCALES.values():
        provider = import_module(f"faker.providers.address.{locales[0]}").Provider
        for attribute in ("states", "regions", "states_abbr", "provinces", "counties"):
            names = tuple(str(name) for name in getattr(provider, attribute, ()))
            for name in names:
                table.setdefault(name if attribute == "states_abbr" else name.casefold(), names)
    return table


SINGLE_ATTEMPTS = 8  # with names of the lists; then two of them are joined
COUNTRY_ATTEMPTS = 4

_SEPARATOR = regex.compile(r"((?<!\s)\s*(?:,|;|\n|\||·|(?<= )[-–](?= ))\s*)")
_NUMBER = r"\d{1,5}(?:[ ]?[A-Za-z])?(?:[-/–]\d{1,4}[A-Za-z]?)*(?:[ ](?:bis|ter))?"
_NUMBER_FIRST = regex.compile(
    rf"(?P<before>(?:(?:No|Nr)\.? ?)?{_NUMBER},? )(?=\p{{L}})(?P<name>.+)$", regex.IGNORECASE | regex.DOTALL
)
_NUMBER_LAST = regex.compile(
    rf"(?P<name>.*?\p{{L}}\.?)(?P<after>,? (?:(?:No|Nr|n)[.º°]* ?)?{_NUMBER}(?:[ /](?:m\.?|lok\.?|bus) ?\d+)?)$",
    regex.IGNORECASE | regex.DOTALL,
)
_NUMBER_ONLY = regex.compile(rf"(?:(?:No|Nr|n)[.º°]* ?)?{_NUMBER}$", regex.IGNORECASE)
_UNIT = regex.compile(
    r"(?:apt|apartment|flat|unit|suite|ste|rooms?|rm|floor|fl|p\.?o\.? ?box|box|postfach|bâtiment|bât"
    r"|appt|appartement|étage|bp|piso|puerta|escalera|interno|scala|int"
    r"|bus|postbus|andar|apto|apartado|m\.|lok|lokal|skr\.?|wohnung|whg|stock|\d+\.? ?(?:og|stock"
    r"|floor|étage|piso|andar))(?!\p{L})|\d+(?:st|nd|rd|th) floor",
    regex.IGNORECASE,
)
_STREET = regex.compile(
    r"(?:stra(?:ß|ss)e|str\.?|weg|platz|gasse|allee|ring|ufer|damm|straat|laan|plein|gracht|kade"
    r"|dreef|steeg|singel)$|\b(?:street|st\.?|avenue|ave\.?|road|rd\.?|lane|ln\.?|drive|dr\.?|boulevard|blvd\.?|court"
    r"|ct\.?|square|terrace|way|place|highway|close|crescent)$"
    r"|^(?:rue|avenue|av\.?|boulevard|bd|place|chemin|allée|impasse|quai|cours|route|calle|c/|c\."
    r"|avenida|avda\.?|plaza|paseo|camino|ronda|via|viale|piazza|corso"
    r"|vicolo|largo|strada|rua|r\.|travessa|praça|estrada|alameda|ul\.?|ulica|al\.?|aleja|aleje|pl\.?"
    r"|plac|os\.?|osiedle|rondo)[ ]",
    regex.IGNORECASE,
)
_PROVINCE = regex.compile(r"((?<!\s)\s*)\([A-Z]{2}\)$")
_POLISH_STREET = regex.compile(r"^(?:ul\.?|ulica|al\.?|aleja|aleje|pl\.?|plac|os\.?|osiedle)[ ]", regex.IGNORECASE)


def place(original: str, draw: Draw) -> str:
    country = country_of(original, draw.document.language)
    pieces = _SEPARATOR.split(original)
    single = len(pieces) == 1
    written = "".join(
        piece if at % 2 else _part(piece, draw, country, single=single) for at, piece in enumerate(pieces)
    )
    return written if any(map(str.isalpha, original)) else written + longer(draw)


def _part(part: str, draw: Draw, country: Country, *, single: bool) -> str:
    """Return another part of the same kind."""
    if not part:
        return part
    if code := country.postcode.search(part):
        before, after = part[: code.start()], part[code.end() :]
        return _words(before, draw, country) + _postcode(code.group(), draw, country) + _words(after, draw, country)
    if _UNIT.match(part) and any(map(str.isdigit, part)):
        return _numbered(part, draw)
    if found := _NUMBER_FIRST.match(part):
        return _numbered(found["before"], draw) + _street(found["name"], draw, country)
    if found := _NUMBER_LAST.match(part):
        return _street(found["name"], draw, country) + _numbered(found["after"], draw)
    if _NUMBER_ONLY.match(part):
        return _numbered(part, draw)
    if any(map(str.isdigit, part)):
        return same_shape(part, draw)
    if _STREET.search(part):
        return _street(part, draw, country)
    return _name(part, draw, country, single=single)


def _words(part: str, draw: Draw, country: Country) -> str:
    """Return what stands beside a postal code: a town, or a state in capitals."""
    if not any(map(str.isalpha, part)):
        return part
    name = part.strip()
    start = part.index(name)
    return part[:start] + _name(name, draw, country, single=False) + part[start + len(name) :]


def _name(part: str, draw: Draw, country: Country, *, single: bool) -> str:
    """Return a country for a country, a region for a region, else a town. The country of an address stays in the
    first attempts."""
    folded = part.casefold()
    if language := country_language(folded):
        return (
            part
            if not single and draw.attempt % SINGLE_ATTEMPTS < COUNTRY_ATTEMPTS
            else cased(part, draw.choice(countries(language)))
        )
    if province := _PROVINCE.search(part):
        letters = draw.letters(2).upper()
        return _name(part[: province.start()], draw, country, single=single) + f"{province.group(1)}({letters})"
    if siblings := _siblings(part, country):
        listed = draw.attempt < SINGLE_ATTEMPTS or not (single or draw.long)
        return cased(part, draw.choice(siblings)) if listed else draw.invented()
    if draw.long:
        return draw.invented()
    names = towns(country.locale)
    name = draw.choice(names)
    return cased(part, name if draw.attempt < SINGLE_ATTEMPTS else f"{name}-{draw.choice(names)}")


def _siblings(part: str, country: Country) -> tuple[str, ...]:
    """Return the regions of the country of a region; nothing for what is none, or is a town as well."""
    table = {} if is_town(part, country.locale) else regions()
    return table.get(part if len(part) <= 3 else part.casefold(), ())


def _street(part: str, draw: Draw, country: Country) -> str:
    if draw.long:
        return draw.invented()
    names = streets(country.locale)
    name = draw.choice(names)
    if draw.attempt >= SINGLE_ATTEMPTS:
        name = f"{name}-{draw.choice(names)}"
    if (prefix := _POLISH_STREET.match(part)) and country.locale == "pl_PL":
        name = prefix.group() + name
    return cased(part, name)


def _numbered(part: str, draw: Draw) -> str:
    """Return the part with other numbers and the same words."""
    fresh, inside = [], False
    for char in part:
        fresh.append(str(draw.between(0 if inside or char == "0" else 1, 9)) if char.isdecimal() else char)
        inside = char.isdecimal()
    return "".join(fresh)


def _postcode(code: str, draw: Draw, country: Country) -> str:
    fresh = same_shape(code, draw, letters="ABDEFGHJLNPRSTUWXYZ")[: len(code)]
    if country.first:
        fresh = f"{draw.between(*country.first):02d}{fresh[2:]}"
    return laid_out(code, (char for char in fresh if char.isalnum()))


STREET, LINE, BUILDING, POSTCODE, TOWN, REGION = "street", "line", "building", "postcode", "town", "region"
_BUILDING = regex.compile(_NUMBER, regex.IGNORECASE)
_DIGIT, _LETTER = regex.compile(r"\d"), regex.compile(r"\p{L}")
_TOGETHER = {(STREET, BUILDING), (BUILDING, STREET), (TOWN, REGION)}
_Span = tuple[int, int]


class AddressPart(NamedTuple):
    """A part of an address and the part of another address in its place. `LINE`: a street with its number, or a region
    with the town or the postal code beside it. `REGION`: a country, too."""

    kind: str
    own: _Span
    other: _Span


class ReadAddress:
    """An address that is read once, to be compared with its surrogates."""

    def __init__(self, original: str, language: str) -> None:
        self.original = original
        self._country = country_of(original, language)
        self._pieces = _SEPARATOR.split(original)
        self._forms = [_form_of(piece, self._country) if piece else None for piece in self._pieces[::2]]
        self._last: tuple[str, list[AddressPart]] | None = None

    def parts(self, other: str) -> list[AddressPart]:
        """Return the parts that may stand alone, and those of `other`, a surrogate or the address itself. A part that
        `other` has in another form is left out. What was returned last is kept."""
        if self._last is None or self._last[0] != other:
            self._last = other, self._compared(other)
        return self._last[1]

    def _compared(self, other: str) -> list[AddressPart]:
        others = _SEPARATOR.split(other)
        if len(self._pieces) != len(others):
            return []
        found: list[AddressPart] = []
        at = to = 0
        for number, (piece, fresh) in enumerate(zip(self._pieces, others, strict=True)):
            form = None if number % 2 else self._forms[number // 2]
            for kind, own, new in _parts_of(piece, fresh, form, self._country) if form else ():
                found.append(AddressPart(kind, (own[0] + at, own[1] + at), (new[0] + to, new[1] + to)))
            at, to = at + len(piece), to + len(fresh)
        single = sorted((part for part in found if part.kind != LINE), key=lambda part: part.own)
        for one, two in pairwise(single):
            if (one.kind, two.kind) in _TOGETHER and _SEPARATOR.search(self.original, one.own[1], two.own[0]):
                found.append(AddressPart(LINE, (one.own[0], two.own[1]), (one.other[0], two.other[1])))
        return found


class _Form(NamedTuple):
    """What reads a piece: `pattern`, or the kind of its only part. `own`, `building`: where it has what they say."""

    pattern: Any
    own: Any = None
    building: Any = None


def _form_of(piece: str, country: Country) -> _Form | None:
    """Return what reads a piece between two separators, in the order of `_part`; None for what has no parts."""
    if code := country.postcode.search(piece):
        return _Form(POSTCODE, code)
    if not any(map(str.isdigit, piece)):
        return _Form(STREET if _STREET.search(piece) else TOWN)
    if _UNIT.match(piece):
        return None
    for pattern, group in ((_NUMBER_FIRST, "before"), (_NUMBER_LAST, "after"), (_NUMBER_ONLY, 0)):
        if own := pattern.match(piece):
            return _Form(pattern, own, _BUILDING.search(piece, *own.span(group)))
    return None


def _parts_of(piece: str, other: str, read: _Form, country: Country) -> Iterator[tuple[str, _Span, _Span]]:
    """Yield the parts of what is between two separators. `read`: that of `piece`."""
    whole = (0, len(piece)), (0, len(other))
    form, found, building = read
    if form == POSTCODE:
        if new := country.postcode.search(other):
            yield POSTCODE, found.span(), new.span()
            before = (0, found.start()), (0, new.start())
            after = (found.end(), len(piece)), (new.end(), len(other))
            named = [part for own, fresh in (before, after) for part in _named(piece, other, own, fresh, country)]
            yield from named
            if any(kind != TOWN for kind, _, _ in named):
                yield LINE, *whole
    elif form == STREET:
        yield STREET, *_street_names(piece, whole[0], other, whole[1])
    elif form == TOWN:
        yield from _named(piece, other, *whole, country)
    elif form == _NUMBER_ONLY:
        if number := _BUILDING.search(other):
            yield BUILDING, building.span(), number.span()
    elif new := form.match(other):
        yield STREET, *_street_names(piece, found.span("name"), other, new.span("name"))
        number = _BUILDING.search(other, *new.span("before" if form == _NUMBER_FIRST else "after"))
        yield BUILDING, building.span(), number.span()
        yield LINE, *whole


def _street_names(piece: str, own: _Span, other: str, new: _Span) -> tuple[_Span, _Span]:
    """Return where the names of two streets are, without the same Polish word for the street before both."""
    prefix = _POLISH_STREET.match(piece[slice(*own)])
    if prefix and (same := _POLISH_STREET.match(other[slice(*new)])) and prefix.group() == same.group():
        return (own[0] + prefix.end(), own[1]), (new[0] + same.end(), new[1])
    return own, new


def _named(piece: str, other: str, own: _Span, new: _Span, country: Country) -> Iterator[tuple[str, _Span, _Span]]:
    """Yield a town, a region or a country, and a town with the letters of its province beside the town alone."""
    own, new = _stripped(piece, own), _stripped(other, new)
    name, fresh = piece[slice(*own)], other[slice(*new)]
    if _DIGIT.search(name) or not (_LETTER.search(name) and _LETTER.search(fresh)):
        return
    if (province := _PROVINCE.search(name)) and (changed := _PROVINCE.search(fresh)):
        yield TOWN, (own[0], own[0] + province.start()), (new[0], new[0] + changed.start())
        yield LINE, own, new
    else:
        yield REGION if country_language(name.casefold()) or _siblings(name, country) else TOWN, own, new


def _stripped(text: str, span: _Span) -> _Span:
    start, end = span
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
