"""Technique `all`: mask every word and number."""

from __future__ import annotations

from collections.abc import Sequence

from core.text.lists import AllowLists
from core.text.mask_words import outside
from core.text.policy import Mask, MaskPolicy
from core.text.tokens import Token


def find(text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists) -> list[Mask]:  # noqa: ARG001
    return outside(text, tokens, lambda _: False, "all")
