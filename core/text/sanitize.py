"""Mask a text, then fill the masked regions: `sanitize`.

Guarantee: none (no differential privacy; kept words have no protection). The property is: the characters of a masked
region are not copied to the output, and the result object contains no original string.

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

# Invisible characters between visible ones. They would split a number or an address for a recogniser, but not for a
# reader. In other places (emoji, joining scripts) they have a meaning and stay.
_HIDDEN = re.compile(r"(?<=[!-~])[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+(?=[!-~])")


@dataclass(frozen=True)
class Inspected:
    """A text, its tokens, and its masked regions in order."""

    text: str = field(repr=False)
    tokens: Sequence[Token]
    masks: Sequence[Mask]


def visible(text: str) -> str:
    """Return the text without invisible characters inside visible ones: the text that inspection and taggers use."""
    return _HIDDEN.sub("", text)


def inspect(text: str, policy: MaskPolicy, lists: AllowLists, tagged: Tagged | None = None) -> Inspected:
    """Return the masked regions of `visible(text)`. Deterministic for given results of a tagger.

    `tagged`: results for `visible(text)`; needed for entities that only a tagger finds.

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
    """Return the text with one fill for each mask."""
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
    """Mask and fill a text. Masking is deterministic; `surrogate` draws new values for every call.

    Raises InvalidInput (unknown fill, and as `inspect`), RecogniserFailed, TaskFailed if a fill would restore what it
    replaces.
    """
    check_fill(fill)
    lists = lists or AllowLists()
    found = inspect(text, policy, lists, tagged)
    return fill_in(found, import_module(FILLS[fill]).fill(found.text, found.masks, policy, lists))
