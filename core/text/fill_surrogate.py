"""Fill `surrogate`: another value of the same type, the same one for the same string within one document.

Values are drawn anew for every call from the operating system's randomness, so two documents share surrogates only by
chance. A surrogate never equals a masked string of its document and never contains one of `LEAK_CHARS_MIN` characters
or more (letter case ignored); it is drawn again until that holds. A merged word mask gets one word, which hides the
number of masked words. The values come from `core.text.surrogates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from core.errors import TaskFailed
from core.text.lists import AllowLists
from core.text.policy import WORD, Mask, MaskPolicy
from core.text.surrogates import fake, fake_word
from core.text.vocabulary import ranked

LEAK_CHARS_MIN = 4
DRAWS_MAX = 1_000


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
    originals = Originals({text[mask.start : mask.end].casefold() for mask in masks})
    words = {
        technique: _words(technique, policy, lists)
        for technique in {mask.technique for mask in masks if mask.type == WORD}
    }
    chosen: dict[tuple[str, str], str] = {}
    fills = []
    for mask in masks:
        original = text[mask.start : mask.end]
        key = (mask.type, original.casefold())
        if key not in chosen:
            chosen[key] = _draw(mask, original, words.get(mask.technique, ()), originals)
        fills.append(chosen[key])
    if any(originals.repeated_by(value) for value in chosen.values()):
        raise TaskFailed(reason="surrogate-repeats-original")
    return fills


def _draw(mask: Mask, original: str, words: tuple[str, ...], originals: Originals) -> str:
    for draw in range(DRAWS_MAX):
        value = fake_word(words, draw) if mask.type == WORD and words else fake(mask.type, original, draw)
        if not originals.repeated_by(value):
            return value
    raise TaskFailed(reason="no-surrogate")
