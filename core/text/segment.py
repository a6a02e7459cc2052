"""Reads a text: its visible characters, its tokens of words and numbers, and its units, sentences or windows of words.

A token is a run of letters, combining marks, digits and underscores. An apostrophe or hyphen between two runs joins
them (`don't`, `well-known`), and so do `. , : /` between two digits (`3.14`, `12:30`). The text outside tokens is
punctuation, symbols and space. By construction it contains no letter, mark or digit, so it may stay unmasked.

SentDP calls the list of units a document: a multiset of units, of which a neighbour differs in one. Segmentation comes
**before** the adjacency: a guarantee for "one unit" refers to one entry of this list, not to the characters of a
modified text. Replacing one word of a text changes one window (`windows`), but any number of sentences (`sentences`),
because the end of a sentence depends on its words.

Recognisers read the visible text (`visible`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice, pairwise
from typing import NamedTuple, Protocol

import regex  # type: ignore[import-untyped]
import sentencex

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


WINDOW_WORDS = 12
WINDOW_WORDS_MAX = 256  # the bundled encoder truncates longer inputs

# The segmenter may read the rest of a paragraph for each quotation mark and each end of a sentence, so its time grows
# with the square of a paragraph's length. It does not release the interpreter before it returns.
PART_CHARS_MAX = 4_000
PART_MARKS_MAX = 64

WRAPPED_COLUMNS = range(40, 121)  # of a line of prose that was wrapped
UNIT_TOKENS_MAX = 254  # the bundled encoder reads 256 tokens, two of which mark the ends

_LINE_END = re.compile(r"\r+\n?|[\v\f\x85\u2028\u2029]")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_MARK = re.compile("[\"'`«»‘’‚“”‛„‟‹›《》「」]")  # every character of a quotation mark of the segmenter
_WIDE = re.compile(r"[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")

# Every repetition is bounded, so that a hostile line takes no longer than others.
_QUOTED = r"[ \t>|:]{0,40}"
_NAME = r"\p{Lu}[\p{L}\p{M}\p{N}_.'’-]{0,30}(?:[ ]\p{Lu}[\p{L}\p{M}\p{N}_.'’-]{0,30}){0,2}|\p{Lo}{1,20}"
_OPENING = regex.compile(
    rf"""{_QUOTED}(?:
      [-*+•‣◦·▪●○–—✓✔☐☑][ \t]                                          # a bullet
    | \#{{1,6}}[ ] | \|[^|>]{{1,200}}\|                                # a heading, a row of a table
    | [(\[]?(?:\d{{1,3}}(?:\.\d{{1,3}}){{0,3}}[.)\]]|\p{{L}}[)\]])(?:[ \t]|$)    # 1. 2.3. 4) [5] (a)
    | \d{{1,3}}[、．]
    | [(\[<]?\d{{1,4}}([-/.:])\d{{1,2}}\1\d{{1,4}}(?!\d)               # a date, a time with seconds
    | [(\[<]\d{{1,2}}:\d\d(?!\d)                                       # a time
    | \d{{1,2}}:\d\d[ \t]{{1,4}}(?:[-–|<\[(]|(?:{_NAME})[:：])         # a time and a speaker
    | \p{{Lu}}\p{{Ll}}\p{{Ll}}[ ]{{1,2}}\d{{1,2}}[ ]\d\d:\d\d          # the time of a log
    | <[^<>\s]{{1,40}}>[ ] | (?:{_NAME})(?:：|:(?:[ \t]|$))            # a speaker
    )""",
    regex.VERBOSE,
)
_LABEL = regex.compile(rf"{_QUOTED}\p{{L}}[\p{{L}}\p{{M}}\p{{N}}_.'’-]{{0,30}}:(?:[ \t]|$)")

_PIECE = regex.compile(
    r"(?P<latin>[A-Za-z]{1,96})|(?P<digits>[0-9]{1,96})|(?P<hangul>[가-힣])|[^\sA-Za-z0-9가-힣]\p{M}{0,8}"
)
_HANGUL_TOKENS = 3  # the encoder reads the letters of a syllable
_PAUSE = re.compile(r"[;:,)\]。！？；：，、…—](?=\s|[^\x00-\x7f])")


def sentences(text: str) -> list[str]:
    """Return every sentence of `text` in order, stripped of surrounding space. The list depends on `text` alone.

    Every segment with a non-space character is kept, even if it is short, odd or repeated: a dropped unit would be a
    unit without an account. Text without such a character gives [].

    A sentence ends where the segmenter finds its end, and at a blank line. It also ends

    * after a line whose width is outside `WRAPPED_COLUMNS`, or that has no letter: its line feed is not that of wrapped
      prose. A following line of punctuation alone still belongs to the sentence;
    * before a line that opens an item of a list, a turn of a conversation or an entry of a log.

    A sentence of more than an estimated `UNIT_TOKENS_MAX` tokens is divided into parts of similar size: in the last
    third of a part, after a line feed, a mark of punctuation or a space, otherwise at its end. `\\r\\n` and the other
    ends of lines count as line feeds.

    The time is linear in the length of the text. Paragraphs do not affect each other. A paragraph of more than
    `PART_CHARS_MAX` characters or `PART_MARKS_MAX` quotation marks is segmented in parts within both limits. A part
    ends between two sentences if its last quarter has such a place, otherwise after a line feed or a space there,
    otherwise at the limit.
    """
    return [
        part
        for paragraph in _BLANK_LINE.split(_LINE_END.sub("\n", text))
        for sentence in _sentences(paragraph)
        for piece in _divided(sentence)
        if (part := piece.strip())
    ]


def _sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, with the space around them."""
    if not paragraph or paragraph.isspace():
        return
    ends = set(accumulate(map(len, _segments(paragraph))))
    start = 0
    for end in sorted(ends.union(_line_ends(paragraph))):
        if end in ends or _has_words(paragraph[start:end]):
            yield paragraph[start:end]
            start = end


def _line_ends(paragraph: str) -> Iterator[int]:
    """Yield the position after each line feed that ends a sentence, except before a line of punctuation alone."""
    end = 0
    for line, following in pairwise(paragraph.split("\n")):
        end += len(line) + 1
        if _has_words(following) and (_is_whole(line) or _opens(following, line)):
            yield end


def _has_words(text: str) -> bool:
    return _LETTER_OR_DIGIT.search(text) is not None


def _is_whole(line: str) -> bool:
    """Whether the line feed after `line` is not one of wrapped prose."""
    columns = len(line.rstrip()) + 7 * line.count("\t")
    if not line.isascii():
        columns += sum(1 for _ in _WIDE.finditer(line))
    return columns not in WRAPPED_COLUMNS or not has_letter(line)


def _opens(line: str, before: str) -> bool:
    """Whether `line` opens an item, a turn or an entry. Wrapped prose may have a single line like `to: ...`."""
    return _OPENING.match(line) is not None or (_LABEL.match(line) is not None and _LABEL.match(before) is not None)


def _divided(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence that is too long for the encoder, otherwise the sentence."""
    if len(sentence) * (1 if sentence.isascii() else _HANGUL_TOKENS) <= UNIT_TOKENS_MAX:
        yield sentence
        return
    ends, totals = [0], [0]
    for piece in _PIECE.finditer(sentence):
        ends.append(piece.end())
        totals.append(totals[-1] + _tokens(piece))
    start = done = 0
    while (left := totals[-1] - done) > UNIT_TOKENS_MAX:
        size = left // -(-left // UNIT_TOKENS_MAX)
        earliest, latest = (ends[bisect_right(totals, done + most) - 1] for most in (size * 2 // 3, size))
        stop = _pause(sentence, earliest, latest)
        yield sentence[start:stop]
        start, done = stop, totals[bisect_right(ends, stop) - 1]
    yield sentence[start:]


def _tokens(piece: regex.Match[str]) -> int:
    """An estimate of the tokens of a piece, too low for random strings alone: words have 2.5 to 4 letters a token."""
    length: int = piece.end() - piece.start()
    match piece.lastgroup:
        case "latin":
            return -(-length * 2 // 5)
        case "digits":
            return -(-length // 2)
        case "hangul":
            return _HANGUL_TOKENS
    return 1


def _pause(sentence: str, start: int, stop: int) -> int:
    """The best position to divide a sentence at, in [start, stop]."""
    if (found := sentence.rfind("\n", start, stop)) >= 0:
        return found + 1
    for last in _PAUSE.finditer(sentence, start, stop):
        found = last.end()
    return found if found >= 0 else _space(sentence, start, stop)


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


# Invisible characters between visible ones: soft hyphens, joiners, marks of direction, variation selectors, tags.
# They would split a number or an address for a recogniser, but not for a reader. In other places (emoji, scripts that
# join, the ends of a line) they have a meaning and stay. The pattern begins with the class of invisible characters
# because a search for a rare character is fast.
INVISIBLE = (
    r"[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e0fff]"
)
# ASCII, spaces, digits of any script, and letters of scripts that do not join: Latin, Greek, Cyrillic.
_BESIDE = r"[ -~\u00a0\u2007\u2009\u202f\d\u00c0-\u02af\u0370-\u052f]"
HIDDEN = re.compile(rf"{INVISIBLE}(?<={_BESIDE}{INVISIBLE}){INVISIBLE}*+(?={_BESIDE})")


def visible(text: str) -> str:
    """Return the text without invisible characters inside visible ones: the text that inspection and taggers use."""
    return text if text.isascii() else HIDDEN.sub("", text)


class Regions(Protocol):
    """Maps regions of the text that recognisers read to regions of the text as the caller sent it."""

    def region(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the region for the non-empty region [start, end); None if the caller sent none of it."""


@dataclass(frozen=True)
class SentText:
    """Maps places of `visible(text)` to places of `text`, the text as the caller sent it."""

    places: tuple[int, ...] = field(default=())  # of visible characters after removed ones
    shifts: tuple[int, ...] = field(default=())  # how many characters were removed before each of those

    @classmethod
    def of(cls, text: str) -> SentText:
        places: list[int] = []
        shifts: list[int] = []
        removed = 0
        for hidden in () if text.isascii() else HIDDEN.finditer(text):
            places.append(hidden.start() - removed)
            removed += hidden.end() - hidden.start()
            shifts.append(removed)
        return cls(tuple(places), tuple(shifts))

    def region(self, start: int, end: int) -> tuple[int, int]:
        """Return the region of the sent text for the non-empty region [start, end) of the visible text."""
        return self._at(start), self._at(end - 1) + 1

    def _at(self, place: int) -> int:
        number = bisect_right(self.places, place)
        return place + self.shifts[number - 1] if number else place


def hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `text` that `visible` leaves out, in order."""
    if not text.isascii():
        yield from (match.span() for match in HIDDEN.finditer(text))
