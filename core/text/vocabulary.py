"""The public frequency list of the technique `vocabulary`: `wordfreq`'s English list, most frequent first.

Entries with a digit are left out: single digits are frequent, and a number spelt digit by digit would be kept.
Frequent names (`john`, `london`) **are** on the list, so the technique keeps them. Combine it with another technique if
names matter.
"""

from __future__ import annotations

from functools import cache

from core.mechanisms.words.normal_form import normal
from core.text.policy import VOCABULARY_SIZE_MAX


@cache
def ranked() -> tuple[tuple[str, ...], dict[str, int]]:
    """Return (words by rank, rank of each word). One table serves every size."""
    import wordfreq

    words = wordfreq.top_n_list("en", VOCABULARY_SIZE_MAX)
    ranks: dict[str, int] = {}
    for rank, word in enumerate(words):
        if not any(char.isnumeric() for char in word):
            ranks.setdefault(normal(word), rank)
    return tuple(ranks), ranks
