"""Extract one word of letters or one number from the output of a generative model, and nothing else."""

from __future__ import annotations

import re

WORD_CHARS_MAX = 32
_NUMBER = re.compile(r"[0-9]+(?:[.,:/][0-9]+)*")  # the same pattern as in core.text.segment


def is_word(text: str) -> bool:
    return text.isalpha() and len(text) <= WORD_CHARS_MAX


def is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and len(text) <= WORD_CHARS_MAX
