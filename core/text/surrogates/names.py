"""Names of persons and companies in eight languages, from faker's lists, and the gender of given names.

The lists of a language are built at its first use: 0.1 s and about 1 MB each. They depend on the installed version of
faker alone, so that processes of one installation draw the same names.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib import import_module
from typing import NamedTuple

from faker import Faker

FEMALE, MALE = "f", "m"
LOCALES = {
    "en": ("en_US", "en_GB"),
    "de": ("de_DE", "de_AT", "de_CH"),
    "es": ("es_ES",),
    "fr": ("fr_FR", "fr_BE", "fr_CH"),
    "it": ("it_IT",),
    "nl": ("nl_NL", "nl_BE"),
    "pl": ("pl_PL",),
    "pt": ("pt_PT", "pt_BR"),
}
COMPANIES = 2_000
_SEED = 20  # any fixed number
_ENDINGS = {
    "pl": {"a": FEMALE, "": MALE},
    "es": {"a": FEMALE, "o": MALE},
    "it": {"a": FEMALE, "o": MALE},
    "pt": {"a": FEMALE, "o": MALE},
}
_MALE_ADJECTIVES, _FEMALE_ADJECTIVES = ("ski", "cki", "dzki"), ("ska", "cka", "dzka")
_PLAIN = str.maketrans({"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "æ": "ae", "œ": "oe"})


class NameLists(NamedTuple):
    """Single words. `adjectives`: Polish surnames in -ski and -cki, in the masculine form."""

    female: tuple[str, ...]
    male: tuple[str, ...]
    surnames: tuple[str, ...]
    adjectives: tuple[str, ...]


def _single(*groups: object) -> tuple[str, ...]:
    names = dict.fromkeys(str(name) for group in groups for name in group)  # type: ignore[attr-defined]
    return tuple(name for name in names if name.isalpha() and len(name) > 2 and name[0].isupper())


@cache
def lists_of(language: str) -> NameLists:
    providers = [import_module(f"faker.providers.person.{locale}").Provider for locale in LOCALES[language]]
    if language == "pl":
        own = providers[0]
        surnames = _single(own.unisex_last_names, own.male_last_names)
    else:
        surnames = _single(*(provider.last_names for provider in providers))
    return NameLists(
        female=_single(*(provider.first_names_female for provider in providers)),
        male=_single(*(provider.first_names_male for provider in providers)),
        surnames=tuple(name for name in surnames if not is_adjective(name)),
        adjectives=tuple(name for name in surnames if name.endswith(_MALE_ADJECTIVES)),
    )


@cache
def _genders(language: str) -> dict[str, str | None]:
    """Return the gender of each given name of the language in small letters; None for a name of both."""
    lists = lists_of(language)
    female, male = ({name.casefold() for name in names} for names in (lists.female, lists.male))
    return {name: None if name in female & male else FEMALE if name in female else MALE for name in female | male}


def is_given(name: str, language: str) -> bool:
    """Whether a list of given names has the name: that of the language, or of another one whose surnames lack it."""
    key = name.casefold()
    return key in _genders(language) or (
        any(key in _genders(other) for other in LOCALES)
        and not any(key in _surnames(other) for other in (language, *LOCALES))
    )


@cache
def _surnames(language: str) -> frozenset[str]:
    lists = lists_of(language)
    return frozenset(name.casefold() for name in (*lists.surnames, *lists.adjectives))


def gender_of(name: str, language: str) -> str | None:
    """Return the gender of a given name; None if the lists disagree, or have no such name and no ending tells."""
    key = name.casefold()
    if key in _genders(language):
        return _genders(language)[key]
    others = {_genders(other)[key] for other in LOCALES if key in _genders(other)}
    if len(others) == 1:
        return others.pop()
    if not others:
        for ending, gender in _ENDINGS.get(language, {}).items():
            if key.endswith(ending):
                return gender
    return None


@cache
def _lists_with(name: str, gender: str) -> int:
    """Return how many languages have the name, without its accents, in their list of the gender."""
    return sum(plain(name).casefold() in _plain_names(language, gender) for language in LOCALES)


@cache
def _plain_names(language: str, gender: str) -> frozenset[str]:
    lists = lists_of(language)
    return frozenset(plain(name).casefold() for name in (lists.female if gender == FEMALE else lists.male))


def main_gender(name: str) -> str | None:
    """Return the gender of a name of both, such as José: the one in which more languages have it."""
    female, male = (_lists_with(name.casefold(), gender) for gender in (FEMALE, MALE))
    return None if female == male else FEMALE if female > male else MALE


@cache
def given_names(gender: str | None, language: str) -> tuple[str, ...]:
    """Return the given names of a gender without those that are mainly of the other; None for all names."""
    lists = lists_of(language)
    if gender is None:
        return lists.female + lists.male
    names = lists.female if gender == FEMALE else lists.male
    both = _genders(language)
    return tuple(name for name in names if both[name.casefold()] or main_gender(name) in (gender, None))


def is_adjective(surname: str) -> bool:
    """Whether a Polish surname has a form for each gender."""
    return surname.casefold().endswith(_MALE_ADJECTIVES + _FEMALE_ADJECTIVES)


def adjective_gender(surname: str) -> str | None:
    """Return the gender that the ending of a Polish surname shows."""
    folded = surname.casefold()
    return FEMALE if folded.endswith(_FEMALE_ADJECTIVES) else MALE if folded.endswith(_MALE_ADJECTIVES) else None


def masculine(surname: str) -> str:
    return surname[:-1] + "i" if surname.casefold().endswith(_FEMALE_ADJECTIVES) else surname


def feminine(surname: str) -> str:
    return surname[:-1] + "a" if surname.casefold().endswith(_MALE_ADJECTIVES) else surname


@cache
def companies(language: str) -> tuple[str, ...]:
    """Return names of companies that faker makes with a fixed seed."""
    fake = Faker(LOCALES[language][0])
    fake.seed_instance(_SEED)
    return tuple(dict.fromkeys(fake.company() for _ in range(COMPANIES)))


def plain(text: str) -> str:
    """Return the text without accents, in ASCII where that is possible."""
    parts = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(char for char in parts if not unicodedata.combining(char))
