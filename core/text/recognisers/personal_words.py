"""NATIONALITY, OCCUPATION, RELATIONSHIP and EDUCATION: words that tell who a person is, in eight languages.

All are words of lists, in the forms that rules of their language derive (`_forms`). The lists of all languages apply to
every text. Two kinds need more than the word:

* An English or Dutch word for a people, and a short German noun, need a capital (`Polish`, `Koch`).
* A post that is an ordinary word as well (`head`, `agent`) needs `of` after it or a capital inside a sentence.

Cost: linear in the text. The forms are derived when a text is first searched for one of the types.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import BOUNDARY, Hit, Lexicon, Recogniser, Scan, lower, texts_of

SCORE = 0.6
CAPITAL_CHARS_MAX = 6  # a longer German noun counts in small letters as well
SEEN_CHARS = 24
_CAPITALISED = ("en", "nl")  # languages that write words for a people with a capital

# ending of a word -> endings of its other forms; the first row that fits is used, and the word itself always counts.
# `&` stands for the ending of the word.
_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "en": (("man", "men man's man’s"), ("ch|sh|s", "&es &’s &'s"), ("(?<![aeiou])y", "ies y’s y's"), ("", "s ’s 's")),
    "de": (("", "e er es em en n s in innen nen"),),
    "fr": (
        ("teur", "teurs trice trices teuse teuses"),
        ("eur", "eurs euse euses"),
        ("ier", "iers ière ières"),
        ("er", "ers ère ères"),
        ("ien", "iens ienne iennes"),
        ("éen", "éens éenne éennes"),
        ("on", "ons onne onnes"),
        ("f", "fs ve ves"),
        ("ec", "ecs ecque ecques"),
        ("s", "se ses"),
        ("", "s e es"),
    ),
    "es|pt": (
        ("ão", "ã ães ãos"),
        ("o", "a os as"),
        ("or", "ora ores oras"),
        ("és|ês", "esa eses esas"),
        ("án", "ana anes anas"),
        ("ol", "ola oles olas óis"),
        ("[íeaéóãáê]", "&s"),
        ("z", "ces"),
        ("", "es"),
    ),
    "it": (("tore", "trice trici tori"), ("co", "ca chi che ci"), ("o", "a i e"), ("a", "i e"), ("e", "i")),
    "nl": (("man", "mannen mans"), ("", "s e en es")),
    "pl": (
        ("sk|ck|zk", "&i &iego &iemu &im &ich &imi &a &iej &ą &ie"),
        ("ka", "ki ce kę ką ko ek kom kami kach"),
        ("a", "y i ę ą o ie"),
        ("k", "ka kowi kiem ku ki ków kom kami kach cy"),
        ("ec", "ca cowi cem cu cy ców com cami cach"),
        ("[^aeiouyąęó]", "&a &owi &em &u &ie &y &i &ów &om &ami &ach &owie &e"),
    ),
}


def _forms(word: str, language: str) -> list[str]:
    """Return `word` and its other forms; alone if it ends in `!`."""
    rules = next(rules for languages, rules in _RULES.items() if language in languages.split("|"))
    for ending, others in () if word.endswith("!") else rules:
        if found := re.search(f"(?:{ending})$", word):
            stem = word[: found.start()]
            return [word, *(stem + other.replace("&", found.group()) for other in others.split())]
    return [word.rstrip("!")]


class _Words(NamedTuple):
    """Forms of words, and those of them that need a capital."""

    lexicon: Lexicon
    capitals: frozenset[str]


def _inflected(table: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        form for language, line in table.items() for word in line.split() for form in _forms(_phrase(word), language)
    )


def _phrase(word: str) -> str:
    return word.replace("_", " ")


@cache
def _texts() -> dict[str, Any]:
    return texts_of(__name__)


@cache
def _words(key: str) -> _Words:
    free: set[str] = set()
    capital: set[str] = set()
    for language, line in _texts()[key].items():
        for word in line.split():
            short = language == "de" and len(word) <= CAPITAL_CHARS_MAX
            people = key == "nationalities" and language in _CAPITALISED
            (capital if short or people else free).update(_forms(_phrase(word), language))
    return _Words(Lexicon(frozenset(free | capital)), frozenset(capital - free))


def _listed(key: str) -> Scan:
    def scan(text: str) -> Iterator[Hit]:
        words, low = _words(key), lower(text)
        for start, end in words.lexicon.places(low):
            if text[start].isupper() or low[start:end] not in words.capitals:
                yield Hit(start, end, SCORE)

    return scan


@cache
def peoples() -> frozenset[str]:
    """Return the words for the people and the things of a country, an ethnic group or a religion, in small letters."""
    return _inflected(_texts()["nationalities"])


@cache
def _posts() -> Lexicon:
    return Lexicon(frozenset(_phrase(word) for line in _texts()["posts"].values() for word in line.split()))


_STARTS = regex.compile(r"(?r)(?:\A|[\n.!?:;>*•|\"“„«(-][ ]?)\Z")
_OF = regex.compile(r"[ ]of[ ](?:the[ ])?\p{L}")


def _occupations(text: str) -> Iterator[Hit]:
    yield from _listed("occupations")(text)
    for start, end in _posts().places(lower(text)):
        inside = text[start].isupper() and not _STARTS.search(_before(text, start))
        if inside or _OF.match(text, end):
            yield Hit(start, end, SCORE)


def _before(text: str, start: int) -> str:
    return text[max(0, start - SEEN_CHARS) : start].rpartition(BOUNDARY)[2]


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("NATIONALITY", _listed("nationalities")),
        Recogniser("OCCUPATION", _occupations),
        Recogniser("RELATIONSHIP", _listed("relationships")),
        Recogniser("EDUCATION", _listed("studies")),
    )
