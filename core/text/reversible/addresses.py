"""The parts of addresses in a conversation: what stands for them, and where they are replaced alone.

A street, a postal code or a town may be repeated alone, by the user or by a model. The first surrogate of a part is
that of all addresses that have it, and of the part alone. No two parts have the same surrogate, and no surrogate is a
part of an original.
"""

import re
from collections.abc import Iterable, Iterator

from core.text.ordinary_words import is_frequent
from core.text.reversible.forms import POSTCODE_DIGITS, has_letters
from core.text.reversible.lexing import folded_text
from core.text.reversible.rewritten import CODE, follows_label
from core.text.surrogates.draw import cased
from core.text.surrogates.places import (
    LINE,
    POSTCODE,
    SINGLE_ATTEMPTS,
    STREET,
    TOWN,
    AddressPart,
    ReadAddress,
)

KNOWN_PARTS_ATTEMPTS = 4  # with the parts of other addresses; then these seem to be what does not fit
CROWDED_ADDRESSES = 100
_OWNED_KINDS = (STREET, POSTCODE, TOWN)
_PART_KINDS = (*_OWNED_KINDS, LINE)
_GERMAN = "de"  # its nouns begin with a capital
_GERMAN_PREPOSITION = re.compile(r"\b(?:in|aus|nach|bei|von|für|über|ab|bis)\s$", re.IGNORECASE)
_NEW_SENTENCE = re.compile(r"(?:\A|[.!?:;\n\"'“”„«»()*•>-])\s*\Z")
_SEEN = 64


class Addresses:
    """Reads each address of a conversation once."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._read: dict[str, ReadAddress] = {}

    def parts(self, original: str, other: str) -> list[AddressPart]:
        """Return the parts of an address with those of its surrogate."""
        found = self._read.get(original)
        if found is None:
            found = self._read[original] = ReadAddress(original, self.language)
        return found.parts(other)

    def alone(self, original: str) -> Iterator[str]:
        """Yield the parts of an address that are replaced where they stand alone."""
        for part in self.parts(original, original):
            own = original[slice(*part.own)]
            if part.kind in _PART_KINDS and own != original and (part.kind == POSTCODE or has_letters(own)):
                yield own


class AddressBook:
    """Part of an address -> part of a surrogate, of the addresses that were added."""

    def __init__(self, addresses: Addresses, originals: Iterable[str]) -> None:
        """`originals`: the addresses that get surrogates."""
        self._addresses = addresses
        self._own = {
            folded_text(original[slice(*part.own)])
            for original in originals
            for part in addresses.parts(original, original)
            if part.kind in _OWNED_KINDS
        }
        self._known: dict[str, str] = {}
        self._count = 0

    @property
    def first_attempt(self) -> int:
        """The first attempt that is worth a draw: one with joined names where those of the lists are used up soon."""
        return SINGLE_ATTEMPTS if self._count > CROWDED_ADDRESSES else 0

    def parts(self, original: str, surrogate: str) -> list[tuple[str, str]]:
        """Return the parts of an address that no other may share, with those of the surrogate."""
        return [
            (own, surrogate[slice(*part.other)])
            for part in self._addresses.parts(original, surrogate)
            if part.kind in _OWNED_KINDS and (own := original[slice(*part.own)]) != original
        ]

    def has(self, part: str) -> bool:
        """Whether a part of a surrogate, as `folded_text` gives it, is one of an original."""
        return part in self._own

    def with_known(self, original: str, candidate: str) -> str:
        """Return a surrogate of an address with the known parts."""
        if known := self._known.get(original.casefold()):
            return cased(original, known)
        pieces, read = [], 0
        for part in sorted(self._addresses.parts(original, candidate), key=lambda part: part.other):
            own, (start, end) = original[slice(*part.own)], part.other
            known = self._known.get(own.casefold())
            if known and part.kind in _OWNED_KINDS and start >= read:
                pieces += [candidate[read:start], cased(own, known)]
                read = end
        return "".join((*pieces, candidate[read:]))

    def add(self, original: str, surrogate: str) -> None:
        self._known.setdefault(original.casefold(), surrogate)
        parts = self._addresses.parts(original, surrogate)
        for part in parts:
            if part.kind in _PART_KINDS:
                self._known.setdefault(original[slice(*part.own)].casefold(), surrogate[slice(*part.other)])
        self._count += len(parts) > 1


def is_doubtful(part: str, language: str) -> bool:
    """Whether a part of an address may be a year, or a frequent word."""
    return (part.isdecimal() and len(part) < POSTCODE_DIGITS) or (part.isalpha() and is_frequent(part, language))


def is_meant(text: str, start: int, end: int, language: str) -> bool:
    """Whether a doubtful part of an address stands for it: alone in the text, a number after a word for postal codes,
    or a name with a capital inside a sentence, in German after a preposition without an article."""
    part, before = text[start:end], text[max(0, start - _SEEN) : start]
    if text.strip() == part:
        return True
    if part.isdecimal():
        return follows_label(CODE, before)
    if language == _GERMAN:
        return bool(_GERMAN_PREPOSITION.search(before))
    return part[:1].isupper() and not _NEW_SENTENCE.search(before)
