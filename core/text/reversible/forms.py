"""The forms in which a value may be written again: letter cases, a name's parts alone, inflections, bare digits.

A form of one value goes with the same form of another value, so that the forms of a surrogate give those of its
original. All forms of a value are distinct from the value itself.

Inflections are those of names in eight languages: cases of Polish, genitives and plurals of the others. A form is named
by its case. A name whose forms need more than an ending and the usual change of its last consonant has only the forms
that are certain. Frequent words are not replaced in small letters, or may be no surrogate. Names are among the frequent
words of a language, because the lists are in small letters.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Generic, TypeVar

import regex  # type: ignore[import-untyped]

from core.text.ordinary_words import is_ordinary
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.mapping import (
    BARE,
    CASE,
    INFLECTION,
    PART,
    PART_CASE,
    WHOLE,
    Content,
    Mapping,
    Pair,
    SurrogateForm,
)
from core.text.reversible.rewritten import CODE, ENDING, ENDING_DIGITS, Forms, Phone, Place, Rewritten
from core.text.surrogates.dates import WrittenDate, day_leads, read_date
from core.text.surrogates.draw import alphanumerics
from core.text.surrogates.names import PARTICLES, is_adjective
from core.text.surrogates.numbers import national
from core.text.surrogates.places import BUILDING, LINE, POSTCODE, REGION, STREET, AddressPart, ReadAddress
from core.text.surrogates.table import DATES, EXACT, NUMBERS

_SIBILANTS = tuple("sßxzSXZ")
_GENITIVE_S = ("en", "de", "nl", "pt", "es", "fr")  # a genitive, or the plural of a family
_PLURAL_ES = ("en", "es")
_GERMAN = ("sche", "schen", "scher", "sches")
_SOFTENED = {
    "ch": "sze", "st": "ście", "k": "ce", "g": "dze", "r": "rze", "ł": "le", "t": "cie", "d": "dzie", "n": "nie",
    "m": "mie", "b": "bie", "p": "pie", "w": "wie", "f": "fie", "z": "zie", "s": "sie",
}  # fmt: skip
_SOFT = ("i", "j", "l", "c", "cz", "sz", "rz", "ż", "dz", "ś", "ć", "ń", "ź")
_ADJECTIVE = {
    "i": {"genitive": "iego", "dative": "iemu", "accusative": "iego", "instrumental": "im", "plural genitive": "ich",
          "plural": "ie", "plural instrumental": "imi"},
    "a": {"genitive": "iej", "dative": "iej", "accusative": "ą", "instrumental": "ą", "plural genitive": "ich",
          "plural": "ie", "plural instrumental": "imi"},
}  # fmt: skip


def inflected(word: str, language: str) -> dict[str, str]:
    """Return case -> form of a name that is one word. Polish: cases that have the same form have each a row."""
    if len(word) < 3 or not word[-1].isalpha() or word.isupper() or not word[0].isupper():
        return {}
    if language == "pl":
        return _polish(word)
    forms = {}
    if language in _GENITIVE_S and not word.endswith(_SIBILANTS):
        forms["s"] = word + "s"
        forms["s apostrophe"] = word + "s'"
    if language in _PLURAL_ES and (word.endswith(_SIBILANTS) or (language == "es" and word[-1] not in "aeiouáéíóú")):
        forms["es"] = word + "es"
    if language == "de":
        forms |= {ending: word + ending for ending in _GERMAN}
    return forms


def same_form(case: str, original: str, language: str) -> str:
    """Return the form of `original` in the case, or the original itself if it has no such form."""
    found = inflected(original, language).get(case)
    if found is None and case in ("s", "s apostrophe") and language in ("de", "nl") and original.endswith(_SIBILANTS):
        return original + "'"
    return found or original


def _polish(word: str) -> dict[str, str]:
    if is_adjective(word):
        return {case: word[:-1] + ending for case, ending in _ADJECTIVE[word[-1].lower()].items()}
    if word.endswith("a"):
        return _in_a(word[:-1])
    if word[-1] in "eioóuyąę" or word.endswith(("ek", "iec", "eń")):
        return {}
    return _consonant(word)


def _in_a(stem: str) -> dict[str, str]:
    soft = stem.endswith(_SOFT)
    after = "i" if stem.endswith(("k", "g", "l", "j")) else "" if stem.endswith("i") else "i" if soft else "y"
    genitive = stem + (after or "i" if stem.endswith(("ri", "li", "ni", "wi", "fi", "ti", "di")) else after)
    dative = genitive if soft else _soften(stem)
    return {
        "genitive": genitive,
        "dative": dative or genitive,
        "accusative": stem + "ę",
        "instrumental": stem + "ą",
        "vocative": stem + "o",
    }


def _consonant(word: str) -> dict[str, str]:
    velar = word.endswith(("k", "g"))
    forms = {
        "genitive": word + "a",
        "accusative": word + "a",
        "dative": word + "owi",
        "instrumental": word + ("iem" if velar else "em"),
        "plural": word + "owie",
        "plural genitive": word + "ów",
        "plural dative": word + "om",
    }
    soft = velar or word.endswith(_SOFT) or word.endswith("ch")
    local = word + "u" if soft else _soften(word)
    return forms | ({"locative": local} if local else {})


def _soften(stem: str) -> str | None:
    """Return the stem with the ending -e and the change of consonants before it."""
    for end in sorted(_SOFTENED, key=len, reverse=True):
        if stem.endswith(end):
            return stem[: -len(end)] + _SOFTENED[end]
    return None


PERSON, LOCATION, PHONE, ENGLISH = "PERSON", "LOCATION", "PHONE_NUMBER", "en"
POSTCODE_DIGITS = 5  # a shorter number may be a year
_Other = TypeVar("_Other")
PART_LETTERS_MIN = 3
BARE_DIGITS_MIN = 7

_JOINTS = "-_."
_SEPARATOR = regex.compile(r"[\s\-‐‑]+")
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_EDGES = regex.compile(r"^[^\p{L}\p{M}]+|[^\p{L}\p{M}]+$")


_AddressParts = Callable[[str, str], list[AddressPart]]


def mapping_of(content: Content, address_parts: _AddressParts | None = None) -> Mapping:
    """Return the mapping that restores the surrogates of `content` in all of their forms. A form of two originals is
    left out unless it is a surrogate itself. `address_parts`: the parts of an address and its surrogate, where they
    have been read before."""
    found: dict[str, SurrogateForm] = {}
    unclear: set[str] = set()
    rules = _Rules(content, address_parts or (lambda own, other: ReadAddress(own, content.language).parts(other)))
    made: set[tuple[str, str]] = set()
    for pair in content.pairs:
        parts = rules.add(pair)
        for form in forms(pair.type, pair.surrogate, pair.original, content.language, made, only_whole=parts):
            known = found.get(form.written)
            if known is None or form.rank < known.rank:
                found[form.written] = form
                unclear.discard(form.written)
            elif form.rank == known.rank and form.other != known.other:
                unclear.add(form.written)
    kept = {key: form for key, form in found.items() if key not in unclear and key not in content.blocked}
    return Mapping(content, KeyTree(kept, rules=rules.made()))


class _Clear(dict[str, _Other], Generic[_Other]):
    """Form -> the form of the original. A form of two originals is left out."""

    def __init__(self, blocked: AbstractSet[str], kind: str = "") -> None:
        super().__init__()
        self._blocked, self._kind = blocked, kind
        self._unclear: set[str] = set()

    def add(self, written: str, other: _Other) -> None:
        if written in self._unclear or self._kind + written in self._blocked:
            return
        if self.setdefault(written, other) != other:
            del self[written]
            self._unclear.add(written)


class _Rules:
    """Collects what `Rewritten` finds."""

    def __init__(self, content: Content, address_parts: _AddressParts) -> None:
        self._language, blocked = content.language, content.blocked
        self._address_parts = address_parts
        dates = [pair.original for pair in content.pairs if pair.type in DATES]
        leads = next((leads for leads in map(day_leads, dates) if leads is not None), None)
        self._day_first = self._language != ENGLISH if leads is None else leads
        self._places, self._buildings = _Clear[Place](blocked), _Clear[str](blocked)
        self._numbers, self._phones = _Clear[str](blocked), _Clear[Phone](blocked)
        self._dates = _Clear[str](blocked)
        self._labelled = {kind: _Clear[str](blocked, f"{kind} ") for kind in (ENDING, BUILDING, REGION, CODE)}

    def made(self) -> Rewritten | None:
        found = Forms(
            dict(self._places),
            dict(self._buildings),
            {kind: dict(found) for kind, found in self._labelled.items() if found},
            dict(self._numbers),
            dict(self._phones),
            dict(self._dates),
            self._language,
            self._day_first,
        )
        return Rewritten(found) if any(found[:-2]) else None

    def add(self, pair: Pair) -> bool:
        """Add the forms of a pair. Return whether it is an address, whose letter cases are among them."""
        if is_marker(pair.type, pair.surrogate):
            return False
        if pair.type in NUMBERS:
            self._add_number(pair)
        elif pair.type in DATES:
            self._add_date(pair)
        elif pair.type == LOCATION:
            return self._add_address(pair)
        return False

    def _add_number(self, pair: Pair) -> None:
        own, other = alphanumerics(pair.original), alphanumerics(pair.surrogate).casefold()
        if len(own) != len(other):
            return
        if len(other) >= BARE_DIGITS_MIN:
            self._numbers.add(other, own)
        if len(other) > BARE_DIGITS_MIN and (own[-ENDING_DIGITS:] + other[-ENDING_DIGITS:]).isdecimal():
            self._labelled[ENDING].add(other[-ENDING_DIGITS:], own[-ENDING_DIGITS:])
        if pair.type == PHONE:
            (code, new), (same, old) = (national(each, self._language) for each in (pair.surrogate, pair.original))
            if code and code == same and len(new) == len(old) >= BARE_DIGITS_MIN:
                self._phones.add(new, Phone(code, new, old))

    def _add_date(self, pair: Pair) -> None:
        new, own = (read_date(each, self._language, self._day_first) for each in (pair.surrogate, pair.original))
        if new is None or own is None:
            return
        forms = {key: value for key, value in zip(_date_keys(new), _date_keys(own), strict=True) if key and value}
        for key, value in forms.items():
            self._dates.add(key, value)

    def _add_address(self, pair: Pair) -> bool:
        parts = self._address_parts(pair.original, pair.surrogate)
        written = [(part, pair.original[slice(*part.own)], pair.surrogate[slice(*part.other)]) for part in parts]
        if not any(len(part) < len(pair.original) for _, part, _ in written):
            return False
        self._places.add(pair.surrogate, Place(pair.surrogate, pair.original))
        street = ""
        ends = {part.other[1] for part, _, new in written if part.kind == BUILDING and new.isalnum()}
        starts = {part.other[0] for part in parts if part.kind == STREET}
        for part, own, new in written:
            if part.kind == BUILDING:
                self._labelled[BUILDING].add(new, own)
                if street:
                    self._buildings.add(f"{street}\n{new.casefold()}", own)
            elif part.kind == REGION:
                self._labelled[REGION].add(new, own)
            elif part.kind == POSTCODE:
                self._add_postcode(own, new)
            elif part.kind != LINE or not (part.other[0] in starts and part.other[1] in ends):
                self._add_place(own, new, part.kind)
            street = new.casefold() if part.kind == STREET else street
        return True

    def _add_place(self, own: str, new: str, kind: str) -> None:
        fits = kind == LINE or has_letters(new)  # the letters of a state with its postal code are two
        if own != new and fits and not (new.isalpha() and is_ordinary(new, self._language)):
            self._places.add(new, Place(new, own, kind == STREET))

    def _add_postcode(self, own: str, new: str) -> None:
        if len(own) != len(new):
            return
        if not new.isdecimal():
            self._numbers.add(alphanumerics(new).casefold(), alphanumerics(own))
            if new[:POSTCODE_DIGITS].isdecimal() and own[:POSTCODE_DIGITS].isdecimal():
                self._places.add(new[:POSTCODE_DIGITS], Place(new[:POSTCODE_DIGITS], own[:POSTCODE_DIGITS]))
        elif len(new) < POSTCODE_DIGITS:
            self._labelled[CODE].add(new, own)
        else:
            self._places.add(new, Place(new, own))


def _date_keys(found: WrittenDate) -> tuple[str, str, str]:
    """Return a date, its month with the year, and its day with the month; empty for what it lacks."""
    year, month, day = f"{found.year:04d}", f"{found.month:02d}", f"{found.day:02d}"
    has_day, has_year = found.day_at is not None or bool(found.compact), found.year_at is not None
    has_month = found.month_at is not None or bool(found.compact)
    return (
        f"{year}-{month}-{day}" if has_day and has_year else "",
        f"{year}-{month}" if has_month and has_year else "",
        f"{month}-{day}" if has_day else "",
    )


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
        pieces, fresh = _pieces(first), _pieces(second)
        if len(pieces) == len(fresh) > 1:
            pairs += zip(pieces, fresh, strict=True)
        for part, change in pairs:
            bare, new = _bare(part), _bare(change)
            if is_part(new) and bare and bare.casefold() != new.casefold():
                yield bare, new


def parts_of(original: str) -> Iterator[str]:
    """Yield the parts of a name that may stand for it alone: of `PART_LETTERS_MIN` letters, with a capital first."""
    own = original.split()
    for word in own:
        pieces = _pieces(word)
        for part in ([word] if len(own) > 1 else []) + (pieces if len(pieces) > 1 else []):
            bare = _bare(part)
            if is_part(bare) and bare.casefold() not in PARTICLES:
                yield bare


def _pieces(word: str) -> list[str]:
    return [word] if word.isalpha() else list(_SEPARATOR.split(word))


def _bare(part: str) -> str:
    return part if part.isalpha() else str(_EDGES.sub("", part))


def is_part(word: str) -> bool:
    return has_letters(word) and word[:1].isupper()


def has_letters(text: str) -> bool:
    """Whether a part has enough letters to stand for its value alone."""
    return sum(map(str.isalpha, text)) >= PART_LETTERS_MIN


def forms(
    type_: str, value: str, other: str, language: str, made: set[tuple[str, str]], *, only_whole: bool = False
) -> Iterator[SurrogateForm]:
    """Yield the forms of `value`, a surrogate, with those of `other`, its original. `made`: the parts of names whose
    forms are not yielded again, to which those of this name are added. `only_whole`: no other one."""
    if only_whole:
        yield SurrogateForm(WHOLE, value, other)
        return
    if is_marker(type_, value):
        yield SurrogateForm(WHOLE, value, other)
        yield from (SurrogateForm(CASE, form, other) for form, _ in letter_cases(type_, value))
        return
    yield from _cased(type_, value, other, language, WHOLE, CASE)
    if type_ == PERSON:
        parts = list(name_parts(other, value))
        fresh = [part for part in parts or [(other, value)] if part not in made]
        made.update(fresh)
        for original, surrogate in fresh if parts else ():
            yield from _cased(type_, surrogate, original, language, PART, PART_CASE)
        yield from (SurrogateForm(BARE, *pair) for pair in _initials(other, value))
        yield from (
            SurrogateForm(BARE, form, change(other)) for form, change in joined(value) if len(other.split()) > 1
        )
        for original, surrogate in fresh:
            for case, form in inflected(surrogate, language).items():
                if not is_ordinary(form, language):
                    yield SurrogateForm(INFLECTION, form, same_form(case, original, language))


def _cased(type_: str, value: str, other: str, language: str, rank: int, case_rank: int) -> Iterator[SurrogateForm]:
    yield SurrogateForm(rank, value, other)
    for form, change in letter_cases(type_, value):
        if not (in_small_letters(form) and is_ordinary(form, language)):
            yield SurrogateForm(case_rank, form, change(other))


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
