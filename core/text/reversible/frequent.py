"""Frequent words, which are neither masked nor restored where they stand in small letters."""

from __future__ import annotations

from functools import lru_cache

FREQUENT_WORDS = 5_000  # of a language


@lru_cache(maxsize=8)
def frequent_words(language: str) -> frozenset[str]:
    """Return the most frequent words of a language and of English, in small letters. Names are among them."""
    import wordfreq

    words = (word for each in {language, "en"} for word in wordfreq.top_n_list(each, FREQUENT_WORDS))
    return frozenset(word.casefold() for word in words)


def is_frequent(text: str, language: str) -> bool:
    return text.casefold() in frequent_words(language)
