"""Segmentation: one document to its unit list, of sentences or of windows of words.

The list is what SentDP calls a document: a multiset of units, of which a neighbour differs in one. Segmentation
comes **before** the adjacency: a guarantee for "one unit" is about one entry of this list, not about the
characters that a rewritten text would put into it.

Replacing one word of a text changes one window (`windows`), but any number of sentences (`sentences`): where a sentence
ends depends on its words.
"""

from __future__ import annotations

from itertools import pairwise

import sentencex

WINDOW_WORDS = 12
WINDOW_WORDS_MAX = 256  # the bundled encoder reads no further


def sentences(text: str) -> list[str]:
    """Every sentence of `text` in order, stripped of surrounding space.

    Keeps every segment that holds a non-space character: nothing is dropped for being short, odd or repeated, for
    a unit that vanished would be a unit without an account. Text without such a character gives [].
    """
    return [sentence for segment in sentencex.segment("en", text) if (sentence := segment.strip())]


def windows(text: str, words: int) -> list[str]:
    """`text` cut into windows of at most `words` consecutive words, whose sizes differ by one at most.

    Guarantee: two texts with the same number of words that differ in one of them give lists of the same length that
    differ in one entry. The cuts depend on the number of words alone, and each window holds its own words alone.
    A word is a run of characters without white space, as `str.split` finds them; white space itself is dropped.
    Replacing a word by any non-empty string without white space therefore never changes how many words there are.
    Text without a word gives [].
    """
    found = text.split()
    count = -(-len(found) // words)
    cuts = [len(found) * index // count for index in range(count + 1)] if count else [0]
    return [" ".join(found[start:stop]) for start, stop in pairwise(cuts)]
