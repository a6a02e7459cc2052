"""The form of a word that all word lists and vocabularies use."""

from __future__ import annotations

import unicodedata

_APOSTROPHES = str.maketrans("’ʼ＇‐‑", "'''--")


def normal(word: str) -> str:
    """Return the word in NFKC and folded case, with plain apostrophes and hyphens."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", word).casefold().translate(_APOSTROPHES)
