"""A public vocabulary: words with one vector each in the unit ball, and a vector for every other string.

This module uses only public data and no text: a word's vector is a function of that word alone. Vectors are integer
codes divided by a public length, `scale`, so that distances between them are exact: v(w) is the coded vector.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.mechanisms.space import CODE_MAX
from core.mechanisms.words.normal_form import normal
from core.mechanisms.words.pricing import WORDS_MAX

Rows = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int8]

SHIPPED = Path(__file__).parent / "data" / "english_words.safetensors"
_SQUARES_MAX = 1 << 24  # float32 represents every integer up to this one
_PARTS = re.compile(r"[-'_]")
ROWS_AT_ONCE = 64  # for products with the whole vocabulary: 5 MB at 20,000 words


class WordVectors:
    """`words`, in lower case and in a public order, and their `codes` int8 `[n, d]`.

    `scale`, an integer, is at least the length of every code, so `codes / scale` lies in the unit ball.
    Raises: ValueError for no words, too many, a repeated word, or codes of another shape, all zero or too long.
    """

    def __init__(self, words: Sequence[str], codes: Codes) -> None:
        self.words = tuple(words)
        self._index = {word: index for index, word in enumerate(self.words)}
        if not 0 < len(self.words) == len(self._index) <= WORDS_MAX:
            raise ValueError(f"a vocabulary has between 1 and {WORDS_MAX} distinct words")
        if codes.dtype != np.int8 or codes.ndim != 2 or len(codes) != len(self.words):
            raise ValueError("a vocabulary has one int8 code for each word")
        wide = codes.astype(np.int64)
        squares = (wide * wide).sum(axis=1)
        self.scale = math.isqrt(int(squares.max()) - 1) + 1 if squares.any() else 0
        if not 0 < 4 * self.scale**2 < _SQUARES_MAX:
            raise ValueError("the codes of a vocabulary must not all be zero and have a length of at most 2047")
        self.codes = codes
        # |z - c|^2 - |z|^2 = -2 z.c + |c|^2, a product of the rows (-2 z, 1) with this matrix
        self._products = np.ascontiguousarray(np.column_stack([codes, squares]).T, dtype=np.float32)

    @property
    def dimension(self) -> int:
        return int(self.codes.shape[1])

    def leading(self, dimension: int) -> WordVectors:
        """Return the same words with only the first coordinates of their vectors, scaled to full length again."""
        return WordVectors(self.words, unit_codes(self.codes[:, :dimension]))

    def rows(self, words: Sequence[str]) -> Codes:
        """Return the code of each word, int8 `[n, d]`, none longer than `scale`.

        Letter case and forms of apostrophe are ignored. The code of a word outside the vocabulary is the mean code of
        its parts, split at hyphens and apostrophes, that are in the vocabulary, rounded towards zero. Without any such
        part, and for every number, it is the origin.
        """
        places: dict[str, int] = {}
        tokens = [places.setdefault(word, len(places)) for word in words]
        distinct = [self._code(word) for word in places]
        return np.stack(distinct)[tokens] if distinct else np.zeros((0, self.dimension), dtype=np.int8)

    def _code(self, word: str) -> Codes:
        key = normal(word)
        if key in self._index:
            row: Codes = self.codes[self._index[key]]
            return row
        known = [self._index[part] for part in _PARTS.split(key) if part in self._index]
        total = self.codes[known].sum(axis=0, dtype=np.int64)
        mean: Codes = np.trunc(total / max(len(known), 1)).astype(np.int8)
        return mean

    def squared_distances(self, rows: npt.NDArray[Any]) -> Rows:
        """Return |z - c|^2 of each row z of `[n, d]`, in units of codes, and each code c: float32 `[n, words]`.

        The result is exact for codes, hence the same for a row in every batch: all partial sums, in any order, are
        integers of at most 3 scale^2, which float32 represents.
        """
        exact = rows.astype(np.float32)
        squares = np.einsum("ij,ij->i", exact, exact)
        products: Rows = np.column_stack([-2 * exact, np.ones_like(squares)]) @ self._products
        products += squares[:, None]
        return products

    def self_check(self) -> bool:
        """Whether this processor's distances of codes are exact, in batches of several sizes."""
        sample = self.codes[:: max(1, len(self.codes) // ROWS_AT_ONCE)][:ROWS_AT_ONCE]
        wide, codes = sample.astype(np.float64), self.codes.astype(np.float64)
        # float64 holds every partial sum exactly
        squares = (wide * wide).sum(axis=1)[:, None] + (codes * codes).sum(axis=1) - 2 * (wide @ codes.T)
        return all(
            np.array_equal(self.squared_distances(sample[:count]), squares[:count]) for count in (1, len(sample))
        )

    def nearest(self, rows: npt.NDArray[Any]) -> list[str]:
        """Return the word nearest to each row of `[n, d]`, in units of codes, ties by index."""
        chosen: list[str] = []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            near = self.squared_distances(rows[start : start + ROWS_AT_ONCE])
            chosen += [self.words[index] for index in near.argmin(axis=1).tolist()]
        return chosen


def unit_codes(vectors: npt.NDArray[Any]) -> Codes:
    """Return the direction of each row as a code of length about `CODE_MAX`: int8 `[n, d]`. A zero row has code 0."""
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    codes: Codes = np.rint(vectors * (CODE_MAX / np.where(norms > 0, norms, 1.0))).astype(np.int8)
    return codes


def save(path: Path, vocabulary: WordVectors, *, metadata: dict[str, str]) -> None:
    from safetensors.numpy import save_file

    text = np.frombuffer("\n".join(vocabulary.words).encode(), dtype=np.uint8)
    save_file({"words": text, "codes": vocabulary.codes}, path, metadata=metadata)


def load(path: Path) -> WordVectors:
    """Load a vocabulary. Raises ValueError for a file that is not one."""
    from safetensors.numpy import load_file

    tensors = load_file(path)
    if set(tensors) != {"words", "codes"}:
        raise ValueError("not a vocabulary")
    return WordVectors(tensors["words"].tobytes().decode().split("\n"), tensors["codes"])


@cache
def shipped() -> WordVectors:
    """Return the vocabulary of this package, which training/word_vectors.py made."""
    return load(SHIPPED)
