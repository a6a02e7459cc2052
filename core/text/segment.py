"""Segmentation: splits a document into its unit list, of sentences or of windows of words.

SentDP calls this list a document: a multiset of units, of which a neighbour differs in one. Segmentation
comes **before** the adjacency: a guarantee for "one unit" refers to one entry of this list, not to the
characters of a modified text.

Replacing one word of a text changes one window (`windows`), but any number of sentences (`sentences`), because the end
of a sentence depends on its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise

import sentencex

WINDOW_WORDS = 12
WINDOW_WORDS_MAX = 256  # the bundled encoder truncates longer inputs

# The segmenter may read the rest of a paragraph for each quotation mark and each end of a sentence, so its time grows
# with the square of a paragraph's length. It does not release the interpreter before it returns.
PART_CHARS_MAX = 4_000
PART_MARKS_MAX = 64

_BLANK_LINE = re.compile(r"\n\r*\n")  # as in the segmenter
_MARK = re.compile("[\"'`«»‘’‚“”‛„‟‹›《》「」]")  # every character of a quotation mark of the segmenter


def sentences(text: str) -> list[str]:
    """Return every sentence of `text` in order, stripped of surrounding space.

    Every segment with a non-space character is kept, even if it is short, odd or repeated: a dropped unit would be a
    unit without an account. Text without such a character gives [].

    The time is linear in the length of the text. Blank lines separate paragraphs, which do not affect each other. A
    paragraph of more than `PART_CHARS_MAX` characters or `PART_MARKS_MAX` quotation marks is segmented in parts within
    both limits. A part ends between two sentences if its last quarter has such a place, otherwise after a line feed or
    a space there, otherwise at the limit.
    """
    return [
        sentence
        for paragraph in _BLANK_LINE.split(text)
        for segment in _segments(paragraph)
        if (sentence := segment.strip())
    ]


def _segments(paragraph: str) -> Iterator[str]:
    """Yield the segments of a paragraph, part by part.

    Each call of the segmenter but the last advances by at least three quarters of what it reads, so all calls together
    read at most four thirds of the paragraph.
    """
    start = 0
    while (stop := _stop(paragraph, start)) < len(paragraph):
        earliest = stop - (stop - start) // 4
        for segment in sentencex.segment("en", paragraph[start:stop]):
            end = start + len(segment)
            if end == stop:  # the sentence may continue after the part
                end = _space(paragraph, earliest, stop)
            yield paragraph[start:end]
            start = end
            if start >= earliest:
                break
    yield from sentencex.segment("en", paragraph[start:])


def _stop(paragraph: str, start: int) -> int:
    """The end of the longest part that begins at `start`."""
    stop = min(start + PART_CHARS_MAX, len(paragraph))
    beyond = next(islice(_MARK.finditer(paragraph, start, stop), PART_MARKS_MAX, None), None)
    return beyond.start() if beyond else stop


def _space(paragraph: str, start: int, stop: int) -> int:
    """The position after the last line feed of a range, otherwise after its last space, otherwise its end."""
    for separator in "\n ":
        found = paragraph.rfind(separator, start, stop)
        if found >= 0:
            return found + 1
    return stop


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
