"""PERSON, and what is named after persons: e-mail addresses, web addresses and user names.

A name has the form of the original. Kept: the number and order of the parts, particles, titles, hyphens, initials,
letter case, the gender of the given name, and the gender of a Polish surname. The parts come from the document's
`NameBook`. Addresses are at reserved domains (RFC 2606).
"""

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import Draw, cased, same_shape
from core.text.surrogates.names import (
    FEMALE,
    GIVEN,
    INITIAL,
    KEPT,
    SINGLE_ATTEMPTS,
    SURNAME,
    NamePart,
    adjective_gender,
    companies,
    feminine,
    gender_in,
    gender_of,
    given_names,
    is_given,
    key_of,
    lists_of,
    one_of,
    parts_of,
    plain,
    surnames_like,
)

ACRONYM_CHARS_MAX = 6

_LEGAL = regex.compile(
    r"(?<![, ])[, ]+(?:GmbH(?: & Co\.? ?KGa?A?)?|& Co\.? ?KG|AG(?: & Co\.? ?KG)?|SE|e\.? ?V\.?|e\.? ?G\.?"
    r"|e\.? ?K\.?|KG(?:aA)?|OHG|mbH|UG|GbR|Stiftung(?: & Co\.? ?KG)?"
    r"|Inc\.?|Incorporated|LLC|L\.L\.C\.|LLP|LP|Ltd\.?|Limited|Corp\.?|Corporation|PLC|plc|Co\.?"
    r"|Company|Group|Holdings?|S\.?A\.?S\.?U?|SARL|S\.à r\.l\.|S\.?A\.?R\.?L\.?|SNC|S\.?A\.?|S\.?L\.?U?\.?|S\.?p\.?A\.?"
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
    """Return the surrogate that a name book would give to the name."""
    language = draw.document.language
    if is_given(word, language):
        role, names = GIVEN, given_names(gender_of(word, language), language)
    else:
        role, names = SURNAME, surnames_like(word, language)
    return one_of(names, Draw(draw.document, "name", role, key_of(word), attempt=draw.attempt))


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
