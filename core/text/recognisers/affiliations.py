"""AFFILIATION: institutions by a word for one, in eight languages, and which organisations identify nobody.

An institution is a word for one with the capitalised words around it (`Universität Oldenau`, `Riverside Community
College`), or in small letters directly after a name (`Riverside police station`).

`public_body` tells whether a name has only words that a body of every state has (`Court of Appeal`, `Ministry of
Foreign Affairs`), so that it identifies nobody, unless the words before it say that somebody belongs to it (`worked at
the Ministry of Foreign Affairs`, `Ms Roe, of the Supreme Court`), or it stands in parentheses.

Cost: linear in the text, constant for each word of the lists. The patterns are made when they are first needed.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import regex  # type: ignore[import-untyped]

from core.text.recogniser import BOUNDARY, Hit, Lexicon, Recogniser, lower, texts_of
from core.text.recognisers.personal_words import peoples

SCORE = 0.6
SEEN_CHARS = 200
NAME_CHARS_MAX = 160

_PROPER = r"\p{Lu}[\p{L}’'-]{0,30}"
_LINKS = r"of|for|and|the|de|du|des|la|del|di|della|dell|für|der|und|van|voor|dla|da|do|dos|e|y|et|w"
_AFTER = regex.compile(rf"(?:(?:[ ](?:{_LINKS})){{0,3}}[ ]{_PROPER}){{1,6}}")
_BEFORE = regex.compile(rf"(?r)(?:{_PROPER}[ ]){{1,5}}")
_STARTS = regex.compile(r"(?r)(?:\A|[\n.!?:;>*•|\"“„«(-][ ]?)\Z")
_OF_NAME = regex.compile(r"(?r)\p{Lu}\p{L}+(?:,?[ ](?:of|at|with|from)(?:[ ]the)?|,)[ ]\Z")
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@cache
def _texts() -> dict[str, Any]:
    return texts_of(__name__)


def _of(key: str) -> frozenset[str]:
    return frozenset(word.replace("_", " ") for line in _texts()[key].values() for word in line.split())


@cache
def _heads() -> Lexicon:
    return Lexicon(_of("heads") | _of("small_heads"))


@cache
def _small_heads() -> frozenset[str]:
    return _of("small_heads")


@cache
def _articles() -> frozenset[str]:
    return frozenset(_texts()["articles"].split())


def _institutions(text: str) -> Iterator[Hit]:
    floor, low = 0, lower(text)
    for start, end in _heads().places(low):
        capital = text[start].isupper()
        if start < floor or not (capital or low[start:end] in _small_heads()):
            continue
        first = _first(text, start, floor)
        if not capital and (first == start or _STARTS.search(text, max(0, first - 3), first)):
            continue
        after = _AFTER.match(text, end, min(len(text), end + SEEN_CHARS)) if capital else None
        if first < start or after:
            floor = after.end() if after else end
            if not public_body(text, first, floor):
                yield Hit(first, floor, SCORE)


def _first(text: str, start: int, floor: int) -> int:
    """Return where the capitalised words before an institution begin, without an article."""
    before = _BEFORE.match(text, max(floor, start - SEEN_CHARS), start)
    first = before.start() if before else start
    while first < start and text[first:start].split(" ", 1)[0].lower() in _articles():
        first = text.index(" ", first) + 1
    return first


@cache
def _public() -> frozenset[str]:
    return _of("public")


@cache
def _compound() -> regex.Pattern[str]:
    return regex.compile(_texts()["compounds"], regex.IGNORECASE)


@cache
def _member() -> regex.Pattern[str]:
    return regex.compile(
        rf"(?r)(?<!\p{{L}})(?:{_texts()['members']})(?:[ ][\p{{L}},]{{1,20}}){{0,6}}[ ]\Z", regex.IGNORECASE
    )


def public_body(text: str, start: int, end: int) -> bool:
    """Whether the organisation `text[start:end]` is a public body without a name, to which nobody is said to belong."""
    if end - start > NAME_CHARS_MAX:
        return False
    words = _NAME_WORD.findall(text[start:end].lower())
    if not words or text[start - 1 : start] == "(" or not all(map(_is_public, words)):
        return False
    before = text[max(0, start - SEEN_CHARS // 2) : start].rpartition(BOUNDARY)[2]
    return _member().search(before) is None and _OF_NAME.search(before) is None


def _is_public(word: str) -> bool:
    word = word.removesuffix("'s").removesuffix("’s")
    return word in _public() or word in peoples() or _compound().fullmatch(word) is not None


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("AFFILIATION", _institutions),)
