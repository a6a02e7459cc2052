"""Countries, towns and streets of faker, and the forms of postal codes.

The lists of a country are built at the first use: up to 0.6 s and 0.5 MB each. They depend on the installed version of
faker alone.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

import regex  # type: ignore[import-untyped]
from faker import Faker

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
    return next((each for each in LOCALES if name in _folded_countries(each)), None)


@cache
def _folded_countries(language: str) -> frozenset[str]:
    return frozenset((*(name.casefold() for name in countries(language)), *_HOME.get(language, ())))


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
