"""Combines the findings of the techniques into masked regions: union, one type for each region, merge.

* Union: a character that any technique masks is masked.
* A tagger's finding that overlaps a pattern's keeps the part outside the overlap, if that contains a letter or digit. A
  tagger's result is uncertain where a checksum is exact, and a finding over two numbers would make them one region.
  Passwords, secrets and user names, which both find, become one region if they overlap. So do a name and a word or
  number that identifies nobody alone (`INDIRECT`): `Ms Baker` is a person and no occupation.
* An allow list of an own recogniser suppresses what a pattern or tagger finds within a term
  (`core.text.own_recognisers.recogniser`), before anything is combined.
* Overlap: findings that share a character become one region. An entity takes precedence over a word for its type and
  technique, then the longest finding, then the highest score, then the order of the policy's tables.
* Merge: word masks that only spaces or tabs separate become one (as Vats et al. merge markers for BERT and RoBERTa;
  this also hides the number of words). Two numbers give NUMBER, anything else WORD. Punctuation and line breaks
  separate. Entities never merge: each is one value, and a surrogate represents one value.

`suppressed_finds` explains: it lists which finds of the technique `entity` were suppressed, and by which rule
(`core.text.policy.RULES`). Not listed: a match that a checksum or a form rejects, which is no find; what a tagger
scores below `TAGGED_SCORE_MIN`, which it does not report; and the words of a word list. Its time is linear in the
number of finds.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from importlib import import_module
from typing import NamedTuple

from core.errors import RecogniserFailed
from core.text import mask_entity
from core.text.mask_entity import TAGGER, JoinedHits, Tagged
from core.text.mask_words import AllowLists
from core.text.own_recognisers import recogniser as own_recogniser
from core.text.own_recognisers.recogniser import NOTHING, OwnFinds, OwnRecognised, by_allow_lists
from core.text.policy import (
    ALLOW_LISTED,
    BELOW_THRESHOLD,
    ENTITIES,
    INDIRECT,
    NO_CONTEXT,
    NUMBER,
    OVERLAPPED,
    TECHNIQUES,
    WORD,
    Mask,
    MaskPolicy,
    SuppressedFind,
    SuppressedFinds,
)
from core.text.recogniser import Hit, Hits
from core.text.segment import Regions, Token


@dataclass(frozen=True)
class WindowFinds:
    """The finds in one window: `hits` of the patterns (`mask_entity.search`), `tagged`, if a tagger read it, and `own`
    of the policy's own recognisers."""

    hits: tuple[Hits, ...]
    tagged: Tagged | None = field(repr=False)
    own: OwnFinds = ()


@dataclass(frozen=True)
class Recognised:
    """The finds in a whole text: the masks of `patterns`, None if they have not run, the results of a tagger, and those
    of the policy's own recognisers, None if it has none. `hits`: those that the masks of `patterns` come from, for an
    explanation."""

    patterns: Sequence[Mask] | None
    tagged: Tagged | None = field(repr=False)
    hits: Sequence[JoinedHits] = field(default=(), repr=False, compare=False)
    own: OwnRecognised | None = None


NOT_RECOGNISED = Recognised(None, None)


def join(text: str, policy: MaskPolicy, finds: Sequence[WindowFinds]) -> Recognised:
    """Return what was found in `text`, from the finds in each of its windows, in order.

    Raises RecogniserFailed if the finds are not those of the windows of this text.
    """
    tagged = [each.tagged for each in finds if each.tagged is not None]
    if tagged and len(tagged) != len(finds):
        raise RecogniserFailed
    hits = mask_entity.join(text, policy, [each.hits for each in finds])
    return Recognised(
        mask_entity.masks_of(text, hits),
        mask_entity.join_tagged(text, tagged) if tagged else None,
        hits,
        own_recogniser.join(text, policy, [each.own for each in finds]) if policy.own else None,
    )


_COMBINING = ("Mn", "Mc", "Me", "Cf")
_TECHNIQUE_ORDER = {name: place for place, name in enumerate(TECHNIQUES)}
_ENTITY = "entity"
_ENTITY_ORDER = {name: place for place, name in enumerate(ENTITIES)}


def _strength(mask: Mask) -> tuple[bool, int, float, int, int]:
    return (
        _is_entity(mask),
        mask.end - mask.start,
        mask.score,
        -_TECHNIQUE_ORDER[mask.technique],
        -_ENTITY_ORDER.get(mask.type, 0),
    )


def _is_entity(mask: Mask) -> bool:
    return mask.technique == _ENTITY


def _is_credential(mask: Mask) -> bool:
    """Whether both a tagger and patterns find its type."""
    return mask.type in ENTITIES and ENTITIES[mask.type].tagged and not ENTITIES[mask.type].needs_tagger


def union(found: Iterable[Mask]) -> list[Mask]:
    """Return disjoint regions, in order, that cover exactly the characters of `found`."""
    return [
        group[0]
        if len(group) == 1
        else replace(strongest(group), start=group[0].start, end=max(mask.end for mask in group))
        for group in groups(found)
    ]


