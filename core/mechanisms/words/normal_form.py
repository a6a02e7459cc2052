"""The form of a word that all word lists and vocabularies use."""

import unicodedata
from itertools import groupby

_APOSTROPHES = str.maketrans("’ʼ＇‐‑", "'''--")
_UNORDERED_CHARS_MAX = 64


def normal(word: str) -> str:
    """Return the word in NFKC and folded case, with plain apostrophes and hyphens."""
    if word.isascii():
        return word.lower()
    if len(word) > _UNORDERED_CHARS_MAX:
        word = _ordered(word)
    return unicodedata.normalize("NFKC", word).casefold().translate(_APOSTROPHES)


def _ordered(word: str) -> str:
    """Decompose a word and put its combining marks into canonical order, which does not change its NFKC.

    `unicodedata.normalize` does this in a time that grows with the square of the number of consecutive marks.
    """
    parts = "".join(unicodedata.normalize("NFKD", character) for character in word)
    runs = groupby(parts, key=lambda character: unicodedata.combining(character) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if is_mark else run) for is_mark, run in runs)
