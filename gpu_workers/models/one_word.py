"""What may be taken from a model that writes text: one word of letters, and nothing else that it says."""

from __future__ import annotations

WORD_CHARS_MAX = 32


def is_word(text: str) -> bool:
    return text.isalpha() and len(text) <= WORD_CHARS_MAX
