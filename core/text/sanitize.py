"""Mask a text, then fill the masked regions: `sanitize`.

Guarantee: none (no differential privacy; kept words have no protection). The property is: the characters of a masked
region are not copied to the output, and the result object contains no original string.

`inspect` and `fill_in` are the two halves, for fills of many texts at once (`core.text.replace_words`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

from core.text.lists import AllowLists
from core.text.masks import find_masks
from core.text.policy import FILLS, SURROGATE, Mask, MaskPolicy, Sanitised, check_fill, check_text
from core.text.recognised import NOT_RECOGNISED, Recognised
from core.text.spans import Span, Spans
from core.text.tokens import Token, tokenize
from core.text.visible import visible


@dataclass(frozen=True)
class Inspected:
    """A text, its tokens, and its masked regions in order."""

    text: str = field(repr=False)
    tokens: Sequence[Token]
    masks: Sequence[Mask]

    @property
    def masked_tokens(self) -> int:
        return _masked_tokens(self.tokens, self.masks)


def inspect(text: str, policy: MaskPolicy, lists: AllowLists, recognised: Recognised = NOT_RECOGNISED) -> Inspected:
    """Return the masked regions of `visible(text)`. Deterministic for given results of a tagger.

    `recognised`: results for `visible(text)`. Those of a tagger are needed for entities that only a tagger finds.

    Raises InvalidInput (unknown list or entity, text too long; before any text is read), RecogniserFailed.
    """
    check_text(text)
    if "allow_list" in policy.techniques:
        lists.words(policy.allow_list)
    text = visible(text)
    tokens = tokenize(text)
    return Inspected(text, tokens, find_masks(text, tokens, policy, lists, recognised))


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
    return Sanitised("".join(pieces), Spans.of(spans), found.masked_tokens, len(found.tokens))


def fill_masks(
    found: Inspected,
    policy: MaskPolicy,
    fill: str,
    lists: AllowLists,
    *,
    surrogate_key: bytes | None = None,
    language: str | None = None,
) -> Sanitised:
    """Return the text with its masks filled by one of `FILLS`. `surrogate_key` and `language`: of the fill `surrogate`,
    as in `core.text.fill_surrogate`. Raises TaskFailed if a fill would restore what it replaces."""
    own = {"key": surrogate_key, "language": language} if fill == SURROGATE else {}
    return fill_in(found, import_module(FILLS[fill]).fill(found.text, found.masks, policy, lists, **own))


def sanitize(
    text: str,
    policy: MaskPolicy,
    fill: str,
    *,
    lists: AllowLists | None = None,
    recognised: Recognised = NOT_RECOGNISED,
    surrogate_key: bytes | None = None,
    language: str | None = None,
) -> Sanitised:
    """Mask and fill a text. Masking is deterministic; `surrogate` draws new values for every call without a key.

    Raises InvalidInput (unknown fill, and as `inspect`), RecogniserFailed, and TaskFailed as `fill_masks`.
    """
    check_fill(fill)
    lists = lists or AllowLists()
    found = inspect(text, policy, lists, recognised)
    return fill_masks(found, policy, fill, lists, surrogate_key=surrogate_key, language=language)
