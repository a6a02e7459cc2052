"""PERSON: a name in the form of the original.

Kept: the number and order of the parts, particles, titles, hyphens, initials, letter case, the gender of the given
name, and the gender of a Polish surname. The parts come from the document's `NameBook`.
"""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

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
from core.text.surrogates.names import FEMALE, adjective_gender, companies, feminine, given_names, lists_of
from core.text.surrogates.shape import cased, same_shape

ACRONYM_CHARS_MAX = 6

_LEGAL = regex.compile(
    r"(?<![, ])[, ]+(?:GmbH(?: & Co\.? ?KGa?A?)?|& Co\.? ?KG|AG(?: & Co\.? ?KG)?|SE|e\.? ?V\.?|e\.? ?G\.?"
    r"|e\.? ?K\.?|KG(?:aA)?|OHG|mbH|UG|GbR|Stiftung(?: & Co\.? ?KG)?"
    r"|Inc\.?|Incorporated|LLC|L\.L\.C\.|LLP|LP|Ltd\.?|Limited|Corp\.?|Corporation|PLC|plc|Co\.?"
    r"|Company|Group|Holdings?"
    r"|S\.?A\.?S\.?U?|SARL|S\.à r\.l\.|S\.?A\.?R\.?L\.?|SNC|S\.?A\.?|S\.?L\.?U?\.?|S\.?p\.?A\.?"
    r"|S\.?r\.?l\.?s?|s\.?n\.?c\.?|& figli|e figli SPA"
    r"|B\.?V\.?(?:BA)?|N\.?V\.?|V\.?O\.?F\.?|S\.?C\.?P\.?|S\.?Com\.|Lda\.?|Ltda\.?|C\.?B\.?"
    r"|S\.?Coop\.?|E\.I\.R\.L\.|sp\. z o\.? ?o\.?(?: sp\. ?k\.)?"
    r"|Sp\. ?z ?o\.? ?o\.?|Sp\. ?[jkp]\.|S\.K\.A\.|S\.A\.)$",
    regex.IGNORECASE,
)


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
