"""Word and number tokens of a text, with character offsets.

A token is a run of letters, combining marks, digits and underscores. An apostrophe or hyphen between two runs joins
them (`don't`, `well-known`), and so do `. , : /` between two digits (`3.14`, `12:30`). The text outside tokens is
punctuation, symbols and space. By construction it contains no letter, mark or digit, so it may stay unmasked.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

_RUN = r"[\p{L}\p{M}\p{N}_]+"
_TOKEN = regex.compile(rf"{_RUN}(?:(?:['’ʼ＇\-‐‑]|(?<=\p{{N}})[.,:/](?=\p{{N}})){_RUN})*")
_LETTER = regex.compile(r"\p{L}")


class Token(NamedTuple):
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text` in order. Offsets are code points of `text`."""
    return [Token(*match.span()) for match in _TOKEN.finditer(text)]


def count_tokens(text: str, *, stop: int) -> int:
    """Return the number of tokens of `text`, counted up to `stop`."""
    return sum(1 for _ in islice(_TOKEN.finditer(text), stop))


def has_letter(text: str) -> bool:
    return _LETTER.search(text) is not None
