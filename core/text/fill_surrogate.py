"""Fill `surrogate`: another value of the same type, the same one for the same string within one document.

Values are drawn anew for every call from the operating system's randomness, so two documents share surrogates only by
chance. A surrogate never equals a masked string of its document and never contains one of `LEAK_CHARS_MIN` characters
or more (letter case ignored); it is drawn again until that holds. A merged word mask gets one word, which hides the
number of masked words. The values come from `core.text.surrogates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from core.errors import TaskFailed
from core.text.lists import AllowLists
from core.text.policy import WORD, Mask, MaskPolicy
from core.text.surrogates import fake, fake_word
from core.text.vocabulary import ranked

LEAK_CHARS_MIN = 4
DRAWS_MAX = 1_000


class Value(NamedTuple):
    """A masked string that gets one surrogate, and the technique that found it first."""

    type: str
    original: str
    technique: str


class Originals:
    """The masked strings of one document, for testing whether a candidate repeats one. It lives for one call."""

    def __init__(self, strings: set[str]) -> None:
        self._strings = strings
        self._lengths = sorted({len(each) for each in strings if len(each) >= LEAK_CHARS_MIN})

    def repeated_by(self, candidate: str) -> bool:
        folded = candidate.casefold()
        if folded in self._strings:
            return True
        for length in self._lengths:
            if length > len(folded):
                return False
            for start in range(len(folded) - length + 1):
                if folded[start : start + length] in self._strings:
                    return True
        return False


@lru_cache(maxsize=8)
def _alphabetic(words: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(word for word in words if word.isalpha()))


@lru_cache(maxsize=8)
def _frequent(size: int) -> tuple[str, ...]:
    return tuple(word for word, rank in ranked()[1].items() if rank < size and word.isalpha())


def _words(technique: str, policy: MaskPolicy, lists: AllowLists) -> tuple[str, ...]:
    if technique == "allow_list":
        return _alphabetic(lists.words(policy.allow_list))
    return _frequent(policy.vocabulary_size)


def fill(text: str, masks: Sequence[Mask], policy: MaskPolicy, lists: AllowLists) -> list[str]:
    """Return the surrogates. Raises TaskFailed if `DRAWS_MAX` draws give no valid one."""
    values = values_of(text, masks)
    return in_places(text, masks, draw(values, originals_of(text, masks), policy, lists))


def values_of(text: str, masks: Sequence[Mask]) -> list[Value]:
    """Return the values of a document, each of which gets a surrogate. Two strings that differ in letter case only are
    one value."""
    found: dict[tuple[str, str], Value] = {}
    for mask in masks:
        original = text[mask.start : mask.end]
        found.setdefault((mask.type, original.casefold()), Value(mask.type, original, mask.technique))
    return list(found.values())


def originals_of(text: str, masks: Sequence[Mask]) -> set[str]:
    """Return all masked strings, in the form that `draw` needs."""
    return {text[mask.start : mask.end].casefold() for mask in masks}


def draw(values: Sequence[Value], originals: set[str], policy: MaskPolicy, lists: AllowLists) -> list[str]:
    """Return a surrogate for each of `values`: some of a document, or all.

    The draws are independent of each other, given the `originals` of the whole document, none of which is repeated.
    Raises TaskFailed as `fill`.
    """
    known = Originals(originals)
    words = {
        technique: _words(technique, policy, lists)
        for technique in {value.technique for value in values if value.type == WORD}
    }
    drawn = [_draw(value, words.get(value.technique, ()), known) for value in values]
    if any(map(known.repeated_by, drawn)):
        raise TaskFailed(reason="surrogate-repeats-original")
    return drawn


def in_places(text: str, masks: Sequence[Mask], drawn: Sequence[str]) -> list[str]:
    """Return the surrogate of each mask. `drawn`: those of `values_of`, in order."""
    values = [(value.type, value.original.casefold()) for value in values_of(text, masks)]
    chosen = dict(zip(values, drawn, strict=True))
    return [chosen[mask.type, text[mask.start : mask.end].casefold()] for mask in masks]


def _draw(own: Value, words: tuple[str, ...], originals: Originals) -> str:
    for number in range(DRAWS_MAX):
        value = fake_word(words, number) if own.type == WORD and words else fake(own.type, own.original, number)
        if not originals.repeated_by(value):
            return value
    raise TaskFailed(reason="no-surrogate")
