"""Names of public assistants, of the vendors of their models, and of well-known developer tools: no people.

`You are Claude Code, Anthropic's official CLI for Claude.` stays as it is. A name that people bear as well (`Claude`)
is that of an assistant beside a word for a product, and in a text that introduces an assistant of such a name. It is
never one after a word for a person (`my colleague Claude`) or as a part of a longer name (`Claude Dupont`).
"""

from functools import cached_property

import regex  # type: ignore[import-untyped]

from core.errors import RecogniserFailed
from core.text.labelled import longest_first, phrases
from core.text.recogniser import REGEX_TIMEOUT_S, matches, texts_of

_TEXTS = texts_of(__name__)
ROLE_CHARS = 120
PERSON_CHARS = 20
READ_CHARS = 100_000
WORDS_CHARS = 40  # more than an introduction or a role has


def _any(key: str) -> str:
    return longest_first(phrases(_TEXTS[key]))


_VERSION = r"(?:[ -]?v?\d[\w.]{0,8})?"
_NAME = regex.compile(rf"(?:[dl]['’])?(?:{_any('names')}){_VERSION}(?:['’]s)?")
_SHARED = regex.compile(rf"(?:[dl]['’])?(?:{_any('shared')}){_VERSION}(?:['’]s)?")
_PRODUCT = rf"(?:{_any('shared')})[ -](?:{_any('products')})(?![\p{{L}}\d]){_VERSION}"
_PRODUCT_NAME = regex.compile(_PRODUCT)
_NAMED = regex.compile(
    rf"(?<![\p{{L}}\d]){_PRODUCT}|(?<=[ ])(?P<who>{_any('names')}|{_any('shared')})(?![\p{{L}}\d]|[ ]\p{{Lu}})"
)
_INTRODUCTION = regex.compile(rf"(?r)(?<![\p{{L}}\d])(?:{_any('introductions')})[ ]", regex.IGNORECASE)
_ROLE = regex.compile(rf"(?<!\p{{L}})(?:{_any('roles')})(?!\p{{L}})", regex.IGNORECASE)
_NAMES = phrases(_TEXTS["names"]) + phrases(_TEXTS["shared"])
_PERSON = regex.compile(rf"(?<!\p{{L}})(?:{_any('people')})[ ,]{{1,2}}\Z", regex.IGNORECASE)


def introduced(text: str) -> bool:
    """Whether the beginning of a text introduces an assistant, or has a name such as `Claude Code`.

    Time: linear in the first `READ_CHARS` characters. Raises RecogniserFailed.
    """
    text = text[:READ_CHARS]
    try:
        return any(map(text.__contains__, _NAMES)) and _introduces(text)
    except TimeoutError:
        raise RecogniserFailed from None


def _introduces(text: str) -> bool:
    read = 0  # up to which no role stands after an introduction
    for named in matches(_NAMED, text):
        if named["who"] is None:
            return True
        start, end = named.span()
        if _INTRODUCTION.match(text, max(0, start - WORDS_CHARS), start):
            line_end = text.find("\n", end, end + ROLE_CHARS)
            last = line_end if line_end >= 0 else end + ROLE_CHARS  # where a role begins
            role = _ROLE.search(text, max(read, end), last + WORDS_CHARS, timeout=REGEX_TIMEOUT_S)
            if role and role.start() <= last:
                return True
            read = last
    return False


class Assistants:
    """The names in one text, of which a tagger found some. `known`: an earlier text introduces an assistant."""

    def __init__(self, text: str, *, known: bool = False) -> None:
        self._text = text
        self._known = known

    @cached_property
    def _introduced(self) -> bool:
        return self._known or introduced(self._text)

    def have(self, start: int, end: int) -> bool:
        """Whether `text[start:end]` is the name of an assistant, a vendor or a tool."""
        text = self._text
        value = text[start:end]
        if _NAME.fullmatch(value) or _PRODUCT_NAME.fullmatch(value):
            return True
        if not _SHARED.fullmatch(value) or _PERSON.search(text, max(0, start - PERSON_CHARS), start):
            return False
        return _PRODUCT_NAME.match(text, start) is not None or self._introduced
