"""Draws the surrogates of a conversation.

A surrogate is a keyed function of its type and original (`core.text.surrogates`). It is drawn again if it could not be
restored without doubt: if it, or a part that is restored alone, is a frequent word, stands in a text of the
conversation, or belongs to another original. The surrogate of a name has no word that is an original, however short.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from core.errors import TaskFailed
from core.text.policy import NUMBER
from core.text.reversible.forms import PERSON, is_ordinary, marker, name_parts, parts_of
from core.text.reversible.lexing import as_read, folded, folded_words, lex, normal
from core.text.surrogates.dates import shift_of
from core.text.surrogates.draw import Document, Draw, Originals, alphanumerics
from core.text.surrogates.names import book_of
from core.text.surrogates.table import DATES, NUMBERS, fake, first_attempt, identity

DRAWS_MAX = 1_000
_WORDS = (PERSON, "ORGANIZATION", "LOCATION")
_BETWEEN = "\0"
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")


class Value(NamedTuple):
    """A string that is replaced, and its type."""

    type: str
    original: str

    def __repr__(self) -> str:
        return f"Value({self.type})"


class Words:
    """The words of texts, in small letters."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        """`texts`: the tokens of each."""
        self._words = [word for tokens in texts for word in (*folded(tokens), _BETWEEN)]
        self._all = set(self._words)

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], list[int]]:
        """Where each two words stand next to each other."""
        found: dict[tuple[str, str], list[int]] = {}
        for at, pair in enumerate(pairwise(self._words)):
            found.setdefault(pair, []).append(at)
        return found

    def have(self, text: str) -> bool:
        """Whether the words of `text` stand next to each other in one of the texts. The time is that of the places of
        the rarest two of them."""
        words = folded_words(text)
        if not words or not all(word in self._all for word in words):
            return False
        if len(words) == 1:
            return True
        count, rarest = min((len(self._pairs.get(pair, ())), at) for at, pair in enumerate(pairwise(words)))
        if not count:
            return False
        places = self._pairs[words[rarest], words[rarest + 1]]
        return any(at >= rarest and self._words[at - rarest : at - rarest + len(words)] == words for at in places)


class _Owners:
    """Which original each surrogate, and each part of one, belongs to."""

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}
        self._folded: dict[str, str] = {}
        self._numbers: dict[str, str] = {}

    def allow(self, value: Value, surrogate: str, folded: Sequence[tuple[str, str]]) -> bool:
        """`folded`: the pairs of value and surrogate, and of their parts, as `_folded_pairs` gives them."""
        if self._exact.get(surrogate, value.original) != value.original:
            return False
        if any(self._folded.get(new, own) != own for own, new in folded):
            return False
        own = identity(value.type, value.original)
        return value.type not in NUMBERS or self._numbers.get(_bare(surrogate), own) == own

    def add(self, value: Value, surrogate: str, folded: Sequence[tuple[str, str]]) -> None:
        self._exact[surrogate] = value.original
        self._folded |= {new: own for own, new in folded}
        if value.type in NUMBERS:
            self._numbers[_bare(surrogate)] = identity(value.type, value.original)


def _folded_pairs(value: Value, surrogate: str, parts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(_folded(own), _folded(new)) for own, new in ((value.original, surrogate), *parts)]


def _folded(text: str) -> str:
    return "".join(map(normal, lex(text).tokens)).casefold()


def _bare(text: str) -> str:
    return alphanumerics(text.casefold())


def surrogates(
    values: Sequence[Value],
    *,
    key: bytes,
    language: str,
    kept: Words,
    banned: AbstractSet[tuple[str, str]],
    blocked: AbstractSet[str] = frozenset(),
    fixed: Mapping[Value, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return original -> surrogate. `kept`: the words of the conversation that are not replaced. `banned`: originals
    and surrogates that do not go together. `blocked`: what is never a surrogate. `fixed`: other values of the
    conversation and their surrogates. Raises TaskFailed if `DRAWS_MAX` draws give no surrogate."""
    if not values:
        return {}
    together = [*fixed, *values]
    strings = {value.original.casefold() for value in together}
    strings |= {part.casefold() for value in together if value.type == PERSON for part in parts_of(value.original)}
    known = Originals(strings)

    def unfit(name: str) -> bool:
        return kept.have(name) or (name.isalpha() and is_ordinary(name, language))

    terms = _terms(together, frozenset(strings), key, language, known, unfit)
    owners = _Owners()
    for value, surrogate in fixed.items():
        owners.add(value, surrogate, _folded_pairs(value, surrogate, _parts(value, surrogate)))
    chosen: dict[str, str] = {}
    for value in values:
        repeats = known.equal_to if value.type in DATES else known.repeated_by
        own = identity(value.type, value.original)
        type_ = _drawn_type(value)
        original = _drawn_from(value)
        for attempt in range(first_attempt(type_, original, known), DRAWS_MAX):
            candidate = fake(type_, original, Draw(terms, type_, own, attempt=attempt))
            parts = _parts(value, candidate)
            if (
                _well_formed(candidate)
                and not repeats(candidate)
                and not (value.type in _WORDS and strings.intersection(folded_words(candidate)))
                and not unfit(candidate)
                and not any(unfit(part) for _, part in parts)
                and (value.original, candidate) not in banned
                and candidate not in blocked
                and owners.allow(value, candidate, folded := _folded_pairs(value, candidate, parts))
            ):
                break
        else:
            raise TaskFailed(reason="no-surrogate")
        owners.add(value, candidate, folded)
        chosen[value.original] = candidate
    return chosen


