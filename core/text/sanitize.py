"""Mask a text, then fill the masked regions: `sanitize`.

Guarantee: none (no differential privacy; kept words have no protection). What holds: the characters of a masked
region are not copied to the output, and the result holds no original string.

`inspect` and `fill_in` are the two halves, for fills of many texts at once (`core.text.replace_words`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

from core.text.lists import AllowLists
from core.text.mask_tagged import Tagged
from core.text.masks import find_masks
from core.text.policy import FILLS, Mask, MaskPolicy, Sanitised, Span, check_fill, check_text
from core.text.tokens import Token, tokenize

# Characters that are not seen between two that are: they would cut a number or an address in two for a recogniser
# and not for a reader. Elsewhere (emoji, scripts that join) they have a meaning and stay.
_HIDDEN = re.compile(r"(?<=[!-~])[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+(?=[!-~])")


@dataclass(frozen=True)
class Inspected:
    """A text, its tokens, and its masked regions in order."""

    text: str = field(repr=False)
    tokens: Sequence[Token]
    masks: Sequence[Mask]


def visible(text: str) -> str:
    """The text without invisible characters inside visible ones: what is inspected, and what a tagger must read."""
    return _HIDDEN.sub("", text)


def inspect(text: str, policy: MaskPolicy, lists: AllowLists, tagged: Tagged | None = None) -> Inspected:
    """What is masked of `visible(text)`. Deterministic, given what a tagger found.

    `tagged`: of `visible(text)`; needed for entities that only a tagger finds.

    Raises InvalidInput (unknown list or entity, text too long; before any text is read), RecogniserFailed.
    """
    check_text(text)
    if "allow_list" in policy.techniques:
        lists.words(policy.allow_list)
    text = visible(text)
    tokens = tokenize(text)
    return Inspected(text, tokens, find_masks(text, tokens, policy, lists, tagged))


def _masked_tokens(tokens: Sequence[Token], masks: Sequence[Mask]) -> int:
    count, place = 0, 0
    for start, end in tokens:
        while place < len(masks) and masks[place].end <= start:
            place += 1
        if place < len(masks) and masks[place].start < end:
            count += 1
    return count


def fill_in(found: Inspected, fills: Sequence[str]) -> Sanitised:
    """The text with one filling a mask."""
    pieces: list[str] = []
    spans: list[Span] = []
    read, written = 0, 0
    for mask, filling in zip(found.masks, fills, strict=True):
        kept = found.text[read : mask.start]
        start = written + len(kept)
        written = start + len(filling)
        pieces += (kept, filling)
        spans.append(Span(start, written, mask.type, mask.technique))
        read = mask.end
    pieces.append(found.text[read:])
    return Sanitised("".join(pieces), tuple(spans), _masked_tokens(found.tokens, found.masks), len(found.tokens))


def sanitize(
    text: str, policy: MaskPolicy, fill: str, *, lists: AllowLists | None = None, tagged: Tagged | None = None
) -> Sanitised:
    """Masking is deterministic; `surrogate` draws fresh values for every call.

    Raises InvalidInput (unknown fill, and as `inspect`), RecogniserFailed, TaskFailed where a fill would have put back
    what it replaces.
    """
    check_fill(fill)
    lists = lists or AllowLists()
    found = inspect(text, policy, lists, tagged)
    return fill_in(found, import_module(FILLS[fill]).fill(found.text, found.masks, policy, lists))
