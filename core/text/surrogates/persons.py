"""PERSON: a name in the form of the original.

Kept: the number and order of the parts, particles, titles, hyphens, initials, letter case, the gender of the given
name, and the gender of a Polish surname. The parts come from the document's `NameBook`.
"""

from __future__ import annotations

from core.text.surrogates.draw import Draw
from core.text.surrogates.name_book import (
    GIVEN,
    INITIAL,
    KEPT,
    SINGLE_ATTEMPTS,
    SURNAME,
    NamePart,
    gender_in,
    key_of,
    one_of,
    parts_of,
    surnames_like,
)
from core.text.surrogates.names import FEMALE, adjective_gender, feminine, given_names
from core.text.surrogates.shape import cased, same_shape


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
