"""Combines the findings of the techniques into masked regions: union, one type for each region, merge.

* Union: a character that any technique masks is masked.
* A tagger's finding that overlaps a pattern's keeps the part outside the overlap, if that contains a letter or digit.
  A tagger's result is uncertain where a checksum is exact, and a finding over two numbers would make them one region.
  Passwords, secrets and user names, which both find, become one region if they overlap.
* An allow list of an own recogniser suppresses what a pattern or tagger finds within a term
  (`core.text.own_recognisers.finds`), before anything is combined.
* Overlap: findings that share a character become one region. An entity takes precedence over a word for its type and
  technique, then the longest finding, then the highest score, then the order of the policy's tables.
* Merge: word masks that only spaces or tabs separate become one (Vats et al.: consecutive masks merge, so a fill
  does not reveal the number of words). Two numbers give NUMBER, anything else WORD. Punctuation and line
  breaks separate. Entities never merge: each is one value, and a surrogate represents one value.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

from core.errors import RecogniserFailed
from core.text import mask_tagged
from core.text.lists import AllowLists
from core.text.own_recognisers.finds import NOTHING, by_allow_lists
from core.text.policy import ENTITIES, NUMBER, TECHNIQUES, WORD, Mask, MaskPolicy
from core.text.recognised import NOT_RECOGNISED, Recognised
from core.text.tokens import Token

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
            yield [name for name in self.names if not _is_credential(name)], self.values
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
    names, allowed_names = by_allow_lists(mask_tagged.find(text, policy, recognised.tagged), own.allowed)
    patterns: list[Mask] = list(own.found)
    words: list[Mask] = []
    for technique in TECHNIQUES:
        found = patterns if technique == _ENTITY else words
        if technique == _ENTITY and recognised.patterns is not None:
            found.extend(recognised.patterns)
        elif technique in policy.techniques:
            found.extend(import_module(TECHNIQUES[technique]).find(text, tokens, policy, lists))
    values, allowed = by_allow_lists(patterns, own.allowed)
    return Findings([*values, *own.denied], words, names, [*allowed, *allowed_names])
