"""Sentence segmentation: one document to its unit list.

The list is what SentDP calls a document: a multiset of sentences, of which a neighbour differs in one. Segmentation
comes **before** the adjacency: a guarantee for "one sentence" is about one entry of this list, not about the
characters that a rewritten text would put into it.
"""

from __future__ import annotations

import sentencex


def sentences(text: str) -> list[str]:
    """Every sentence of `text` in order, stripped of surrounding space.

    Keeps every segment that holds a non-space character: nothing is dropped for being short, odd or repeated, for
    a unit that vanished would be a unit without an account. Text without such a character gives [].
    """
    return [sentence for segment in sentencex.segment("en", text) if (sentence := segment.strip())]