def _parts(value: Value, surrogate: str) -> list[tuple[str, str]]:
    return list(name_parts(value.original, surrogate)) if value.type == PERSON else []


def _drawn_type(value: Value) -> str:
    """Return the type of which a surrogate is drawn: by the shape if there are numerals that are no decimal digits, so
    that the value is no number, date or account."""
    odd = any(char.isnumeric() and not char.isdecimal() for char in value.original)
    return NUMBER if odd and value.type not in _WORDS else value.type


def _drawn_from(value: Value) -> str:
    """Return an original without its escapes: a surrogate of their shape would have some that mean nothing."""
    return _PERCENT.sub("x", value.original) if value.type == "URL" else as_read(value.original)


def _well_formed(candidate: str) -> bool:
    return candidate == candidate.strip() and any(map(str.isalnum, candidate))


def _terms(
    values: Sequence[Value],
    strings: frozenset[str],
    key: bytes,
    language: str,
    known: Originals,
    unfit: Callable[[str], bool],
) -> Document:
    bare = Document(key, language, strings)

    def draw(*parts: str, attempt: int) -> Draw:
        return Draw(bare, *parts, attempt=attempt)

    persons = [_drawn_from(value) for value in values if value.type == PERSON]
    dates = [_drawn_from(value) for value in values if _drawn_type(value) in DATES]
    names = book_of(persons, language, draw, lambda name: known.repeated_by(name) or unfit(name))
    return Document(key, language, strings, names, shift_of(dates, language, draw, known))


def markers(
    values: Sequence[Value],
    *,
    words: Words,
    banned: AbstractSet[tuple[str, str]],
    taken: AbstractSet[str] = frozenset(),
) -> dict[str, str]:
    """Return original -> `[TYPE_1]`, `[TYPE_2]` and so on, in the order of `values`, without the markers that the
    texts with `words` have and those that are `taken`."""
    counts: dict[str, int] = {}
    chosen: dict[str, str] = {}
    for value in values:
        while True:
            counts[value.type] = counts.get(value.type, 0) + 1
            candidate = marker(value.type, counts[value.type])
            if candidate not in taken and not words.have(candidate) and (value.original, candidate) not in banned:
                break
        chosen[value.original] = candidate
    return chosen
