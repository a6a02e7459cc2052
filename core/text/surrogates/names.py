"""Names of persons and companies in eight languages, the names of a document, and what is named after persons.

The lists come from faker, with the gender of given names. Those of a language are built at its first use: 0.1 s and
about 1 MB each. They depend on the installed version of faker alone, so that processes of one installation draw the
same names.

Every mention of a part of a name has the same surrogate: "Anna Kowalska", "Kowalska" and "Anna" become a full name and
its parts. Two different parts of a document never have the same surrogate. Inflected forms are parts of their own.

A name of a person has the form of the original. Kept: the number and order of the parts, particles, titles, hyphens,
initials, letter case, the gender of the given name, and the gender of a Polish surname. E-mail addresses and web
addresses are at reserved domains (RFC 2606).
"""

import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import NamedTuple

import regex  # type: ignore[import-untyped]
from faker import Faker

from core.text.recogniser import texts_of
from core.text.surrogates.draw import LONG_DRAWS, Draw, MakeDraw, NameBook, cased, same_shape

_TEXTS = texts_of(__name__)

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
        and not any(key in _surname_list(other) for other in (language, *LOCALES))
    )


def is_listed_given(name: str, language: str) -> bool:
    """Whether the list of given names of the language itself has the name."""
    return name.casefold() in _genders(language)


def is_surname(name: str, language: str) -> bool:
    """Whether the list of surnames of the language has the name."""
    return name.casefold() in _surname_list(language)


@cache
def _surname_list(language: str) -> frozenset[str]:
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


def _lists_with(name: str, gender: str) -> int:
    """Return how many languages have the name, without its accents, in their list of the gender."""
    folded = plain(name).casefold()
    return sum(folded in _plain_names(language, gender) for language in LOCALES)


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
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(char for char in parts if not unicodedata.combining(char))


PARTICLES = frozenset(_TEXTS["particles"].split())
FEMALE_TITLES = frozenset(_TEXTS["female_titles"].split())
MALE_TITLES = frozenset(_TEXTS["male_titles"].split())


GIVEN, SURNAME, INITIAL, KEPT = "given", "surname", "initial", "kept"
SINGLE_ATTEMPTS = 8  # then names are joined by a hyphen, which has as many values as a list has pairs

_WORD = regex.compile(r"(?:\p{L}['’])?[\p{L}\p{M}]{2,}(?!['’]\p{L}{2})|[\p{L}\p{M}]+")
_SURNAME_PAIRS = ("es", "pt")  # a third name is a surname


class NamePart(NamedTuple):
    start: int
    end: int
    text: str
    role: str


def key_of(part: str) -> str:
    return masculine(part.casefold())


def parts_of(original: str, language: str) -> list[NamePart]:
    """Return the words of a name with their roles."""
    found = [(match.start(), match.end(), match.group()) for match in _WORD.finditer(original)]
    names = [index for index, (start, end, word) in enumerate(found) if _role(original, start, end, word) is None]
    surnames = set(_surnames(original, found, names, language))
    return [
        NamePart(start, end, word, _role(original, start, end, word) or (SURNAME if index in surnames else GIVEN))
        for index, (start, end, word) in enumerate(found)
    ]


def _role(original: str, start: int, end: int, word: str) -> str | None:
    if len(word) == 1:
        before = original[start - 1 : start]
        return KEPT if before in ("'", "’") or word.islower() else INITIAL
    particle = word.casefold() in PARTICLES and (len(original) > end or start > 0)
    return KEPT if particle or (word.isupper() and len(word) == 2 and original[end : end + 1] == ".") else None


def _surnames(original: str, found: list[tuple[int, int, str]], names: list[int], language: str) -> Iterable[int]:
    """Return which of `names` are surnames."""
    if not names:
        return ()
    words = [found[index][2] for index in names]
    comma = original.find(",")
    if comma > 0 and found[names[0]][1] <= comma < found[names[-1]][0]:
        return [index for index in names if found[index][1] <= comma]
    capitals = [index for index in names if found[index][2].isupper()]
    if capitals and len(capitals) < len(names):
        return capitals
    hyphenated = _joined(original, found, names)
    if len(hyphenated) == 1:
        initials = any(len(word) == 1 for _, _, word in found)
        return () if not initials and all(is_given(word, language) for word in words) else names
    first, last = hyphenated[0], hyphenated[-1]
    reverse = not any(is_given(found[each][2], language) for each in first) and all(
        is_given(found[each][2], language) for each in last
    )
    if reverse:
        return first
    middle = [each for group in hyphenated[1:-1] for each in group]
    return [*last, *(each for each in middle if _middle_surname(found[each][2], language))]


