"""Mask a text, then fill the masked regions: `sanitize`.

Guarantee: none (no differential privacy; kept words have no protection). What holds: the characters of a masked
region are not copied to the output, and the result holds no original string.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module

from core.text.lists import AllowLists
from core.text.masks import find_masks
from core.text.policy import FILLS, Mask, MaskPolicy, Sanitised, Span, check_fill, check_text
from core.text.tokens import Token, tokenize

# Characters that are not seen between two that are: they would cut a number or an address in two for a recogniser
# and not for a reader. Elsewhere (emoji, scripts that join) they have a meaning and stay.
_HIDDEN = re.compile(r"(?<=[!-~])[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+(?=[!-~])")


def _masked_tokens(tokens: Sequence[Token], masks: Sequence[Mask]) -> int:
    count, place = 0, 0
    for start, end in tokens:
        while place < len(masks) and masks[place].end <= start:
            place += 1
        if place < len(masks) and masks[place].start < end:
            count += 1
    return count


def _apply(text: str, masks: Sequence[Mask], fills: Sequence[str]) -> tuple[str, tuple[Span, ...]]:
    pieces: list[str] = []
    spans: list[Span] = []
    read, written = 0, 0
    for mask, filling in zip(masks, fills, strict=True):
        kept = text[read : mask.start]
        start = written + len(kept)
        written = start + len(filling)
        pieces += (kept, filling)
        spans.append(Span(start, written, mask.type, mask.technique))
        read = mask.end
    pieces.append(text[read:])
    return "".join(pieces), tuple(spans)


def sanitize(text: str, policy: MaskPolicy, fill: str, *, lists: AllowLists | None = None) -> Sanitised:
    """Masking is deterministic; `surrogate` draws fresh values for every call. Invisible characters inside visible
    ones are dropped first.

    Raises InvalidInput (unknown fill, list or entity, text too long; before any text is read), RecogniserFailed,
    TaskFailed where a fill would have put back what it replaces.
    """
    check_fill(fill)
    check_text(text)
    lists = lists or AllowLists()
    if "allow_list" in policy.techniques:
        lists.words(policy.allow_list)
    text = _HIDDEN.sub("", text)
    tokens = tokenize(text)
    masks = find_masks(text, tokens, policy, lists)
    fills = import_module(FILLS[fill]).fill(text, masks, policy, lists)
    output, spans = _apply(text, masks, fills)
    return Sanitised(output, spans, _masked_tokens(tokens, masks), len(tokens))
