"""Masks the texts of a conversation so that an answer to them can be restored.

Guarantee: restoring the masked texts with the mapping gives the texts, character for character. This is tried for every
conversation before anything is returned. What a surrogate hides is not guaranteed: see `core.text.fill_surrogate`.

Values are replaced in the regions that were found, and wherever else they stand. A surrogate is a keyed function of its
type and original (`core.text.surrogates`). It is drawn again if it could not be restored without doubt: if it, or a
part that is restored alone, is a frequent word, stands in a text of the conversation, or belongs to another original.
The surrogate of a name has no word that is an original, however short.

A conversation may continue earlier turns, of which only the mapping is known. Then the mapping that is returned has all
pairs of theirs, no original gets another surrogate, and no new surrogate is an old one or an old original. What those
turns held besides is not known, so a new surrogate may be a word of theirs.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple, Self

import regex  # type: ignore[import-untyped]

from core.errors import InvalidInput, TaskFailed
from core.text.ordinary_words import is_frequent, is_ordinary
from core.text.policy import NUMBER, SECRETS
from core.text.reversible.addresses import KNOWN_PARTS_ATTEMPTS, AddressBook, Addresses, is_doubtful, is_meant
from core.text.reversible.forms import (
    LOCATION,
    PERSON,
    in_small_letters,
    is_marker,
    joined,
    letter_cases,
    mapping_of,
    marker,
    name_parts,
    parts_of,
)
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.lexing import (
    OTHER,
    Lexed,
    as_read,
    encoded_as,
    first_word,
    folded,
    folded_text,
    folded_words,
    is_in_entities,
    kind,
    lex,
)
from core.text.reversible.mapping import (
    WHOLE,
    Content,
    Filled,
    Mapping,
    MaskedConversation,
    Pair,
    Region,
    Rewriting,
    SurrogateForm,
    restored,
)
from core.text.surrogates.dates import shift_of
from core.text.surrogates.draw import Document, Draw, Originals, alphanumerics
from core.text.surrogates.names import book_of
from core.text.surrogates.table import DATES, NUMBERS, fake, first_attempt, identity, surrogate_language

DRAWS_MAX = 1_000
READ_MAX = 32  # texts that are tried for one value
_WORDS = (PERSON, "ORGANIZATION", LOCATION)
_BETWEEN = "\0"
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")


class MaskedString(NamedTuple):
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

    def have(self, words: Sequence[str]) -> bool:
        """Whether words, as `folded_words` gives them, stand next to each other in one of the texts. The time is that
        of the places of the rarest two of them."""
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

    def allow(self, value: MaskedString, surrogate: str, folded: Sequence[tuple[str, str]]) -> bool:
        """`folded`: the pairs of value and surrogate, and of their parts, as `_folded_pairs` gives them."""
        if self._exact.get(surrogate, value.original) != value.original:
            return False
        if any(self._folded.get(new, own) != own for own, new in folded):
            return False
        own = identity(value.type, value.original)
        return value.type not in NUMBERS or self._numbers.get(_bare(surrogate), own) == own

    def add(self, value: MaskedString, surrogate: str, folded: Sequence[tuple[str, str]]) -> None:
        self._exact[surrogate] = value.original
        self._folded |= {new: own for own, new in folded}
        if value.type in NUMBERS:
            self._numbers[_bare(surrogate)] = identity(value.type, value.original)


def _folded_pairs(
    value: MaskedString, surrogate: str, parts: Sequence[tuple[str, str]], folded_text: Callable[[str], str]
) -> list[tuple[str, str]]:
    return [(folded_text(own), folded_text(new)) for own, new in ((value.original, surrogate), *parts)]


def _bare(text: str) -> str:
    return alphanumerics(text.casefold())


def surrogates(
    values: Sequence[MaskedString],
    *,
    key: bytes,
    addresses: Addresses,
    kept: Words,
    banned: AbstractSet[tuple[str, str]],
    blocked: AbstractSet[str],
    fixed: dict[MaskedString, str],
) -> dict[str, str]:
    """Return original -> surrogate. `addresses`: reads those of the conversation. `kept`: the words of the conversation
    that are not replaced. `banned`: originals and surrogates that do not go together. `blocked`: what is never a
    surrogate. `fixed`: other values of the conversation and their surrogates. Raises TaskFailed if `DRAWS_MAX` draws
    give no surrogate."""
    if not values:
        return {}
    language = addresses.language
    together = [*fixed, *values]
    strings = {value.original.casefold() for value in together}
    strings |= {part.casefold() for value in together if value.type == PERSON for part in parts_of(value.original)}
    known = Originals(strings)

    words, whole = lru_cache(READ_MAX)(folded_words), lru_cache(READ_MAX)(folded_text)

    def unfit(name: str) -> bool:
        return kept.have(words(name)) or (name.isalpha() and is_ordinary(name, language))

    terms = _terms(together, frozenset(strings), key, language, known, unfit)
    owners = _Owners()
    places = [value.original for value in values if value.type == LOCATION]
    book = AddressBook(addresses, places) if places else None
    for value, surrogate in fixed.items():
        if value.type == LOCATION and book:
            book.add(value.original, surrogate)
        owners.add(value, surrogate, _folded_pairs(value, surrogate, _parts(value, surrogate, book), whole))
    chosen: dict[str, str] = {}
    for value in values:
        repeats = known.equal_to if value.type in DATES else known.repeated_by
        own = identity(value.type, value.original)
        type_ = _drawn_type(value)
        original = _drawn_from(value)
        first = first_attempt(type_, original, known)
        if value.type == LOCATION and book:
            first = max(first, book.first_attempt)
        for attempt in range(first, DRAWS_MAX):
            candidate = fake(type_, original, Draw(terms, type_, own, attempt=attempt))
            if value.type == LOCATION and book and attempt < first + KNOWN_PARTS_ATTEMPTS:
                candidate = book.with_known(value.original, candidate)
            parts = _parts(value, candidate, book)
            if (
                _well_formed(candidate)
                and not repeats(candidate)
                and not (value.type in _WORDS and strings.intersection(words(candidate)))
                and not unfit(candidate)
                and not any(unfit(part) for _, part in parts)
                and (value.original, candidate) not in banned
                and candidate not in blocked
                and owners.allow(value, candidate, folded := _folded_pairs(value, candidate, parts, whole))
                and not (value.type == LOCATION and book and any(book.has(new) for _, new in folded[1:]))
            ):
                break
        else:
            raise TaskFailed(reason="no-surrogate")
        owners.add(value, candidate, folded)
        if value.type == LOCATION and book:
            book.add(value.original, candidate)
        chosen[value.original] = candidate
    return chosen


def _parts(value: MaskedString, surrogate: str, book: AddressBook | None) -> list[tuple[str, str]]:
    """Return the parts of a value that are restored alone, with those of its surrogate."""
    if value.type == LOCATION:
        return book.parts(value.original, surrogate) if book else []
    return list(name_parts(value.original, surrogate)) if value.type == PERSON else []


def _drawn_type(value: MaskedString) -> str:
    """Return the type of which a surrogate is drawn: by the shape if there are numerals that are no decimal digits, so
    that the value is no number, date or account."""
    own = value.original
    odd = not own.isascii() and any(char.isnumeric() and not char.isdecimal() for char in own)
    return NUMBER if odd and value.type not in _WORDS else value.type


def _drawn_from(value: MaskedString) -> str:
    """Return an original without its escapes: a surrogate of their shape would have some that mean nothing."""
    return _PERCENT.sub("x", value.original) if value.type == "URL" else as_read(value.original)


def _well_formed(candidate: str) -> bool:
    return candidate == candidate.strip() and any(map(str.isalnum, candidate))


def _terms(
    values: Sequence[MaskedString],
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
    values: Sequence[MaskedString],
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
            has = words.have(folded_words(candidate))
            if candidate not in taken and not has and (value.original, candidate) not in banned:
                break
        chosen[value.original] = candidate
    return chosen


_NAMES = (PERSON, LOCATION, "ORGANIZATION")
_LINE_BREAK = regex.compile(r"[^\S\r\n]*+(?:[\r\n]|\\[nrt](?![a-z]))\s*+")  # also as an escape of a code string

# Marks at the beginning of an e-mail address, if they do not belong to an escape.
_MARKS = regex.compile(r"[-+#_^=*~|!?$&/'`{}%]++(?=[\p{L}\p{N}])")


class Writing(NamedTuple):
    """A value in one of its letter cases, `written`. `change` makes them. `doubtful`: a part of an address that may be
    another word or number: it is replaced only where the text shows that it is none."""

    value: MaskedString
    written: str
    change: Callable[[str], str] = str
    doubtful: bool = False

    def __repr__(self) -> str:
        return f"Writing({self.value})"


class FoundPlace(NamedTuple):
    """Code points [start, end) of a text, which are `raw`: a value in some writing and encoding."""

    start: int
    end: int
    raw: str
    writing: Writing

    def __repr__(self) -> str:
        return f"FoundPlace({self.start}, {self.end}, {self.writing})"

    def filled(self, surrogate: str) -> str:
        """Return the surrogate in the writing and the encoding of the place. A marker has one writing."""
        if is_marker(self.writing.value.type, surrogate):
            return surrogate
        changed = self.writing.change(surrogate)
        return changed if self.raw == self.writing.written else encoded_as(self.raw, self.writing.written, changed)

    def as_one_of(self, values: dict[str, MaskedString]) -> Self:
        """Return the place with the value whose original it has, if there is one."""
        value = values.get(self.raw)
        return self if value is None else self._replace(writing=Writing(value, self.raw))


class Source:
    """A text and its tokens: where each begins, and where the last one ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lexed = lex(text)
        self.starts = [0, *accumulate(map(len, self.lexed.raws))]

    def kept(self, places: Sequence[FoundPlace]) -> Iterator[list[str]]:
        """Yield the tokens before, between and after places."""
        read = 0
        for place in places:
            yield self.lexed.tokens[read : bisect_left(self.starts, place.start)]
            read = bisect_left(self.starts, place.end)
        yield self.lexed.tokens[read:]

    def widened(self, region: Region, tokens: int = 0) -> Region | None:
        """Return the region with whole tokens, and so many more on each side, without white space at its edges; None
        if nothing is left. More tokens may begin or end with an escape of white space."""
        own = self.lexed.raws if tokens else self.lexed.tokens
        if region.start >= region.end:
            return None
        first = max(bisect_right(self.starts, region.start) - 1 - tokens, 0)
        last = min(bisect_right(self.starts, region.end - 1) + tokens, len(own))
        while first < last and own[first].isspace():
            first += 1
        while first < last and own[last - 1].isspace():
            last -= 1
        return Region(self.starts[first], self.starts[last], region.type) if first < last else None