def _middle_surname(word: str, language: str) -> bool:
    return language in _SURNAME_PAIRS and not is_given(word, language)


def _joined(original: str, found: list[tuple[int, int, str]], names: list[int]) -> list[list[int]]:
    """Return the names in groups that hyphens join."""
    groups: list[list[int]] = []
    for index in names:
        if groups and original[found[groups[-1][-1]][1] : found[index][0]] in ("-", "‐", "‑"):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def gender_in(parts: list[NamePart], language: str) -> str | None:
    """Return the gender that the title, the first given name that has one, or a Polish surname shows."""
    for part in parts:
        folded = part.text.casefold()
        if part.role == KEPT and folded in FEMALE_TITLES | MALE_TITLES:
            return FEMALE if folded in FEMALE_TITLES else MALE
    for part in parts:
        if part.role == GIVEN and (gender := gender_of(part.text, language) or main_gender(part.text)):
            return gender
    if language == "pl":
        return next((adjective_gender(part.text) for part in parts if part.role == SURNAME), None)
    return None


def surnames_like(part: str, language: str) -> tuple[str, ...]:
    lists = lists_of(language)
    return lists.adjectives if language == "pl" and is_adjective(part) else lists.surnames


def one_of(names: tuple[str, ...], draw: Draw) -> str:
    """Return a name, or two that a hyphen joins, or an invented one."""
    if draw.long:
        return draw.invented()
    name = draw.choice(names)
    return name if draw.attempt < SINGLE_ATTEMPTS else f"{name}-{draw.choice(names)}"


def book_of(originals: Iterable[str], language: str, draw: MakeDraw, refused: Callable[[str], bool]) -> NameBook:
    """Return the book of a document. `originals`: its masked names of persons, in order. `refused`: whether a name must
    not be used."""
    read = [(original, parts_of(original, language)) for original in originals]
    own = {part.text.casefold() for _, parts in read for part in parts}
    own |= {masculine(part) for part in own}
    book, taken = NameBook(), set[str]()

    def add(table: dict[str, str], role: str, part: str, names: tuple[str, ...]) -> None:
        key = key_of(part)
        if key in table:
            return
        for attempt in range(LONG_DRAWS * 2):
            name = one_of(names, draw("name", role, key, attempt=attempt))
            folded = name.casefold()
            if folded not in taken and not own & {folded, *folded.split("-")} and not refused(name):
                break
        taken.add(folded)
        table[key] = name
        book.mail.setdefault(plain(part).casefold(), plain(name).lower())

    def add_all(parts: list[NamePart]) -> None:
        gender = gender_in(parts, language)
        for part in parts:
            if part.role == GIVEN:
                part_gender = gender_of(part.text, language) or gender
                add(book.given, GIVEN, part.text, given_names(part_gender, language))
            elif part.role == SURNAME:
                add(book.surnames, SURNAME, part.text, surnames_like(part.text, language))
        given = next((part.text for part in parts if part.role == GIVEN), None)
        for part in parts:
            if given and part.role == SURNAME:
                initial = book.given[key_of(given)][0]
                book.initials.setdefault(f"{key_of(part.text)} {given[0].casefold()}", initial)

    several = [each for each in read if len(each[1]) > 1]
    for _, parts in several:
        add_all(parts)
    for _, parts in read:
        if len(parts) == 1 and not {key_of(parts[0].text)} & (book.given.keys() | book.surnames.keys()):
            add_all(parts)
    return book


ACRONYM_CHARS_MAX = 6

_LEGAL = regex.compile(_TEXTS["legal"], regex.IGNORECASE)


def organization(original: str, draw: Draw) -> str:
    """Return an acronym for an acronym, one word for one word, else the name of a company, with the legal form and the
    letter case of the original."""
    legal = _LEGAL.search(original)
    suffix = legal.group() if legal else ""
    core = original[: len(original) - len(suffix)]
    if core.isupper() and core.isalpha() and len(core) <= ACRONYM_CHARS_MAX and not draw.long:
        return draw.letters(len(core)).upper() + suffix
    language = draw.document.language
    if len(core.split()) < 2:
        return cased(core, one_of(lists_of(language).surnames, draw)) + suffix
    if draw.attempt >= SINGLE_ATTEMPTS:
        return cased(core, f"{one_of(lists_of(language).surnames, draw)} {draw.invented()}") + suffix
    company = draw.choice(companies(language))
    return cased(core, _LEGAL.sub("", company) or company) + suffix


