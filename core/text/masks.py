"""From what the techniques found to the masked regions: union, one type a region, merge.

* Union: a character that any technique masks is masked.
* Overlap: finds that share a character become one region, which takes its type and technique from an entity before
  a word, a pattern's before a tagger's (which guesses where a checksum knows), then from the longest find, then from
  the highest score, then from the order of the policy's tables.
* Merge: word masks that only spaces or tabs separate become one (Vats et al.: consecutive masks merge, so a fill
  does not tell how many words stood there). Two numbers give NUMBER, anything else WORD. Punctuation and line
  breaks separate. Entities never merge: each is one value, and a surrogate stands for one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module

from core.text import mask_tagged
from core.text.lists import AllowLists
from core.text.mask_tagged import Tagged
from core.text.policy import ENTITIES, NUMBER, TECHNIQUES, WORD, Mask, MaskPolicy
from core.text.tokens import Token

_TECHNIQUE_ORDER = {name: place for place, name in enumerate(TECHNIQUES)}
_ENTITY_ORDER = {name: place for place, name in enumerate(ENTITIES)}


def _strength(mask: Mask) -> tuple[bool, bool, int, float, int, int]:
    return (
        mask.type in ENTITIES,
        mask.type in ENTITIES and not ENTITIES[mask.type].tagged,
        mask.end - mask.start,
        mask.score,
        -_TECHNIQUE_ORDER[mask.technique],
        -_ENTITY_ORDER.get(mask.type, 0),
    )


def union(found: Iterable[Mask]) -> list[Mask]:
    """Disjoint regions in order that cover exactly the characters of `found`."""
    regions: list[Mask] = []
    strongest: Mask | None = None
    for mask in sorted(found, key=lambda each: (each.start, each.end)):
        if regions and strongest is not None and mask.start < regions[-1].end:
            strongest = max(strongest, mask, key=_strength)
            last = regions[-1]
            regions[-1] = replace(strongest, start=last.start, end=max(last.end, mask.end))
        else:
            strongest = mask
            regions.append(mask)
    return regions


def merge(text: str, regions: Sequence[Mask]) -> list[Mask]:
    """Joins consecutive word masks; see the module's text."""
    joined: list[Mask] = []
    for mask in regions:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.type not in _ENTITY_ORDER
            and mask.type not in _ENTITY_ORDER
            and not text[last.end : mask.start].strip(" \t")
        ):
            technique = min(last.technique, mask.technique, key=_TECHNIQUE_ORDER.__getitem__)
            kind = NUMBER if last.type == mask.type == NUMBER else WORD
            joined[-1] = replace(last, end=mask.end, type=kind, technique=technique)
        else:
            joined.append(mask)
    return joined


def find_masks(
    text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists, tagged: Tagged | None = None
) -> list[Mask]:
    """The masked regions of `text`, those among them that a tagger has found in it.

    Raises InvalidInput, RecogniserFailed.
    """
    found = mask_tagged.find(text, policy, tagged)
    for technique in TECHNIQUES:
        if technique in policy.techniques:
            found.extend(import_module(TECHNIQUES[technique]).find(text, tokens, policy, lists))
    return merge(text, union(found))