def lines_of(text: str, region: Region) -> Iterator[Region]:
    """Yield a region, that of a name line by line: a town and a person on two lines are two values, and a model may
    write either alone, or both in an encoding of its own."""
    at = max(region.start, 0)
    if region.type in _NAMES:
        for found in _LINE_BREAK.finditer(text, at, region.end):
            if at < found.start():
                yield Region(at, found.start(), region.type)
            at = found.end()
    if at < region.end:
        yield Region(at, region.end, region.type)


def without_mark(text: str, region: Region) -> Region:
    """Return the region of an e-mail address without the marks before it: `+` of a line that a patch adds. Else the
    same address would be two values."""
    start = max(region.start, 0)
    if region.type != "EMAIL_ADDRESS" or (mark := _MARKS.match(text, start, region.end)) is None:
        return region
    return region._replace(start=mark.end())


def disjoint(regions: Iterable[Region]) -> list[Region]:
    """Return regions in order. Those that overlap become one. If they differ in their types, it is a secret: a name
    keeps digits and a date keeps letters, so that of `Keller4111111111111111` the number would stay."""
    found: list[Region] = []
    for region in sorted(regions):
        if found and region.start < found[-1].end:
            type_ = region.type if region.type == found[-1].type else SECRETS[0]
            found[-1] = Region(found[-1].start, max(found[-1].end, region.end), type_)
        else:
            found.append(region)
    return found


