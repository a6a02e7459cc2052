"""E-mail addresses, web addresses and user names, at reserved domains (RFC 2606)."""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import Draw
from core.text.surrogates.name_book import GIVEN, SINGLE_ATTEMPTS, SURNAME, key_of, one_of, surnames_like
from core.text.surrogates.names import FEMALE, adjective_gender, feminine, gender_of, given_names, is_given, plain
from core.text.surrogates.shape import cased, same_shape

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
