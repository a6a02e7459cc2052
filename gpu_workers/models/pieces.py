"""Text as word pieces, with their positions and the case of their words.

Long documents are split into overlapping windows, and windows of many documents are grouped into batches. A text that
an encoder truncates is tokenised only as far as its first tokens need (`TokenPrefix`). What a generative model writes
is read as one word of letters or one number, and `word_beginnings` and the functions after it find the pieces of a
vocabulary that begin or continue one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

IntArray = npt.NDArray[np.int64]


class Case(IntEnum):
    """The case of a word, which helps to recognise names and which an uncased vocabulary does not keep."""

    SPECIAL = 0
    LOWER = 1
    INITIAL = 2
    UPPER = 3
    LETTER = 4
    MIXED = 5
    DIGITS = 6
    OTHER = 7


def case_of(word: str) -> Case:
    """The class of one word, as split by the pre-tokeniser."""
    if word.isalpha() and word.islower():
        return Case.LOWER
    if any(character.isdigit() for character in word):
        return Case.DIGITS
    if not any(character.isalpha() for character in word):
        return Case.OTHER
    if word.islower():
        return Case.LOWER
    if word.isupper():
        return Case.LETTER if len(word) == 1 else Case.UPPER
    if word[:1].isupper() and word[1:].islower():
        return Case.INITIAL
    return Case.MIXED if word.upper() != word.lower() else Case.OTHER


@dataclass(frozen=True)
class Pieces:
    """The word pieces of one text, without special tokens. Every array has one entry for each piece.

    `starts`, `ends`: code points of the text. `words`: the number of the word that a piece belongs to, ascending.
    """

    ids: IntArray
    starts: IntArray
    ends: IntArray
    words: IntArray
    cases: IntArray

    def __len__(self) -> int:
        return len(self.ids)


def pieces_of(text: str, encoding: Any) -> Pieces:
    """`Pieces` from a `tokenizers.Encoding` of `text` made without special tokens and without truncation."""
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    cases = np.zeros(len(words), dtype=np.int64)
    if len(words):
        firsts = np.flatnonzero(np.diff(words, prepend=-2))
        lasts = np.append(firsts[1:], len(words)) - 1
        for first, last in zip(firsts, lasts, strict=True):
            cases[first : last + 1] = case_of(text[offsets[first, 0] : offsets[last, 1]])
    return Pieces(np.array(encoding.ids, dtype=np.int64), offsets[:, 0], offsets[:, 1], words, cases)


class Window(NamedTuple):
    """Pieces `start:end` of a document, which are read together. The results for pieces `own_start:own_end` are
    used."""

    document: int
    start: int
    end: int
    own_start: int
    own_end: int


def windows(document: int, length: int, *, size: int, overlap: int) -> list[Window]:
    """Return windows of at most `size` pieces. Exactly one window owns each piece, half the overlap from its inner
    edges.

    Raises: ValueError if the overlap is not smaller than the window.
    """
    if not 0 <= overlap < size:
        raise ValueError("the overlap must be smaller than the window")
    found: list[Window] = []
    start = own = 0
    while own < length:
        end = min(start + size, length)
        own_end = length if end == length else end - overlap // 2
        found.append(Window(document, start, end, own, own_end))
        start, own = end - overlap, own_end
    return found


def batches(lengths: Sequence[int], tokens_max: int) -> Iterator[list[int]]:
    """Yield indices of items, the longest first, in groups of at most `tokens_max` tokens including padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    first = 0
    while first < len(order):
        count = max(1, tokens_max // max(1, lengths[order[first]]))
        yield order[first : first + count]
        first += count


def padded(rows: Sequence[IntArray], fill: int, device: torch.device) -> torch.Tensor:
    """Return the rows as int64 `[rows, longest]`, padded on the right with `fill`."""
    out = torch.full((len(rows), max(len(row) for row in rows)), fill, dtype=torch.int64)
    for number, row in enumerate(rows):
        out[number, : len(row)] = torch.from_numpy(row)
    return out.to(device)


_CHARS_PER_TOKEN = 16


class TokenPrefix:
    """Shortens texts for a tokenizer that truncates them to `tokens_max` tokens.

    Guarantee: the tokenizer gives the same token ids for `of(text)` as for `text`.

    Proof, for a BERT tokenizer. It finds added tokens such as `[MASK]` from left to right. It normalises the text
    between them, which may reorder characters inside a combining sequence, but no such sequence contains the end of a
    word. It ends words by looking at single characters. Each word gives at least one token, and its tokens depend on
    this word alone. So text that is appended to a prefix changes at most the last word of the prefix, or the words that
    its end shares with an added token.

    Let W be the number of words of the longest added token, read as ordinary text. An added token replaces at most
    W + 2 words, two of them in part. Therefore a prefix of (W + 2) * (n + 2) words has n tokens that no appended text
    changes. The words are counted in parts of the text. A part has at most one word more than it adds to the text
    before it, because its start can divide one word.

    A text without so many words, and any text of another tokenizer, is not shortened.
    """

    def __init__(self, tokenizer: Tokenizer, tokens_max: int) -> None:
        self._tokenizer = tokenizer
        self._chars = _CHARS_PER_TOKEN * tokens_max
        added = tokenizer.get_added_tokens_decoder().values()
        self._is_bert = (
            isinstance(tokenizer.model, WordPiece)
            and isinstance(tokenizer.normalizer, BertNormalizer)
            and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
            and not any(token.normalized for token in added)
        )
        if self._is_bert:
            longest = max((self._words(token.content) for token in added), default=0)
            self._words_min = (longest + 2) * (tokens_max + 2)

    def of(self, text: str) -> str:
        """A prefix of `text` with the same tokens up to the limit, or `text` itself."""
        if not self._is_bert:
            return text
        words = 0
        for stop in range(self._chars, len(text), self._chars):
            words += max(0, self._words(text[stop - self._chars : stop]) - 1)
            if words >= self._words_min:
                return text[:stop]
        return text

    def _words(self, text: str) -> int:
        normal = self._tokenizer.normalizer.normalize_str(text)
        return len(self._tokenizer.pre_tokenizer.pre_tokenize_str(normal))


WORD_CHARS_MAX = 32
_NUMBER = re.compile(r"[0-9]+(?:[.,:/][0-9]+)*")  # the same pattern as in core.text.segment


def is_word(text: str) -> bool:
    return text.isalpha() and len(text) <= WORD_CHARS_MAX


def is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and len(text) <= WORD_CHARS_MAX


_BEGINS = ("Ġ", "▁")  # byte-level BPE and unigram vocabularies mark the pieces that begin a word
_CONTINUES = "##"  # WordPiece vocabularies mark the pieces that continue a word


def word_beginnings(tokenizer: Tokenizer) -> dict[int, str]:
    """Every piece that begins a word and has only letters, by its number, as it reads inside a text."""
    return _beginnings(tokenizer, str.isalpha)


def number_beginnings(tokenizer: Tokenizer) -> dict[int, str]:
    """The same for digits."""
    return _beginnings(tokenizer, is_digits)


def _beginnings(tokenizer: Tokenizer, wanted: Callable[[str], bool]) -> dict[int, str]:
    pieces = tokenizer.get_vocab()
    marked = _marked(pieces)
    spelt = {}
    for piece, number in pieces.items():
        text = tokenizer.decode([number]).strip() if piece in marked else "" if marked else piece
        if wanted(text):
            spelt[int(number)] = text
    return spelt


def continuations(tokenizer: Tokenizer, wanted: Callable[[str], bool]) -> dict[int, str]:
    """Every piece that directly follows another one, by its number, as it reads there, if that is `wanted`."""
    pieces = tokenizer.get_vocab()
    marked = _marked(pieces)
    spelt = {}
    for piece, number in pieces.items():
        if marked:
            part = "" if piece in marked else tokenizer.decode([number])
        else:
            part = piece.removeprefix(_CONTINUES) if piece.startswith(_CONTINUES) else ""
        if wanted(part):
            spelt[int(number)] = part
    return spelt


def _marked(pieces: dict[str, int]) -> set[str]:
    return {piece for piece in pieces if piece[:1] in _BEGINS}