def writings(values: Iterable[MaskedString], addresses: Addresses, tokens: AbstractSet[str]) -> KeyTree:
    """Return what finds values in texts: as they are, in all capitals, and, unless they are frequent words, in small
    letters; and the parts of persons' names that are words of their own, and of addresses. `tokens`: of the texts."""
    keys: dict[str, Writing] = {}
    listed, language = list(values), addresses.language
    alone = dict.fromkeys(
        part for value in listed if value.type == LOCATION for part in addresses.alone(value.original)
    )
    places = [MaskedString(LOCATION, part) for part in alone]
    doubtful = {part for part in alone if is_doubtful(part, language)}
    parts = [
        MaskedString(PERSON, part) for value in listed if value.type == PERSON for part in parts_of(value.original)
    ]
    for group in (listed, parts, places):
        for value in group:
            unsure = group is places and value.original in doubtful
            keys.setdefault(value.original, Writing(value, value.original, doubtful=unsure))
        for value in group:
            first = first_word(value.original)
            for written, change in letter_cases(value.type, value.original):
                if first and change(first) not in tokens:
                    continue
                if not (in_small_letters(written) and is_frequent(written, language)):
                    unsure = group is places and value.original in doubtful
                    keys.setdefault(written, Writing(value, written, change, unsure))
            if value.type != PERSON or (first and not _may_join(value.original.lower(), tokens)):
                continue
            for written, change in joined(value.original):
                keys.setdefault(written, Writing(value, written, change))
    return KeyTree(keys, accepts=_searched)


