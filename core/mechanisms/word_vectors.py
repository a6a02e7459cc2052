"""A public vocabulary: words, one vector each in the unit ball, and a vector for every other string.

Nothing here is private, and nothing here reads a text: a word's vector is a function of that word alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.text.lists import normal

Rows = npt.NDArray[np.float32]

SHIPPED = Path(__file__).parent / "data" / "english_words.safetensors"
WORDS_MAX = 1 << 20
_PARTS = re.compile(r"[-'_]")
_ROWS_AT_ONCE = 64  # of products with the whole vocabulary: 8 MB at 30,000 words


class WordVectors:
    """`words`, lower case, in a public order, and their `vectors` float32 `[n, d]`, none longer than 1.

    Raises: ValueError for no words, too many, one twice, or vectors that are not finite or leave the unit ball.
    """

    def __init__(self, words: Sequence[str], vectors: Rows) -> None:
        self.words = tuple(words)
        self._index = {word: index for index, word in enumerate(self.words)}
        if not 0 < len(self.words) == len(self._index) <= WORDS_MAX:
            raise ValueError("a vocabulary has words, each once")
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(self.words):
            raise ValueError("a vocabulary has one float32 vector a word")
        squares = np.einsum("ij,ij->i", vectors.astype(np.float64), vectors.astype(np.float64))
        if not (squares <= 1.0).all():  # false for NaN, too
            raise ValueError("the vectors of a vocabulary lie in the unit ball")
        self.vectors = vectors
        # |z - v|^2 = |z|^2 - 2 (z.v - |v|^2 / 2): the second row of the product below, for rows that end in 1
        self._products = np.ascontiguousarray(np.column_stack([vectors, -squares / 2]).T, dtype=np.float32)

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def rows(self, words: Sequence[str]) -> Rows:
        """The vector of each word, float32 `[n, d]`, in the unit ball.

        Letter case and forms of apostrophe do not count. A word outside the vocabulary has the mean vector of those of
        its parts, at hyphens and apostrophes, that are inside; without any, the origin. So has every number.
        """
        places: dict[str, int] = {}
        tokens = [places.setdefault(word, len(places)) for word in words]
        distinct = [self._vector(word) for word in places]
        return np.stack(distinct)[tokens] if distinct else np.zeros((0, self.dimension), dtype=np.float32)

    def _vector(self, word: str) -> Rows:
        key = normal(word)
        if key in self._index:
            row: Rows = self.vectors[self._index[key]]
            return row
        known = [self._index[part] for part in _PARTS.split(key) if part in self._index]
        if not known:
            return np.zeros(self.dimension, dtype=np.float32)
        mean: Rows = self.vectors[known].mean(axis=0)
        return mean

    def nearest(self, rows: Rows) -> list[str]:
        """The word nearest to each row of `[n, d]`; of equally near ones, the first."""
        chosen: list[str] = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            near = np.column_stack([part, np.ones(len(part), dtype=np.float32)]) @ self._products
            chosen += [self.words[index] for index in near.argmax(axis=1).tolist()]
        return chosen


def save(path: Path, words: Sequence[str], vectors: Rows, *, metadata: dict[str, str]) -> None:
    """Write a vocabulary of `WordVectors`; vectors are kept in half precision."""
    from safetensors.numpy import save_file

    text = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    save_file({"words": text, "vectors": vectors.astype(np.float16)}, path, metadata=metadata)


def load(path: Path) -> WordVectors:
    """Read a vocabulary. Vectors that half precision has made longer than 1 are scaled back. Raises ValueError."""
    from safetensors.numpy import load_file

    tensors = load_file(path)
    if set(tensors) != {"words", "vectors"}:
        raise ValueError("not a vocabulary")
    vectors = tensors["vectors"].astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= (1 - 2**-22) / np.maximum(norms, 1.0)  # room for the rounding to float32
    return WordVectors(tensors["words"].tobytes().decode().split("\n"), vectors.astype(np.float32))


@cache
def shipped() -> WordVectors:
    """The vocabulary of this package: gpu_workers/training/word_vectors.py made it."""
    return load(SHIPPED)