def groups(found: Iterable[Mask]) -> Iterator[list[Mask]]:
    """Yield the findings of each region of `union`."""
    group: list[Mask] = []
    end = 0
    for mask in sorted(found, key=lambda each: (each.start, each.end)):
        if group and mask.start >= end:
            yield group
            group = []
        end = max(end, mask.end) if group else mask.end
        group.append(mask)
    if group:
        yield group


def strongest(group: Sequence[Mask]) -> Mask:
    """Return the finding that gives the region of `group` its type and technique."""
    return max(group, key=_strength)


def beside(text: str, tagged: Iterable[Mask], patterns: Iterable[Mask]) -> list[Mask]:
    """Return what `tagged` covers and `patterns` do not, in trimmed pieces that contain a letter or digit.

    The marks between a name and a value stay: in `Anna,anna@example.org` two cells of a table.
    """
    regions = union(patterns)
    ends = [region.end for region in regions]
    pieces: list[Mask] = []
    for mask in union(tagged):
        start, number = mask.start, bisect_right(ends, mask.start)
        while number < len(regions) and regions[number].start < mask.end:
            pieces.append(replace(mask, start=start, end=regions[number].start))
            start, number = regions[number].end, number + 1
        pieces.append(replace(mask, start=start))
    return [_trimmed(text, piece) for piece in pieces if any(map(str.isalnum, text[piece.start : piece.end]))]


def _trimmed(text: str, mask: Mask) -> Mask:
    """Return the mask without the spaces at its edges, and without the marks unless they may belong to a password."""
    start, end = mask.start, mask.end
    while start < end and not _inside(text[start], mask):
        start += 1
    while start < end and not _inside(text[end - 1], mask):
        end -= 1
    return replace(mask, start=start, end=end)


def _inside(character: str, mask: Mask) -> bool:
    if _is_credential(mask):
        return not character.isspace()
    return character.isalnum() or unicodedata.category(character) in _COMBINING


def merge(text: str, regions: Sequence[Mask]) -> list[Mask]:
    """Join consecutive word masks (module docstring)."""
    groups: list[list[Mask]] = []
    for mask in regions:
        if groups and _merges(text, groups[-1][-1], mask):
            groups[-1].append(mask)
        else:
            groups.append([mask])
    return [group[0] if len(group) == 1 else _merged(group) for group in groups]


def _merges(text: str, last: Mask, mask: Mask) -> bool:
    return not _is_entity(last) and not _is_entity(mask) and not text[last.end : mask.start].strip(" \t")


def _merged(group: Sequence[Mask]) -> Mask:
    return replace(
        group[0],
        end=group[-1].end,
        type=NUMBER if all(mask.type == NUMBER for mask in group) else WORD,
        technique=min((mask.technique for mask in group), key=_TECHNIQUE_ORDER.__getitem__),
    )


class Findings(NamedTuple):
    """All findings of a text.

    values: of patterns and deny lists. words: of word lists. names: of a tagger. allowed: those of patterns and of the
    tagger that an allow list suppresses.
    """

    values: list[Mask]
    words: list[Mask]
    names: list[Mask]
    allowed: list[Mask]

    def combined(self, text: str) -> list[Mask]:
        """Return all findings, of the names only what lies beside the values that cut them."""
        found = [*self.values, *self.words]
        for names, values in self.cut():
            found += beside(text, names, values)
        return found

    def cut(self) -> Iterator[tuple[list[Mask], list[Mask]]]:
        """Yield names and the values that cut them. A credential of a tagger and one of a pattern become one region, of
        the pattern's type."""
        credentials = [name for name in self.names if _is_credential(name)]
        if len(credentials) < len(self.names):
            firm = [value for value in self.values if value.type not in INDIRECT]
            yield [name for name in self.names if not _is_credential(name)], firm
        if credentials:
            others = [value for value in self.values if not _is_credential(value)]
            yield _typed(credentials, union(value for value in self.values if _is_credential(value))), others


def _typed(names: Sequence[Mask], values: Sequence[Mask]) -> list[Mask]:
    """Return `names`, each with the type of the first of `values` that it overlaps. `values`: in order, without
    overlap."""
    ends = [value.end for value in values]
    first = [values[at] if (at := bisect_right(ends, name.start)) < len(values) else name for name in names]
    return [
        replace(name, type=value.type) if value.start < name.end else name
        for name, value in zip(names, first, strict=True)
    ]


def regions_of(text: str, all_findings: Findings) -> list[Mask]:
    """Return the masked regions of `text`."""
    return merge(text, union(all_findings.combined(text)))