def person(original: str, draw: Draw) -> str:
    """Return a name. The first attempts differ in initials alone, so that the names agree with other mentions."""
    language, book = draw.document.language, draw.document.names
    parts = parts_of(original, language)
    if not any(part.role != KEPT for part in parts):
        return draw.invented() if draw.long or not any(map(str.isdigit, original)) else same_shape(original, draw)
    gender = gender_in(parts, language)
    surname = next((part.text for part in parts if part.role == SURNAME), "")
    fresh = draw.attempt >= SINGLE_ATTEMPTS

    def replaced(part: NamePart) -> str:
        if part.role == INITIAL:
            known = book.initials.get(f"{key_of(surname)} {part.text.casefold()}") if draw.attempt == 0 else None
            return known or draw.choice("ABCDEFGHIJKLMNOPRSTUVWZ")
        if part.role == KEPT:
            return part.text
        first, second = (book.given, book.surnames) if part.role == GIVEN else (book.surnames, book.given)
        key = key_of(part.text)
        name = None if fresh else first.get(key) or second.get(key)
        if name is None:
            pool = given_names(gender, language) if part.role == GIVEN else surnames_like(part.text, language)
            name = one_of(pool, draw)
        if adjective_gender(part.text) == FEMALE:
            name = "-".join(map(feminine, name.split("-")))
        return cased(part.text, name)

    pieces, read = [], 0
    for part in parts:
        pieces += [original[read : part.start], replaced(part)]
        read = part.end
    return "".join((*pieces, original[read:]))


PATH_CHARS_MAX = 64

_RUN = regex.compile(r"\p{L}+|\d+")
_URL = regex.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?:[^/@\s]*@)?(?P<host>[^/:?#\s]+)(?P<rest>.*)$", regex.IGNORECASE | regex.DOTALL
)
_ENDING = regex.compile(
    r"\.(?:html?|php|aspx?|pdf|docx?|xlsx?|png|jpe?g|csv|json|xml|txt|zip)(?=$|[?#])", regex.IGNORECASE
)


def host(draw: Draw) -> str:
    if draw.long:  # the document masks `example` itself
        return f"{draw.letters(12)}.invalid"
    return "example." + draw.choice(("com", "org", "net"))


def email(original: str, draw: Draw) -> str:
    local, _, _ = original.rpartition("@")
    new = f"{user(local, draw)}@{host(draw)}"
    return new.upper() if original.isupper() else new


def user(original: str, draw: Draw) -> str:
    """Return a user name with the parts of the original: names, initials, digits and what separates them.

    A part that is a name of a person in the document becomes the name that replaces it.
    """
    known = draw.document.names.mail
    fresh = draw.attempt >= SINGLE_ATTEMPTS

    def part(match: regex.Match[str]) -> str:
        word = match.group()
        if word.isdecimal():
            return draw.digits(len(word))
        if len(word) == 1:
            return cased(word * 2, draw.letters(2))[0]
        name = None if fresh or draw.attempt else known.get(plain(word).casefold())
        if name is None:
            name = plain(_name(word, draw)).lower()
        if adjective_gender(word) == FEMALE:
            name = feminine(name)
        return name.capitalize() if word.istitle() else cased(word, name)

    new = _RUN.sub(part, original) or draw.letters(8)
    return new + draw.digits(2 + draw.attempt // SINGLE_ATTEMPTS) if draw.attempt > 1 else new


def _name(word: str, draw: Draw) -> str:
    """Return the surrogate that a name book would give to the name, which is another one."""
    language = draw.document.language
    if is_given(word, language):
        role, names = GIVEN, given_names(gender_of(word, language), language)
    else:
        role, names = SURNAME, surnames_like(word, language)
    key = key_of(word)
    draws = (Draw(draw.document, "name", role, key, attempt=draw.attempt + more) for more in range(LONG_DRAWS))
    drawn = (one_of(names, each) for each in draws)
    return next((name for name in drawn if key_of(plain(name)) != key_of(plain(word))), draw.letters(8))


def url(original: str, draw: Draw) -> str:
    """Return a web address with the scheme and the shape of the path of the original. Users and passwords are left
    out, and so is what is beyond `PATH_CHARS_MAX` characters of the path."""
    found = _URL.match(original)
    if not found:
        return f"https://www.{host(draw)}/{draw.letters(8)}"
    www = "www." if found["host"].lower().startswith("www.") else ""
    rest = found["rest"][:PATH_CHARS_MAX]
    ending = _ENDING.search(rest)
    path = same_shape(rest, draw)
    if ending:
        path = path[: ending.start()] + ending.group() + path[ending.end() :]
    if not found["scheme"] and not path and not www:
        return f"{draw.letters(8)}.{host(draw)}"
    return f"{found['scheme'] or ''}{www}{'' if www else draw.letters(6) + '.'}{host(draw)}{path}"
