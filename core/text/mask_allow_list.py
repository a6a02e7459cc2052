"""Technique `allow_list`: mask every token that is not in the named list (Vats et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from core.text.lists import AllowLists
from core.text.mask_words import outside
from core.text.policy import Mask, MaskPolicy
from core.text.tokens import Token


def find(text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists) -> list[Mask]:
    """Return the masks. Raises InvalidInput if the list does not exist, whatever the text."""
    return outside(text, tokens, lists.words(policy.allow_list).__contains__, "allow_list")