def findings(
    text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists, recognised: Recognised = NOT_RECOGNISED
) -> Findings:
    """Return what the techniques of the policy find. Runs the patterns of the technique `entity` unless `recognised`
    has their result.

    Raises InvalidInput, RecogniserFailed; the latter also if the policy's own recognisers have not run.
    """
    if policy.own and recognised.own is None:
        raise RecogniserFailed
    own = recognised.own or NOTHING
    names, allowed_names = by_allow_lists(mask_entity.find_tagged(text, policy, recognised.tagged), own.allowed)
    patterns: list[Mask] = list(own.found)
    words: list[Mask] = []
    for technique in TECHNIQUES:
        found = patterns if technique == _ENTITY else words
        if technique == _ENTITY and recognised.patterns is not None:
            found.extend(recognised.patterns)
        elif technique in policy.techniques:
            module, _, find = TECHNIQUES[technique].partition(":")
            found.extend(getattr(import_module(module), find)(text, tokens, policy, lists))
    values, allowed = by_allow_lists(patterns, own.allowed)
    return Findings([*values, *own.denied], words, names, [*allowed, *allowed_names])


class _Dropped(NamedTuple):
    """A suppressed find, at its place in the visible text. `source`: the recogniser of a hit whose rule is still to be
    determined."""

    find: SuppressedFind
    source: JoinedHits | None = None


def suppressed_finds(
    text: str, all_findings: Findings, recognised: Recognised, policy: MaskPolicy, *, sent: Regions, finds_max: int
) -> SuppressedFinds:
    """Return the suppressed finds of `text`, which is visible text. At most `finds_max`: those with the highest scores.

    Raises RecogniserFailed if the search for a context word fails.
    """
    total = 0

    def counted() -> Iterator[_Dropped]:
        nonlocal total
        for each in _dropped(text, all_findings, recognised, policy):
            total += 1
            yield each

    kept = nlargest(max(1, finds_max), counted(), key=_rank)[:finds_max]
    kept.sort(key=lambda each: each.find[:6])
    reported = [find for each in kept if (find := _reported(text, each, sent)) is not None]
    # The values of a form may be read in another order than that of the document.
    return SuppressedFinds(tuple(sorted(reported, key=lambda find: find[:6])), total - len(kept))


def _rank(dropped: _Dropped) -> tuple[float, int, int, str, str]:
    find = dropped.find
    return find.score, -find.start, -find.end, find.type, find.recogniser


def _dropped(text: str, all_findings: Findings, recognised: Recognised, policy: MaskPolicy) -> Iterator[_Dropped]:
    for source in recognised.hits:
        for start, end, score in source.hits.suppressed(text):
            find = SuppressedFind(start, end, source.recogniser.entity, score, source.recogniser.name, BELOW_THRESHOLD)
            yield _Dropped(find, source)
    requested = policy.requested()
    least = mask_entity.least_scores(text, requested)
    for start, end, kind, score in recognised.tagged.found if recognised.tagged else ():
        if kind in requested and score < least(start, end, kind):
            yield _Dropped(SuppressedFind(start, end, kind, score, TAGGER, BELOW_THRESHOLD))
    for mask in all_findings.allowed:
        find = SuppressedFind(mask.start, mask.end, mask.type, mask.score, mask.recogniser, ALLOW_LISTED)
        yield _Dropped(find)
    for find in (*_lost(text, all_findings), *_beside_patterns(all_findings)):
        yield _Dropped(find)


def _lost(text: str, all_findings: Findings) -> Iterator[SuppressedFind]:
    """Yield the entity finds of each region, without the one that gives the region its type."""
    for found in (all_findings.combined(text), all_findings.names):
        for group in groups(found):
            if len(group) > 1:
                winner = strongest(group)
                for mask in group:
                    if mask is not winner and mask.technique == "entity":
                        yield _overlapped(mask, by=winner)


def _beside_patterns(all_findings: Findings) -> Iterator[SuppressedFind]:
    """Yield the names that a pattern's find overlaps. What lies beside that find stays masked."""
    for names, values in all_findings.cut():
        regions = union(values)
        ends = [region.end for region in regions]
        for mask in names:
            number = bisect_right(ends, mask.start)
            if number < len(regions) and regions[number].start < mask.end:
                yield _overlapped(mask, by=regions[number])


def _overlapped(mask: Mask, *, by: Mask) -> SuppressedFind:
    return SuppressedFind(mask.start, mask.end, mask.type, mask.score, mask.recogniser, OVERLAPPED, by.type)


def _reported(text: str, dropped: _Dropped, sent: Regions) -> SuppressedFind | None:
    """Return the find at its place in the text as sent; None for one in the labels that a form adds."""
    find, source = dropped
    region = sent.region(find.start, find.end)
    if region is None:
        return None
    find_sent = find._replace(start=region[0], end=region[1])
    if source is None:
        return find_sent
    return find_sent._replace(rule=NO_CONTEXT) if _lacks_context(text, find, source) else find_sent


def _lacks_context(text: str, find: SuppressedFind, source: JoinedHits) -> bool:
    failed = False
    try:
        lacks = source.recogniser.lacks_context(text, Hit(find.start, find.end, find.score), threshold=source.threshold)
    except Exception:  # any error: its message and frames may contain the text
        failed = True
    if failed:
        raise RecogniserFailed(entity=source.recogniser.entity)
    return lacks