def _may_join(name: str, tokens: AbstractSet[str]) -> bool:
    """Return False only if a word of a name without escapes is none of `tokens`. A point joins digits to one word."""
    return any(map(str.isdecimal, name)) or all(token.isspace() or token in tokens for token in lex(name).tokens)


def _searched(tokens: list[str]) -> bool:
    """Whether a value is replaced where it was not found: not punctuation, nor what white space belongs to."""
    return any(kind(token) != OTHER for token in tokens) and not tokens[0].isspace() and not tokens[-1].isspace()


def places_of(source: Source, regions: Sequence[Region], tree: KeyTree, language: str) -> list[FoundPlace]:
    """Return the places of a text that are replaced, in order. `regions`: disjoint, of whole tokens."""
    text = source.text
    found = [
        place
        for place in _found(text, 0, len(text), tree, source.lexed)
        if not place.writing.doubtful or is_meant(text, place.start, place.end, language)
    ]
    if not regions:
        return found
    own = [
        FoundPlace(region.start, region.end, original, Writing(MaskedString(region.type, original), original))
        for region in regions
        for original in [text[region.start : region.end]]
    ]
    fixed = _with_containing(own, found)
    if {(place.start, place.end) for place in fixed} <= {(place.start, place.end) for place in found}:
        by_place = {place.start: place for place in fixed}
        return [by_place.get(place.start, place) for place in found]
    places: list[FoundPlace] = []
    read = 0
    for place in fixed:
        places += _found(text, read, place.start, tree)
        places.append(place)
        read = place.end
    places += _found(text, read, len(text), tree)
    meant = {(place.start, place.end) for place in fixed}
    return [
        place
        for place in places
        if not place.writing.doubtful
        or (place.start, place.end) in meant
        or is_meant(text, place.start, place.end, language)
    ]


def _found(text: str, start: int, end: int, tree: KeyTree, lexed: Lexed | None = None) -> Iterator[FoundPlace]:
    if start >= end:
        return
    at = start
    for piece in tree.find(text[start:end], lexed):
        if piece.value is not None:
            yield FoundPlace(at, at + len(piece.raw), piece.raw, piece.value)
        at += len(piece.raw)


