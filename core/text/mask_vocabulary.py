"""Technique `vocabulary`: mask every token outside the N most frequent words (Vats et al. 2023, N = 10,000)."""

from __future__ import annotations

from collections.abc import Sequence

from core.text.lists import AllowLists
from core.text.mask_words import outside
from core.text.policy import Mask, MaskPolicy
from core.text.tokens import Token
from core.text.vocabulary import ranked


def find(text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists) -> list[Mask]:  # noqa: ARG001
    _, ranks = ranked()
    size = policy.vocabulary_size
    return outside(text, tokens, lambda word: ranks.get(word, size) < size, "vocabulary")
