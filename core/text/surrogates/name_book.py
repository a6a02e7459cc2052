"""The names of the persons of a document, part by part, so that every mention of a part has the same surrogate.

"Anna Kowalska", "Kowalska" and "Anna" become a full name and its parts. Two different parts of a document never have
the same surrogate. Inflected forms are parts of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import LONG_DRAWS, Draw
from core.text.surrogates.names import (
    FEMALE,
    MALE,
    adjective_gender,
    gender_of,
    given_names,
    is_adjective,
    is_given,
    lists_of,
    main_gender,
    masculine,
    plain,
)
from core.text.surrogates.terms import NameBook


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTICLES = _words(
    """
    van von der den de del della dei di da das do dos du des le la les los ter ten te zu zur zum vom af av y e i bin
    ibn al el jr sr ii iii iv dr prof mr mrs ms miss sir mx phd md esq herr frau fr hr dipl ing mag monsieur madame
    mademoiselle mme mlle señor señora sr sra srta don doña signor signora signorina sig sigra dott dottssa
    dottoressa ing avv mevr mevrouw dhr meneer drs hab mgr lic senhor senhora dona pan pani pana panu mgr inż doc s
    """
)
FEMALE_TITLES = _words(
    """
    mrs ms miss frau madame mademoiselle mme mlle señora sra srta doña signora signorina sigra dottoressa mevr
    mevrouw senhora dona pani
    """
)
MALE_TITLES = _words(
    """
    mr sr sir herr hr monsieur señor don signor sig dhr meneer senhor pan pana panu
    """
)


GIVEN, SURNAME, INITIAL, KEPT = "given", "surname", "initial", "kept"
SINGLE_ATTEMPTS = 8  # then names are joined by a hyphen, which has as many values as a list has pairs

_WORD = regex.compile(r"(?:\p{L}['’])?[\p{L}\p{M}]{2,}(?!['’]\p{L}{2})|[\p{L}\p{M}]+")
_SURNAME_PAIRS = ("es", "pt")  # a third name is a surname


class NamePart(NamedTuple):
    start: int
    end: int
    text: str
    role: str


class MakeDraw(Protocol):
    def __call__(self, *parts: str, attempt: int) -> Draw: ...


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
