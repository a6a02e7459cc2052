"""Names that the words beside them show, in eight languages: what a tagger often misses, or hides in part.

* Firms by a word of a trade: `Rook Joinery`, `Panificio Bellandi`, `Koła Łowieckiego Dzik`. Before or after the word
  stand one to four words in capitals, and not only words such as *Central* or *Mobile*.
* Addresses by a word for a street and a number, with what follows of it: `Turfkade 88-III, 1018 KJ Delft`.
* Given names of the lists of a language that are no frequent words, in capitals.
* Persons after a label (`t.n.v. F. Oosterwijk`, `Kontoinhaber:`) or a form of address (`Herr Winter`), and with a title
  of nobility between their names.

`named_forms` yields what it finds. `trimmed` returns a name without `mon mari` before it or `komt` after it.
The lists are short. Cost: linear in the text, constant for each capital word and each number.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.languages import LANGUAGES
from core.text.ordinary_words import names_no_firm, names_nobody, names_somebody
from core.text.recogniser import Span, texts_of

PERSON, LOCATION, ORGANIZATION = "PERSON", "LOCATION", "ORGANIZATION"
SEEN_CHARS = 90
FORM_SCORE = 0.9

_TEXTS = texts_of(__name__)
_STREETS, _PARTS = _TEXTS["streets"], _TEXTS["parts"]


class NamedForm(NamedTuple):
    start: int
    end: int
    kind: str


def named_forms(text: str, language: str) -> Iterator[NamedForm]:
    """Yield firms, addresses and persons that the words beside them show, and given names of the lists of `language`.
    They may overlap."""
    yield from (NamedForm(*span, ORGANIZATION) for span in _firms(text))
    yield from (NamedForm(*span, LOCATION) for span in _addresses(text))
    yield from (NamedForm(*span, LOCATION) for span in _streets_alone(text))
    yield from (NamedForm(*span, PERSON) for span in _persons(text))
    if language in LANGUAGES:
        yield from (NamedForm(*span, PERSON) for span in _given(text, language))


# ---------------------------------------------------------------- firms

_CAPITAL = re.compile(r"(?<![\w-])[^\W\d_a-zà-ÿ][^\W\d_A-Z]{2,22}(?:-[^\W\d_A-Z]{3,12})?(?![\w-]|['’]\w)")
_AFTER_NAME = frozenset(phrases(_TEXTS["trades_after"]))
_BEFORE_NAME = {word: language for language, words in _TEXTS["trades_before"].items() for word in phrases(words)}
_GENERIC = frozenset(phrases(_TEXTS["generic"]))
_NO_FIRMS = frozenset(phrases(_PARTS["no_firms"]))
_FIRMS_ALONE = frozenset(phrases(_PARTS["firms"]))
_WORDS_BEFORE = regex.compile(r"(?r)(?<![\w@/.-])(?:(?:\p{Lu}[\p{L}'’-]{1,20}|&)[ ]){1,4}\Z")
_NAME, _WAY = _TEXTS["name"], _TEXTS["way"]
_FIRM_AFTER = regex.compile(
    rf"[ ](?:(?i:{_PARTS['adjectives']})[ ])?(?P<name>[„\"“«'‘]\p{{Lu}}[^\"”“»'’\n]{{1,30}}[\"”“»'’]"
    rf"|(?:(?:de|del|della|dello|do|da|dos|das|di|du|des|van|zum|zur|La|Le|El|Los|Las|Il|De|Het|St\.)[ ]){{0,2}}"
    rf"(?:[ld]['’])?{_NAME}(?:(?:[ ](?:&|e|y|et|und|i|en))?[ ]{_NAME}){{0,2}})(?![\p{{L}}\d])"
)
_STARTS = regex.compile(r"(?r)(?:^|[.!?:\n\"“„«(|>*•-][ ]?|\A)\Z")


def _firms(text: str) -> Iterator[Span]:
    for word in _CAPITAL.finditer(text):
        small = word.group().casefold()
        if small in _AFTER_NAME:
            start = _name_before(text, word.start())
            if start is not None:
                yield start, word.end()
        elif small in _BEFORE_NAME:
            end = _name_after(text, word.end(), _BEFORE_NAME[small])
            if end is not None:
                yield (word.end() + 1 if small in _FIRMS_ALONE else word.start()), end


def _name_before(text: str, end: int) -> int | None:
    """Return where the name of a firm begins whose word of a trade is at `end`."""
    found = _WORDS_BEFORE.search(text, max(0, end - SEEN_CHARS), end)
    if found is None:
        return None
    words = [(word.start(), word.group()) for word in _NAME_WORD.finditer(text, found.start(), end)]
    while words and words[0][1].casefold() in _ARTICLES:
        words = words[1:]
    names = [(at, word) for at, word in words if word.casefold() not in _GENERIC]
    if not names:
        return None
    first = words[0][0]
    alone = len(words) == 1 or _STARTS.search(text, max(0, first - 3), first) is not None
    return None if alone and all(names_no_firm(word, "en") for _, word in names) else first


_NAME_WORD = regex.compile(r"[\p{L}'’-]+")
_ARTICLES = frozenset(
    ("the", "our", "my", "your", "a", "an", "at", "in", "from", "with", "for", "by", "and", "or", "of")
)


def _name_after(text: str, start: int, language: str) -> int | None:
    """Return where the name of a firm ends whose word of a trade ends at `start`."""
    found = _FIRM_AFTER.match(text, start, start + SEEN_CHARS)
    if found is None:
        return None
    words = [word.casefold() for word in _NAME_WORD.findall(found["name"]) if word[0].isupper()]
    if not words or words[0] in _NO_FIRMS or _NO_FIRMS.issuperset(words):
        return None
    if len(words) == 1 and names_no_firm(words[0], language) and found["name"][0] not in "„\"“«'‘":
        return None
    return int(found.end())


# ---------------------------------------------------------------- addresses

_NUMBER = re.compile(r"(?<=[^\W\d_][ .])\d{1,4}(?!\d)|(?<=[^\W\d_], )\d{1,4}(?!\d)|(?<=[º°o.] )\d{1,4}(?!\d)")
_NUMBER_BEFORE = re.compile(r"(?<![\w.,:/€$£#-])\d{1,5}[A-Za-z]?(?= [A-Z]|,? (?:bis |ter )?[a-z]{3,10} )")
_NUMBER_WORD = r"(?:,?[ ](?:n[.ºro°]{1,3}|núm\.?|nr\.?|numer|número|numéro|snc))?,?[ ]"
_BEFORE_NUMBER = regex.compile(
    rf"(?r)(?<![\p{{L}}\d])(?P<way>(?i:{_STREETS['before']}))(?:(?<=/|\.)|[ ])"
    rf"(?:{_WAY}[ ]){{0,5}}(?P<last>\p{{Lu}}[\p{{L}}'’-]{{1,24}}){_NUMBER_WORD}\Z"
)
_ENDS_BEFORE = regex.compile(
    rf"(?r)(?<![\p{{L}}\d-])(?P<name>(?:(?:{_STREETS['adjectives']})[ ]|\p{{Lu}}[\p{{L}}'’]{{1,20}}-){{0,3}}"
    rf"(?:\p{{Lu}}[\p{{L}}'’-]{{1,24}}(?:{_STREETS['ends']})"
    rf"|\p{{Lu}}[\p{{L}}'’.-]{{1,20}}(?:er)?[ -](?i:{_STREETS['ends']}))|\p{{Ll}}{{3,20}}(?:{_STREETS['small_ends']})"
    rf"|(?:[Aa]m|an der|im|zum|zur)[ ](?:\p{{L}}{{3,10}}en[ ])?(?i:{_STREETS['small_names']}))[ ]\Z"
)
_NO_STREETS = frozenset(phrases(_STREETS["no_streets"]))
_NO_BEFORE = frozenset(phrases(_STREETS["no_before"]))
_GERMAN_BEFORE = frozenset(phrases(_STREETS["german_before"]))
_STREET_AFTER = regex.compile(
    rf",?[ ](?:(?:bis|ter)[ ])?(?:{_STREETS['french']})[ ](?:{_WAY}[ ]){{0,4}}"
    rf"\p{{Lu}}[\p{{L}}'’-]{{1,24}}(?![\p{{L}}\d])"
    rf"|[ ](?:\p{{Lu}}[\p{{L}}'’.-]{{1,20}}[ ]){{1,4}}(?:{_STREETS['english']})"
    r"(?:[ ](?:North|South|East|West|N|S|E|W|NW|NE|SW|SE))?(?![\p{L}\d])\.?"
)
_REST = regex.compile(_TEXTS["rest"])
_UNIT_AFTER = regex.compile(_TEXTS["unit_after"])
_ALONE = regex.compile(
    rf"(?<![\p{{L}}\d-])(?:(?:{_STREETS['alone']})[ ](?:(?:{_TEXTS['joints']})[ ]){{0,2}}"
    rf"(?:[ld]['’])?\p{{Lu}}\p{{Ll}}[\p{{L}}'’-]{{1,24}}(?:[ ]\p{{Lu}}\p{{Ll}}[\p{{L}}'’-]{{1,24}}){{0,2}}"
    rf"|\p{{Lu}}\p{{Ll}}{{2,20}}(?:{_STREETS['alone_ends']}))(?![\p{{L}}\d])"
)


def _addresses(text: str) -> Iterator[Span]:
    for number in _NUMBER.finditer(text):
        at = number.start()
        first = max(0, at - SEEN_CHARS)
        start = _street(text, first, at)
        if start is not None and not _UNIT_AFTER.match(text, number.end()):
            yield start, _rest(text, number.end())
    for number in _NUMBER_BEFORE.finditer(text):
        street = _STREET_AFTER.match(text, number.end(), number.end() + SEEN_CHARS)
        if street:
            end = street.end() - text.endswith(".", 0, street.end())
            yield number.start(), _rest(text, end) if text[end : end + 1] == "," else end


def _streets_alone(text: str) -> Iterator[Span]:
    for found in _ALONE.finditer(text):
        if found.group().lower() not in _NO_STREETS:
            yield found.span()


def _street(text: str, first: int, at: int) -> int | None:
    """Return where a street begins whose number is at `at`."""
    if found := _ENDS_BEFORE.search(text, first, at):
        return None if found["name"].strip().lower() in _NO_STREETS else int(found.start())
    if found := _BEFORE_NUMBER.search(text, first, at):
        way, last = found["way"], found["last"]
        if way.casefold() in _GERMAN_BEFORE and (way[1:].isupper() or way.islower() or names_no_firm(last, "de")):
            return None
        if way.casefold() in _NO_BEFORE and (names_no_firm(last, "en") or names_no_firm(last, "fr")):
            return None
        return int(found.start())
    return None


def _rest(text: str, at: int) -> int:
    end = int(_REST.match(text, at, at + SEEN_CHARS).end())
    return end - text.endswith(".", at, end)


# ---------------------------------------------------------------- persons

_PARTICLES = rf"(?:(?:{_PARTS['particles']})(?:[ ]|(?<=['’])))"
_LAST = r"\p{Lu}[\p{L}'’]+(?:-\p{Lu}[\p{L}'’]+)*"
_PERSON_NAME = (
    rf"(?:(?:\p{{Lu}}\.[ -]?){{1,3}})?(?![ld]['’ae ]|el |les |al ){_PARTICLES}{{0,3}}(?P<name>{_LAST})"
    rf"(?:[ ](?:\p{{Lu}}\.[ ])?{_PARTICLES}{{0,3}}(?=\p{{Lu}}\p{{Ll}}){_LAST}){{0,3}}(?![\p{{L}}\d])"
)
_LABELLED = regex.compile(
    rf"(?<![\p{{L}}\d])(?i:{_PARTS['labels']})[ ](?:(?:{_PARTS['titles']})[ ])?(?P<person>{_PERSON_NAME})"
)
_TITLED = regex.compile(rf"(?<![\p{{L}}\d'’-])(?:{_PARTS['titles']})[ ](?P<person>{_PERSON_NAME})")
_NOBLE = regex.compile(
    rf"(?<![\p{{L}}\d])(?P<person>(?P<name>{_NAME})[ ](?:{_PARTS['nobles']})"
    rf"(?:[ ](?:von|zu|vom|zum|van|de|und|der)){{1,4}}[ ]{_NAME})(?!\p{{L}})"
)
_NO_PERSONS = frozenset(phrases(_PARTS["no_persons"]))
_KIN = frozenset(phrases(_PARTS["kin"]))
_BEFORE_NAMES = frozenset(phrases(_PARTS["before_names"]))


def _persons(text: str) -> Iterator[Span]:
    for pattern in (_LABELLED, _TITLED, _NOBLE):
        for found in pattern.finditer(text):
            if found["name"].casefold() not in _NO_PERSONS:
                yield found.span("person")


_NOT_GIVEN = frozenset(phrases(_PARTS["not_given"]))


def _given(text: str, language: str) -> Iterator[Span]:
    """Yield the words in capitals that are given names and rarely anything else."""
    for word in _CAPITAL.finditer(text):
        small = word.group().casefold()
        if names_somebody(small, language) and small not in _NOT_GIVEN:
            yield word.span()


def trimmed(text: str, start: int, end: int, language: str) -> Span:
    """Return the name in `text[start:end]` without words in small letters at its ends that name nobody, such as
    `mon mari` before it or `komt` after it. Particles before a name stay."""
    words = [*_NAME_WORD.finditer(text, start, end)]
    capitals = any(word.group()[0].isupper() for word in words)
    first, last = 0, len(words)

    def ordinary(word: str) -> bool:
        return word.islower() and len(word) > 1 and (word in _KIN or (capitals and names_nobody(word, language)))

    while last - first > 1 and ordinary(words[first].group()) and words[first].group() not in _BEFORE_NAMES:
        first += 1
    while capitals and last - first > 1 and ordinary(words[last - 1].group()):
        last -= 1
    if any(map(str.isdecimal, text[start:end])) or last - first == len(words):
        return start, end
    return words[first].start(), (words[last - 1].end() if last < len(words) else end)
