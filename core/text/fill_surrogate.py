"""Fill `surrogate`: another value of the same type and form, the same one for the same string within one document.

A surrogate is a keyed function of its type and original (`core.text.surrogates.draw`). The key is random for each
document, so that two documents share surrogates only by chance, or it is a tenant's, so that all its documents share
them. No guarantee: a surrogate keeps the form of what it replaces, and a tenant's key makes documents linkable.

A surrogate never equals a masked string of its document and never contains one of `LEAK_CHARS_MIN` characters or more
(letter case ignored), but for a date, which may contain a shorter masked date or time. No two different originals of a
document share one, but for dates that mean the same day. It is drawn again until that holds. A merged word mask gets
one word, which hides the number of masked words.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from core.errors import TaskFailed
from core.text.mask_words import AllowLists, ranked
from core.text.policy import WORD, Mask, MaskPolicy
from core.text.surrogates.draw import LEAK_CHARS_MIN, LONG_DRAWS, Document, Draw, Originals, cased, new_key
from core.text.surrogates.table import DATES, document_of, fake, first_attempt, identity, surrogate_language

__all__ = ["LEAK_CHARS_MIN", "MaskedValue", "distinct", "document", "draw", "fill", "in_places", "values_of"]

DRAWS_MAX = 1_000


class MaskedValue(NamedTuple):
    """A masked string that gets one surrogate, and the technique that found it first."""

    type: str
    original: str
    technique: str


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


def fill(
    text: str,
    masks: Sequence[Mask],
    policy: MaskPolicy,
    lists: AllowLists,
    *,
    key: bytes | None = None,
    language: str | None = None,
) -> list[str]:
    """Return the surrogates. `key`: as in `SanitizeTask`; None for a key of this call. `language`: of the document.

    Raises TaskFailed if `DRAWS_MAX` draws give no valid one."""
    values = values_of(text, masks)
    terms = document(values, key=key or new_key(), language=language)
    return in_places(text, masks, distinct(values, draw(values, terms, policy, lists), terms, policy, lists))


def values_of(text: str, masks: Sequence[Mask]) -> list[MaskedValue]:
    """Return the values of a document in order, each of which gets a surrogate."""
    found: dict[tuple[str, str], MaskedValue] = {}
    for mask in masks:
        original = text[mask.start : mask.end]
        found.setdefault((mask.type, original), MaskedValue(mask.type, original, mask.technique))
    return list(found.values())


def document(values: Sequence[MaskedValue], *, key: bytes, language: str | None) -> Document:
    """Return what the surrogates of a document have in common. `values`: all of the document."""
    strings = frozenset(value.original.casefold() for value in values)
    pairs = ((value.type, value.original) for value in values)
    return document_of(pairs, strings, key=key, language=surrogate_language(language))


def draw(values: Iterable[MaskedValue], terms: Document, policy: MaskPolicy, lists: AllowLists) -> list[str]:
    """Return a surrogate for each of `values`: some of a document, or all. Each depends on its value and the terms
    alone, so that `distinct` must follow. Raises TaskFailed as `fill`."""
    make = _maker(terms, policy, lists)
    return [make(value, lambda _: False) for value in values]


def distinct(
    values: Sequence[MaskedValue], drawn: Sequence[str], terms: Document, policy: MaskPolicy, lists: AllowLists
) -> list[str]:
    """Return `drawn`, the surrogates of all values of a document, with another one for each that a different original
    before it has. Raises TaskFailed as `fill`."""
    make = _maker(terms, policy, lists)
    owners: dict[str, str] = {}
    chosen = []
    for value, surrogate in zip(values, drawn, strict=True):
        own = identity(value.type, value.original)

        def taken(candidate: str, own: str = own) -> bool:
            return owners.get(candidate.casefold(), own) != own

        if value.type not in DATES:
            if taken(surrogate):
                surrogate = make(value, taken)
            owners[surrogate.casefold()] = own
        chosen.append(surrogate)
    return chosen


def _maker(
    terms: Document, policy: MaskPolicy, lists: AllowLists
) -> Callable[[MaskedValue, Callable[[str], bool]], str]:
    """Return the function that draws the surrogate of a value that is not `refused`."""
    known = Originals(terms.strings)
    words: dict[str, tuple[str, ...]] = {}

    def make(value: MaskedValue, refused: Callable[[str], bool]) -> str:
        if value.type == WORD and value.technique not in words:
            words[value.technique] = _words(value.technique, policy, lists)
        repeats = known.equal_to if value.type in DATES else known.repeated_by
        key = identity(value.type, value.original)
        for attempt in range(first_attempt(value.type, value.original, known), DRAWS_MAX):
            drawing = Draw(terms, value.type, key, attempt=attempt)
            if value.type == WORD and (own := words[value.technique]):
                candidate = _word(value.original, own, drawing)
            else:
                candidate = fake(value.type, value.original, drawing)
            if not repeats(candidate) and not refused(candidate):
                return candidate
        raise TaskFailed(reason="no-surrogate")

    return make


def _word(original: str, words: tuple[str, ...], drawing: Draw) -> str:
    if drawing.long:
        return drawing.letters(8 + drawing.attempt // LONG_DRAWS)
    return cased(original, drawing.choice(words))


def in_places(text: str, masks: Sequence[Mask], drawn: Sequence[str]) -> list[str]:
    """Return the surrogate of each mask. `drawn`: those of `values_of`, in order."""
    values = [(value.type, value.original) for value in values_of(text, masks)]
    chosen = dict(zip(values, drawn, strict=True))
    return [chosen[mask.type, text[mask.start : mask.end]] for mask in masks]
