"""The form of a value: its letter case, its separators, and values of the same shape."""

from __future__ import annotations

import string
from collections.abc import Iterable

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import LONG_DRAWS, Draw

ORDINALS = "ºª"  # letters to Unicode, marks to a reader

LETTER_DRAWS = 2 * LONG_DRAWS
_UPPER = string.ascii_uppercase


def same_shape(original: str, draw: Draw, *, letters: str = _UPPER, kept: int = 0) -> str:
    """Return another digit for each digit and another letter for each letter, and everything else as it is.

    The first digit of a number that does not begin with 0 is not 0. The first `kept` characters stay. Two originals
    that differ in separators and letter case only get the same digits and letters.
    """
    if draw.attempt >= LETTER_DRAWS:  # every number of some length is a masked string
        return draw.letters(8 + draw.attempt // LETTER_DRAWS)
    fresh: list[str] = [original[:kept]]
    inside = False
    for char in original[kept:]:
        if char.isnumeric():
            least = 0 if inside or char == "0" else 1
            fresh.append(str(draw.between(least, 9)))
        elif char.isalpha() and char not in ORDINALS:
            new = draw.choice(letters)
            fresh.append(new if char.isupper() else new.lower())
        else:
            fresh.append(char)
        inside = inside or char.isnumeric()
    return "".join(fresh) + longer(draw)


def longer(draw: Draw) -> str:
    """Return nothing, or some digits once the values of the shape seem to be used up."""
    return draw.digits(1 + draw.attempt // LONG_DRAWS) if draw.long else ""


def alphanumerics(text: str) -> str:
    return text if text.isalnum() else "".join(filter(str.isalnum, text))


def laid_out(original: str, fresh: Iterable[str]) -> str:
    """Return the letters and digits of `fresh` with the separators and the letter case of `original`."""
    values = iter(fresh)
    written = []
    for char in original:
        if not char.isalnum():
            written.append(char)
        elif value := next(values, ""):
            written.append(value.lower() if char.islower() and value.isalpha() else value)
    return "".join((*written, *values))


def cased(original: str, value: str) -> str:
    """Return `value` in capitals or in small letters if `original` has no other letters."""
    if not original.isupper() or len(alphanumerics(original)) < 2:
        return value.lower() if original.islower() else value
    return value.upper()


SAME_MAX = 3  # the first characters that must not all be those of the original

_MARKER = regex.compile(r"-{4,5} ?(?:BEGIN|END) [A-Z0-9 ]{1,60}-{4,5}|^[a-z][a-z0-9+]{1,15}://|\\[nr]")


def secret(original: str, draw: Draw) -> str:
    """Return random characters of the same kinds in the same places, for a SECRET or PASSWORD.

    No prefix by which a scanner would take the surrogate for a token of a provider is kept: a scanner that verifies
    finds would call that provider. Kept are the lines around a block of a key and the scheme of a connection string.
    """
    pieces, read = [], 0
    for marker in _MARKER.finditer(original):
        pieces += [_random(original[read : marker.start()], draw), marker.group()]
        read = marker.end()
    return "".join((*pieces, _random(original[read:], draw))) + longer(draw)


def _random(text: str, draw: Draw) -> str:
    fresh = same_shape(text, draw)[: len(text)]
    while len(text) > SAME_MAX and text[:SAME_MAX].isalnum() and fresh[:SAME_MAX] == text[:SAME_MAX]:
        fresh = same_shape(text, draw)[: len(text)]
    return fresh