def _with_containing(regions: list[FoundPlace], found: list[FoundPlace]) -> list[FoundPlace]:
    """Return the places of the regions. A longer value that was found around one, or around several, is taken instead:
    `Anna Kowalska` where the region is `Anna`. So is one with escapes, since a surrogate is written with them, too."""
    fixed: list[FoundPlace] = []
    at = 0
    for place in found:
        while at < len(regions) and regions[at].end <= place.start:
            fixed.append(regions[at])
            at += 1
        last = at
        while last < len(regions) and regions[last].end <= place.end:
            last += 1
        inside = at < last and place.start <= regions[at].start
        overlaps_next = last < len(regions) and regions[last].start < place.end
        longer = inside and place.end - place.start > regions[at].end - regions[at].start
        if inside and not overlaps_next and (longer or place.raw != place.writing.written):
            fixed.append(place)
        else:
            fixed += regions[at:last]
        at = last
    return fixed + regions[at:]


SURROGATE, NUMBERED = "surrogate", "numbered"
FILLS = (SURROGATE, NUMBERED)
ROUNDS_MAX = 16
# A conversation that is hard to restore is tried again as often as its size allows, but so many times in any case.
ROUNDS_MIN = 4
CHARS_TRIED_MAX = 4_000_000
# Each takes about 8 kB of memory while surrogates are chosen.
VALUES_MAX = 10_000


def mask_conversation(
    texts: Sequence[str],
    regions: Sequence[Sequence[Region]],
    *,
    key: bytes,
    language: str | None = None,
    fill: str = SURROGATE,
    earlier: Content | None = None,
) -> MaskedConversation:
    """Return the texts with a surrogate in each region and wherever else the value of a region stands as whole words.

    regions: those of each text, in code points; they are widened to whole words. key: the same one gives the same
    surrogates, as far as the conversation allows them. language: of the surrogates; English for any other than the
    eight of `core.text.surrogates.names`. fill: one of `FILLS`. earlier: what turns before these texts were masked
    with; its language goes before `language`.

    Raises InvalidInput for more than `VALUES_MAX` different values, and TaskFailed if there are no surrogates that
    could be restored without doubt.
    """
    if fill not in FILLS:
        raise ValueError(f"The fill is one of: {', '.join(FILLS)}.")
    if len(texts) != len(regions):
        raise ValueError("There is a list of regions for each text.")
    earlier = earlier or Content((), surrogate_language(language))
    divided = [
        [line for region in own for line in lines_of(text, without_mark(text, Region(*region)))]
        for text, own in zip(texts, regions, strict=True)
    ]
    return _Masking(list(texts), divided, key, fill, earlier).run()


