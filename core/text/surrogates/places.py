"""LOCATION and ADDRESS: a place of the same kind, in the country that the language and the postal code show.

An address is read in the parts that commas and line breaks separate. Each part keeps its kind: a street with or without
a number, a flat or a floor, a postal code with a town, a town, a region, a country. The parts do not belong together:
the street need not exist in the town, nor the postal code.
"""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import Draw
from core.text.surrogates.place_lists import (
    Country,
    countries,
    country_language,
    country_of,
    is_town,
    regions,
    streets,
    towns,
)
from core.text.surrogates.shape import cased, laid_out, longer, same_shape

SINGLE_ATTEMPTS = 8

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
    r"|dreef|steeg|singel)$"
    r"|\b(?:street|st\.?|avenue|ave\.?|road|rd\.?|lane|ln\.?|drive|dr\.?|boulevard|blvd\.?|court"
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
    """Return a country for a country, a region for a region, else a town. The country of an address stays until an
    attempt with it has failed."""
    folded = part.casefold()
    if language := country_language(folded):
        return part if not single and draw.attempt == 0 else cased(part, draw.choice(countries(language)))
    if province := _PROVINCE.search(part):
        letters = draw.letters(2).upper()
        return _name(part[: province.start()], draw, country, single=single) + f"{province.group(1)}({letters})"
    table = {} if is_town(part, country.locale) else regions()
    if siblings := table.get(part) if len(part) <= 3 else table.get(folded):
        return cased(part, draw.choice(siblings)) if draw.attempt < SINGLE_ATTEMPTS else draw.invented()
    if draw.long:
        return draw.invented()
    names = towns(country.locale)
    name = draw.choice(names)
    return cased(part, name if draw.attempt < SINGLE_ATTEMPTS else f"{name}-{draw.choice(names)}")


def _street(part: str, draw: Draw, country: Country) -> str:
    if draw.long:
        return draw.invented()
    name = draw.choice(streets(country.locale))
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
