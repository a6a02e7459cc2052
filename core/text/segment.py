"""Segmentation: splits a document into its unit list, of sentences or of windows of words.

SentDP calls this list a document: a multiset of units, of which a neighbour differs in one. Segmentation
comes **before** the adjacency: a guarantee for "one unit" refers to one entry of this list, not to the
characters of a modified text.

Replacing one word of a text changes one window (`windows`), but any number of sentences (`sentences`), because the end
of a sentence depends on its words.
"""

from __future__ import annotations

from itertools import pairwise

import sentencex

WINDOW_WORDS = 12
WINDOW_WORDS_MAX = 256  # the bundled encoder truncates longer inputs


def sentences(text: str) -> list[str]:
    """Return every sentence of `text` in order, stripped of surrounding space.

    Every segment with a non-space character is kept, even if it is short, odd or repeated: a dropped unit would be a
    unit without an account. Text without such a character gives [].
    """
    return [sentence for segment in sentencex.segment("en", text) if (sentence := segment.strip())]


def windows(text: str, words: int) -> list[str]:
    """Split `text` into windows of at most `words` consecutive words, whose sizes differ by at most one.

    Guarantee: two texts with the same number of words that differ in one of them give lists of the same length that
    differ in one entry. The split positions depend on the number of words alone, and each window contains only its own
    words. A word is a run of characters without white space, as in `str.split`; white space itself is dropped.
    Therefore replacing a word by any non-empty string without white space never changes the number of words.
    Text without a word gives [].
    """
    found = text.split()
    count = -(-len(found) // words)
    cuts = [len(found) * index // count for index in range(count + 1)] if count else [0]
    return [" ".join(found[start:stop]) for start, stop in pairwise(cuts)]
