"""Other forms of ASCII characters, as the ASCII characters that they stand for: what patterns search in.

Full-width forms (`１２３`, `Ｊｕｎｋｏ`), mathematical letters, and the decimal digits of every script. One
character becomes one character, so that places in the result are those of the text. Letters that only look alike
(Cyrillic `а`) stay: they are letters of their own script.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

_FULL_WIDTH = range(0xFF01, 0xFF5F)
_FULL_WIDTH_SHIFT = 0xFF01 - 0x21
_MATHEMATICAL = range(0x1D400, 0x1D800)


@cache
def _table() -> dict[int, str]:
    forms = {code: chr(code - _FULL_WIDTH_SHIFT) for code in _FULL_WIDTH}
    for code in _MATHEMATICAL:
        plain = unicodedata.normalize("NFKC", chr(code))
        if plain.isascii() and len(plain) == 1:
            forms[code] = plain
    for code in range(0x80, sys.maxunicode + 1):
        if (digit := unicodedata.decimal(chr(code), -1)) >= 0:
            forms[code] = str(digit)
    return forms


def plain_characters(text: str) -> str:
    """Return `text` with ASCII characters for their other forms. The result has the same length."""
    return text if text.isascii() else text.translate(_table())
