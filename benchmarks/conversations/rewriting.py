"""How a model writes a name, a place or a number again: each rewriting of a surrogate gives that of its original.

`rewritings` says which fit a pair. An ending that depends on the last letter is left out where the two differ in it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote

Change = Callable[[str], str]
_EXACT = {"EMAIL_ADDRESS", "URL", "IBAN_CODE", "SECRET", "PASSWORD", "UUID"}
_NUMBERS = {"PHONE_NUMBER", "CREDIT_CARD"}
_NAMES = {"PERSON", "LOCATION", "ORGANIZATION"}
_SIBILANTS = tuple("sßxzSXZ")
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "_-.'`*"})


class Rewriting(NamedTuple):
    """`change`: of a surrogate and of its original."""

    name: str
    change: Change


_ALL = (
    Rewriting("as it is", str),
    Rewriting("bold", lambda text: f"**{text}**"),
    Rewriting("in code", lambda text: f"`{text}`"),
    Rewriting("quoted", lambda text: f'"{text}", „{text}“ and ({text})'),
    Rewriting("table", lambda text: f"| 1 | {text} | {text} |"),
    Rewriting("heading", lambda text: f"## {text}:"),
    Rewriting("HTML element", lambda text: f"<td>{html.escape(text)}</td>"),
    Rewriting("URL", lambda text: f"https://example.org/?q={quote(text, safe='')}&page=2"),
    Rewriting("form data", lambda text: f"q={quote_plus(text)}&page=2"),
    Rewriting("JSON", lambda text: json.dumps({"value": text}, ensure_ascii=False)),
    Rewriting("escaped Markdown", lambda text: text.translate(_MARKDOWN)),
    Rewriting("CSV", lambda text: f'1;"{text}";2'),
)
_CASES = (
    Rewriting("capitals", str.upper),
    Rewriting("possessive", lambda text: f"{text}'s and {text}’s"),
)
_FULL_NAMES = (
    Rewriting("first name", lambda text: text.split()[0]),
    Rewriting("last name", lambda text: text.split()[-1]),
    Rewriting("first name in capitals", lambda text: text.split()[0].upper()),
    Rewriting("possessive of the last name", lambda text: f"{text.split()[-1]}'s"),
    Rewriting("last name first", lambda text: f"{text.split()[-1]}, {text.split()[0]}"),
    Rewriting("slug", lambda text: f"/people/{'-'.join(text.split())}/"),
    Rewriting("slug in small letters", lambda text: f"/people/{'-'.join(text.lower().split())}/"),
    Rewriting("name of a file", lambda text: f"cv_{'_'.join(text.lower().split())}.pdf"),
    Rewriting("initial", lambda text: f"{text[0]}. {text.split()[-1]}"),
)
_ENDINGS = {
    "de": (Rewriting("genitive", lambda text: f"{text.split()[0]}s Brief"),),
    "nl": (Rewriting("genitive", lambda text: f"{text.split()[0]}s brief"),),
    "en": (Rewriting("plural of the family", lambda text: f"the {text.split()[-1]}s"),),
}


def rewritings(type_: str, original: str, surrogate: str, language: str) -> Iterator[Rewriting]:
    """Yield the rewritings in which a model may write a surrogate of the type."""
    if surrogate.startswith("["):
        yield from _ALL
        return
    yield from _ALL
    if type_ in _NAMES and min(len(original), len(surrogate)) > 3:
        yield from _CASES
    if type_ in _NUMBERS and len(_bare(original)) == len(_bare(surrogate)) >= 7:
        yield Rewriting("digits alone", _bare)
    own, other = original.split(), surrogate.split()
    if type_ == "PERSON" and len(own) == len(other) == 2 and all(map(_is_part, own + other)):
        yield from _FULL_NAMES
        words = (own[0], own[-1], other[0], other[-1])
        if not any(word.endswith(_SIBILANTS) or word.isupper() for word in words):
            yield from _ENDINGS.get(language, ())


def _is_part(word: str) -> bool:
    return sum(map(str.isalpha, word)) >= 3 and word[:1].isupper()


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def as_read(text: str) -> str:
    """Return a text without its encodings: whether an apostrophe is escaped does not count."""
    return re.sub(r"\\(?=[^\w\s])", "", html.unescape(unquote(text.replace("+", " "))))
