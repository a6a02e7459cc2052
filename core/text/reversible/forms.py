"""The forms in which a value may be written again: letter cases, a name's parts alone, inflections, bare digits.

A form of one value goes with the same form of another value, so that the forms of a surrogate give those of its
original. All forms of a value are distinct from the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import regex  # type: ignore[import-untyped]

from core.text.reversible.frequent import is_ordinary
from core.text.reversible.inflection import inflected, same_form
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.mapping import Content, Mapping
from core.text.reversible.restorer import BARE, CASE, INFLECTION, PART, PART_CASE, WHOLE, Form
from core.text.surrogates.name_book import PARTICLES
from core.text.surrogates.shape import alphanumerics
from core.text.surrogates.table import EXACT, NUMBERS

PERSON = "PERSON"
PART_LETTERS_MIN = 3
BARE_DIGITS_MIN = 7

_JOINTS = "-_."
_SEPARATOR = regex.compile(r"[\s\-‐‑]+")
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_EDGES = regex.compile(r"^[^\p{L}\p{M}]+|[^\p{L}\p{M}]+$")


def mapping_of(content: Content) -> Mapping:
    """Return the mapping that restores the surrogates of `content` in all of their forms. A form of two originals is
    left out unless it is a surrogate itself."""
    found: dict[str, Form] = {}
    unclear: set[str] = set()
    for pair in content.pairs:
        for form in forms(pair.type, pair.surrogate, pair.original, content.language):
            known = found.get(form.written)
            if known is None or form.rank < known.rank:
                found[form.written] = form
                unclear.discard(form.written)
            elif form.rank == known.rank and form.other != known.other:
                unclear.add(form.written)
    kept = {key: form for key, form in found.items() if key not in unclear and key not in content.blocked}
    return Mapping(content, KeyTree(kept))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(text: str) -> str:
    return str(_LETTERS.sub(lambda word: word.group()[:1].upper() + word.group()[1:].lower(), text))


def letter_cases(type_: str, value: str) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Yield a value in all capitals, in small letters and with capitals at its beginning or at that of each word, and
    the function that makes them. Types whose letter case matters have none."""
    if type_ in EXACT or len(alphanumerics(value)) < 2:
        return
    seen = {value}
    for change in (str.upper, str.lower, *((_title,) if value.isupper() or value.islower() else ()), _capital):
        if (changed := change(value)) not in seen:
            seen.add(changed)
            yield changed, change


def marker(type_: str, number: int) -> str:
    return f"[{type_}_{number}]"


def is_marker(type_: str, value: str) -> bool:
    """Whether a surrogate is a numbered marker."""
    return value.startswith(f"[{type_}_") and value.endswith("]")


def in_small_letters(form: str) -> bool:
    return form.islower() and form.isalpha()


def name_parts(original: str, surrogate: str) -> Iterator[tuple[str, str]]:
    """Yield each part of a name with the part of its surrogate that stands for it alone, which has `PART_LETTERS_MIN`
    letters and begins with a capital. The name of one part yields nothing."""
    own, other = original.split(), surrogate.split()
    if len(own) != len(other):
        return
    for first, second in zip(own, other, strict=True):
        pairs = [(first, second)] if len(own) > 1 else []
        pieces, fresh = _SEPARATOR.split(first), _SEPARATOR.split(second)
        if len(pieces) == len(fresh) > 1:
            pairs += zip(pieces, fresh, strict=True)
        for part, change in pairs:
            bare, new = _EDGES.sub("", part), _EDGES.sub("", change)
            if is_part(new) and bare and bare.casefold() != new.casefold():
                yield bare, new


def parts_of(original: str) -> Iterator[str]:
    """Yield the parts of a name that may stand for it alone: of `PART_LETTERS_MIN` letters, with a capital first."""
    own = original.split()
    for word in own:
        pieces = _SEPARATOR.split(word)
        for part in ([word] if len(own) > 1 else []) + (pieces if len(pieces) > 1 else []):
            bare = _EDGES.sub("", part)
            if is_part(bare) and bare.casefold() not in PARTICLES:
                yield bare


def is_part(word: str) -> bool:
    return sum(map(str.isalpha, word)) >= PART_LETTERS_MIN and word[:1].isupper()


def forms(type_: str, value: str, other: str, language: str) -> Iterator[Form]:
    """Yield the forms of `value`, a surrogate, with those of `other`, its original."""
    if is_marker(type_, value):
        yield Form(WHOLE, value, other)
        yield from (Form(CASE, form, other) for form, _ in letter_cases(type_, value))
        return
    yield from _cased(type_, value, other, language, WHOLE, CASE)
    if type_ == PERSON:
        parts = list(name_parts(other, value))
        for original, surrogate in parts:
            yield from _cased(type_, surrogate, original, language, PART, PART_CASE)
        yield from (Form(BARE, *pair) for pair in _initials(other, value))
        yield from (Form(BARE, form, change(other)) for form, change in joined(value) if len(other.split()) > 1)
        for original, surrogate in parts or [(other, value)]:
            for case, form in inflected(surrogate, language).items():
                if not is_ordinary(form, language):
                    yield Form(INFLECTION, form, same_form(case, original, language))
    if type_ in NUMBERS:
        yield from _bare(value, other)


def _cased(type_: str, value: str, other: str, language: str, rank: int, case_rank: int) -> Iterator[Form]:
    yield Form(rank, value, other)
    for form, change in letter_cases(type_, value):
        if not (in_small_letters(form) and is_ordinary(form, language)):
            yield Form(case_rank, form, change(other))


def joined(name: str) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Yield a name of several words as it stands in addresses and names of files, `maria-weber`, and the function that
    makes it. Each word alone may be an ordinary one in small letters; all of them together are the name."""
    if len(name.split()) > 1:
        for mark in _JOINTS:
            change = partial(_joined, mark)
            yield change(name), change


def _joined(mark: str, name: str) -> str:
    return mark.join(name.lower().split())


def _initials(original: str, surrogate: str) -> Iterator[tuple[str, str]]:
    """Yield a name with its first part as an initial, or as initials if it has a hyphen: `M. Weber`, `J.-P. Weber`."""
    (own, *rest), (other, *others) = original.split(), surrogate.split()
    if not rest or len(rest) != len(others) or not (own[0].isalpha() and other[0].isalpha()):
        return
    for names, fresh in [(rest, others), (rest[-1:], others[-1:])][: len(rest)]:
        yield " ".join((f"{other[0]}.", *fresh)), " ".join((f"{own[0]}.", *names))
        if "-" in own and own.count("-") == other.count("-"):
            yield " ".join((_hyphened(other), *fresh)), " ".join((_hyphened(own), *names))


def _hyphened(name: str) -> str:
    return "-".join(f"{piece[:1]}." for piece in name.split("-"))


def _bare(value: str, other: str) -> Iterator[Form]:
    """Yield a number without its separators."""
    bare, own = alphanumerics(value), alphanumerics(other)
    if bare != value and len(bare) >= BARE_DIGITS_MIN and len(own) == len(bare):
        yield Form(BARE, bare, own)