class _Masking:
    """Masks and restores a conversation until the result is the conversation. Whatever prevents that is changed."""

    def __init__(
        self, texts: list[str], regions: Sequence[Sequence[Region]], key: bytes, fill: str, earlier: Content
    ) -> None:
        self._texts, self._key, self._language, self._fill = texts, key, earlier.language, fill
        self._earlier = earlier
        self._addresses = Addresses(self._language)
        self._known = {pair.original: MaskedString(pair.type, pair.original) for pair in earlier.pairs}
        self._kept = {pair.original: pair.surrogate for pair in earlier.pairs}
        self._sources = [Source(text) for text in texts]
        self._regions = [self._widened(number, own) for number, own in enumerate(regions)]
        given = (
            MaskedString(region[2], text[max(region[0], 0) : region[1]].strip())
            for text, own in zip(texts, regions, strict=True)
            for region in own
        )
        self._given = {value.original: value for value in given if value.original}
        values = self._values()
        if len(values) > VALUES_MAX:
            raise InvalidInput(f"At most {VALUES_MAX} different values can be restored. Send the texts in parts.")
        self._given |= values
        self._extra: dict[str, MaskedString] = {}  # writings of values that have to be values of their own
        self._banned: set[tuple[str, str]] = set()
        self._blocked = set(earlier.blocked)
        self._round = 0

    def run(self) -> MaskedConversation:
        chars = sum(map(len, self._texts))
        for self._round in range(max(ROUNDS_MIN, min(ROUNDS_MAX, CHARS_TRIED_MAX // (chars + 1)))):
            places = self._places()
            mapping = self._mapping(places)
            chosen = {pair.original: pair.surrogate for pair in mapping.content.pairs}
            filled = [_filled(text, own, chosen) for text, own in zip(self._texts, places, strict=True)]
            masked = ["".join(pieces) for pieces in filled]
            wrong = [number for number, text in enumerate(masked) if not self._is_restored(number, text, mapping)]
            if not wrong:
                pairs = zip(places, filled, strict=True)
                return MaskedConversation(masked, [_spots(own, pieces) for own, pieces in pairs], mapping)
            for number in wrong:
                self._mend(number, places[number], filled[number], mapping)
        raise TaskFailed(reason="no-surrogate")

    def _widened(self, number: int, regions: Sequence[Region], tokens: int = 0) -> list[Region]:
        source = self._sources[number]
        return disjoint(region for each in regions if (region := source.widened(each, tokens)))

    def _values(self) -> dict[str, MaskedString]:
        """Return what stands in the regions."""
        values: dict[str, MaskedString] = {}
        for text, own in zip(self._texts, self._regions, strict=True):
            for region in own:
                original = text[region.start : region.end]
                values.setdefault(original, MaskedString(region.type, original))
        return values

    def _places(self) -> list[list[FoundPlace]]:
        values = self._extra | _as_read(self._values() | self._given, self._known) | self._known
        tokens = {token for source in self._sources for token in source.lexed.tokens}
        tree = writings(values.values(), self._addresses, tokens)
        found = [
            places_of(source, own, tree, self._language)
            for source, own in zip(self._sources, self._regions, strict=True)
        ]
        return [[place.as_one_of(values) for place in own] for own in found]

    def _mapping(self, places: list[list[FoundPlace]]) -> Mapping:
        used = {place.writing.value.original: place.writing.value for own in places for place in own}
        fixed = self._fixed()
        chosen = {value.original: surrogate for value, surrogate in fixed.items()}
        new = [value for original, value in used.items() if original not in chosen]
        if self._fill == NUMBERED:
            words, taken = Words(source.lexed.tokens for source in self._sources), set(chosen.values())
            chosen |= markers(new, words=words, banned=self._banned, taken=taken)
        else:
            kept = Words(part for source, own in zip(self._sources, places, strict=True) for part in source.kept(own))
            chosen |= surrogates(
                new,
                key=self._key,
                addresses=self._addresses,
                kept=kept,
                banned=self._banned,
                blocked=self._blocked,
                fixed=fixed,
            )
        added = [value for original, value in used.items() if original not in self._known]
        pairs = tuple(Pair(value.type, value.original, chosen[value.original]) for value in added)
        content = Content(self._earlier.pairs + pairs, self._language, frozenset(self._blocked))
        return mapping_of(content, self._addresses.parts)

    def _fixed(self) -> dict[MaskedString, str]:
        """Return the surrogates of earlier turns, and of the parts of their names that may stand alone."""
        fixed = {self._known[original]: surrogate for original, surrogate in self._kept.items()}
        known = set(self._known)
        for pair in self._earlier.pairs:
            for part, surrogate in name_parts(pair.original, pair.surrogate) if pair.type == PERSON else ():
                if part not in known and surrogate not in self._blocked and (part, surrogate) not in self._banned:
                    known.add(part)
                    fixed[MaskedString(PERSON, part)] = surrogate
        return fixed

    def _is_restored(self, number: int, masked: str, mapping: Mapping) -> bool:
        source = self._sources[number]
        return mapping.restore(masked, source.lexed if masked == source.text else None) == source.text

    def _mend(self, number: int, places: list[FoundPlace], filled: list[str], mapping: Mapping) -> None:
        """Change what keeps a masked text from being restored."""
        ends = list(accumulate(map(len, filled)))
        spots = [(ends[2 * index], ends[2 * index + 1], place) for index, place in enumerate(places)]
        at = first = 0
        for piece in mapping.tree.find("".join(filled)):
            start, at = at, at + len(piece.raw)
            if piece.value is None:
                continue
            while first < len(spots) and spots[first][1] <= start:
                self._apart(number, spots[first][2])
                first += 1
            last = first
            while last < len(spots) and spots[last][0] < at:
                last += 1
            found = spots[first:last]
            if not found:
                self._avoid(piece.value, number, None)
            elif (found[0][0], found[-1][1]) != (start, at):
                if piece.value.other in (found[0][2].raw, found[0][2].writing.value.original):
                    self._apart(number, found[0][2])  # an escape before it, or after it, became a part of it
                else:
                    self._avoid(piece.value, number, found[0][2])
            elif restored(piece) != self._texts[number][found[0][2].start : found[-1][2].end] and (
                len(found) > 1 or not self._add(found[0][2])
            ):
                self._avoid(piece.value, number, found[0][2])
            first = last - 1 if found and found[-1][1] > at else last
        for _, _, place in spots[first:]:
            self._apart(number, place)

    def _avoid(self, form: SurrogateForm | Rewriting, number: int, place: FoundPlace | None) -> None:
        """Give up a form, or give another surrogate to the original if it is the surrogate itself. A surrogate of
        earlier turns stays: what stands in the text in its place is replaced."""
        if form.rank != WHOLE:
            self._blocked.add(form.written)
        elif self._kept.get(form.other) != form.written:
            self._banned.add((form.other, form.written))
        elif place is None:
            self._extra.setdefault(form.written, MaskedString(self._known[form.other].type, form.written))
        else:
            self._apart(number, place)

    def _apart(self, number: int, place: FoundPlace) -> None:
        """Replace what stands in a place as a value of its own, or with the words around it if it is one."""
        if not self._add(place):
            region = Region(place.start, place.end, place.writing.value.type)
            wider = self._widened(number, [region], 2**self._round)
            self._regions[number] = disjoint([*self._regions[number], *wider])

    def _add(self, place: FoundPlace) -> bool:
        """Make a writing a value of its own. Return whether it was none."""
        value = place.writing.value
        if place.raw == value.original or place.raw in self._extra:
            return False
        self._extra[place.raw] = MaskedString(value.type, place.raw)
        return True


def _as_read(values: dict[str, MaskedString], known: dict[str, MaskedString]) -> dict[str, MaskedString]:
    """Return the values without those that are another one with escapes: `M&uuml;ller` where there is `Müller`. Letters
    that are entities of HTML are read in any case, since a surrogate is written with them, too."""
    found: dict[str, MaskedString] = {}
    for original, value in values.items():
        plain = as_read(original)
        if plain != original and original not in known and is_in_entities(original):
            found.setdefault(plain, MaskedString(value.type, plain))
        elif plain == original or not (plain in values or plain in known):
            found[original] = value
    return found


def _filled(text: str, places: Sequence[FoundPlace], chosen: dict[str, str]) -> list[str]:
    """Return what is kept and what is filled, by turns."""
    pieces, read = [], 0
    for place in places:
        pieces += [text[read : place.start], place.filled(chosen[place.writing.value.original])]
        read = place.end
    return [*pieces, text[read:]]


def _spots(places: Sequence[FoundPlace], pieces: Sequence[str]) -> list[Filled]:
    """Return where the places are in the text that the pieces make: kept and filled, by turns."""
    ends = list(accumulate(map(len, pieces)))
    return [
        Filled(ends[2 * at], ends[2 * at + 1], place.writing.value.type, place.start, place.end)
        for at, place in enumerate(places)
    ]
