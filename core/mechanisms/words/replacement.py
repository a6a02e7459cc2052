"""Word-level metric DP: every word of a text becomes a word of a public vocabulary, by noise or by selection.

The vocabulary (`WordVectors`) has one vector in the unit ball for each word, and a vector for every other string. It
has only public data: a word's vector is a function of that word alone. Vectors are integer codes divided by a public
length, `scale`, so that distances between them are exact: v(w) is the coded vector.

**By noise** (`LaplaceWords`): the public word nearest to the word's noisy vector.

Guarantee: for each word separately, Pr[A(w) in S] <= e^(eps |v(w) - v(w')|) Pr[A(w') in S] for any two strings w, w'
and every set S of words, v their public vectors (`WordVectors`): eps per unit of Euclidean distance. All vectors lie in
the unit ball, so their distance is at most 2, and it is pure 2 eps-DP for replacing a word by any other. Each word
has its own noise: replacing one word of a text changes one draw, and a text costs eps whatever its length. The number
of words is public.

Proof: the vector is released by `laplace` of `core.mechanisms.vectors`, from v(w) in float64. The distance of two
different vectors is at least 1/130, far above that mechanism's floor. The steps after it depend only on that release
and the public vocabulary. The output may equal the input word, and this must be possible: a decoder that excluded the
input word, or passed an unknown word through, would reveal it. A word outside the vocabulary is never an output.

`ExponentialWords` has the same guarantee and changes the text far less. `LaplaceWords` implements the paper's form.

Source: Feyisetan, Balle, Drake and Diethe 2020, Algorithm 1.

**By selection** (`ExponentialWords`): a public word, with a probability that decreases with its distance.

Guarantee: for each word separately, Pr[A(w) = y] <= e^(eps |v(w) - v(w')|) Pr[A(w') = y] for any two strings w, w' and
every word y, v their public vectors (`WordVectors`): eps per unit of Euclidean distance, for every pair and without
slack. It is pure DP for replacing a word by any other, at `pricing.worst_case_nano` (2 eps at most). Each word has
its own draw: replacing one word of a text changes one draw. The number of words is public.

Mechanism: A(w) = y with probability e^(-eps d(w, y) / 2) / Z(w), over the whole vocabulary. Proof: let D = d(w, w'). By
the triangle inequality d(w, y) >= d(w', y) - D and d(w, y) <= d(w', y) + D for every y. Between w' and w the numerator
therefore increases by a factor of at most e^(eps D / 2), and the denominator decreases by at most the same factor.

The code samples this law exactly. Codes are integers and so are their squared distances s, in every batch; a weight is
exp(-eps sqrt(s) / (2 scale)). A word is released if a uniform U lies in its share of [0, 1). The first 64 bits of U and
float64 sums of the weights decide nearly always. If U is within an error bound of the end of a share, the same U gets
further bits and the sums further digits until the comparison is conclusive (`_selected_exactly`).

Error bound, relative to the sum of n weights: the error of x = rate (sqrt(s) - sqrt(least s)) is at most eps 2^-50
(rate * 2 scale = eps; five roundings), that of `numpy.exp` 2^-41 (as in `samplers.exact`; below e^-700 the error of a
weight is smaller than that), and that of a running sum of n terms n 2^-53. Four times the total covers both ends, the
sum of all, and U's rounding.

Timing is not hidden: the exact step takes a fraction of a second, for one draw in a million.

Source: McSherry and Talwar 2007; for words Carvalho, Vasiloudis and Feyisetan 2021 (TEM), without its truncation.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from core.amounts import NANO
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.space import CODE_MAX
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.spec import vector_spec
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


NOISE_DIMENSION = 24  # the number of leading dimensions of the shipped vectors to use: noise grows with each


class WordMechanism(Protocol):
    """Replaces words by words of a public vocabulary."""

    def release(self, words: Sequence[str], epsilon_nano: Sequence[int]) -> list[str]: ...


class LaplaceWords:
    """See the module docstring. The object has no private state, so it serves any number of calls."""

    def __init__(self, vocabulary: WordVectors) -> None:
        self.vocabulary = vocabulary

    def release(self, words: Sequence[str], epsilon_nano: Sequence[int]) -> list[str]:
        """Return a word of the vocabulary for each of `words`, which may be any strings, each at its own epsilon.

        Units: epsilon in nano, per unit of Euclidean distance. Raises: ValueError if the numbers of epsilons and words
        differ, InvalidInput for an epsilon outside (0, EPSILON_MAX / 2].
        """
        if len(words) != len(epsilon_nano):
            raise ValueError("each word needs an epsilon")
        scale = self.vocabulary.scale
        rows = self.vocabulary.rows(words) / np.float64(scale)
        for epsilon in dict.fromkeys(epsilon_nano):
            own = np.array(epsilon_nano) == epsilon
            rows[own] = self._noisy(epsilon).release(rows[own])
        return self.vocabulary.nearest(rows * scale)

    def _noisy(self, epsilon_nano: int) -> MetricMechanism:
        dimension = self.vocabulary.dimension
        spec = vector_spec(mechanism="laplace", dimension=dimension, epsilon=Decimal(epsilon_nano) / NANO)
        return MetricMechanism(spec, None)


_BITS = 64
_EXACT_BITS_MAX = 1 << 16


class ExponentialWords:
    """See the module docstring. The object has no private state, so it serves any number of calls."""

    def __init__(self, vocabulary: WordVectors) -> None:
        self.vocabulary = vocabulary

    def release(self, words: Sequence[str], epsilon_nano: Sequence[int]) -> list[str]:
        """Return a word of the vocabulary for each of `words`, which may be any strings, each at its own epsilon.

        Words with the same code and epsilon share the sums of their weights, but not their draws.
        Units: epsilon in nano, per unit of Euclidean distance. Raises: ValueError if the numbers of epsilons and words
        differ, or an epsilon is not positive.
        """
        if len(words) != len(epsilon_nano) or min(epsilon_nano, default=1) < 1:
            raise ValueError("each word needs a positive epsilon")
        codes = self.vocabulary.rows(words)
        alike: dict[tuple[bytes, int], list[int]] = {}
        for place, epsilon in enumerate(epsilon_nano):
            alike.setdefault((codes[place].tobytes(), epsilon), []).append(place)
        groups = list(alike.values())
        chosen = np.empty(len(words), dtype=np.int64)
        for start in range(0, len(groups), ROWS_AT_ONCE):
            part = groups[start : start + ROWS_AT_ONCE]
            squares = self.vocabulary.squared_distances(codes[[places[0] for places in part]])
            for places, own in zip(part, squares, strict=True):
                chosen[places] = select(
                    own, epsilon_nano=epsilon_nano[places[0]], scale=self.vocabulary.scale, count=len(places)
                )
        return [self.vocabulary.words[index] for index in chosen.tolist()]


def select(squares: Rows, *, epsilon_nano: int, scale: int, count: int) -> IntArray:
    """Return `count` independent indices j with P(j) proportional to exp(-eps sqrt(squares_j) / (2 scale)), exactly.

    Shapes: `squares` float32 `[n]`, integers in 0..4 scale^2; the result is int64 `[count]`. Units: epsilon in nano.
    """
    rate = float(epsilon_nano) / float(2 * scale * NANO)
    distances = np.sqrt(squares.astype(np.float64))
    sums = np.cumsum(np.exp(-rate * (distances - distances.min())))
    uniforms = np.frombuffer(os.urandom(_BITS // 8 * count), dtype=np.uint64)
    points = uniforms * (2.0**-_BITS * sums[-1])
    chosen: IntArray = np.searchsorted(sums, points, side="right")
    margin = sums[-1] * _relative_error(len(sums), epsilon_nano / NANO)
    inside = np.minimum(chosen, len(sums) - 1)
    starts = np.where(inside > 0, sums[inside - 1], 0.0)
    decided = (points - margin >= starts) & (points + margin <= sums[inside])
    for i in np.flatnonzero(~decided):
        chosen[i] = _selected_exactly(int(uniforms[i]), squares, epsilon_nano=epsilon_nano, scale=scale)
    return chosen


def _relative_error(count: int, epsilon: float) -> float:
    return 2.0**-38 + epsilon * 2.0**-48 + count * 2.0**-51


def _selected_exactly(word: int, squares: Rows, *, epsilon_nano: int, scale: int) -> int:
    """Return the index in whose share U lies, where `word` holds the first 64 bits of the uniform U.

    Raises RuntimeError after 2^16 bits, which has probability 2^-60000 unless the generator is broken.
    """
    bits, uniform = _BITS, word
    while bits < _EXACT_BITS_MAX:
        uniform = (uniform << bits) | int.from_bytes(os.urandom(bits // 8), "little")
        bits *= 2
        sums = _integer_sums(squares, epsilon_nano=epsilon_nano, scale=scale, bits=bits + _BITS)
        error, total = 2 * len(sums), sums[-1]  # the error of each weight is below 2
        index = bisect_right(sums, uniform * total >> bits)
        if index == len(sums):
            continue
        start = sums[index - 1] if index else 0
        after_start = (start + error) << bits <= uniform * (total - error)
        before_end = (uniform + 1) * (total + error) <= (sums[index] - error) << bits
        if after_start and before_end:
            return index
    raise RuntimeError("the random generator of the operating system returned a degenerate stream")


def _integer_sums(squares: Rows, *, epsilon_nano: int, scale: int, bits: int) -> list[int]:
    """Return running sums of floor(2^bits weight), where the largest weight is 1. The error of each weight is below 2.

    With P digits, the errors of sqrt, difference, product, quotient and exp are half a unit of the last digit each. x
    is at most 4e6, so its error is below 10^(9-P). P has ten digits more than 2^bits.
    """
    digits = bits * 302 // 1000 + 20
    exact = Context(prec=digits, Emin=-999999999999999999, Emax=999999999999999999)
    least = exact.sqrt(Decimal(int(squares.min())))
    unit = Decimal(1 << bits)
    distinct, places = np.unique(squares, return_inverse=True)
    weights = []
    for square in distinct.tolist():
        beyond = exact.subtract(least, exact.sqrt(Decimal(int(square))))
        power = exact.divide(exact.multiply(beyond, epsilon_nano), 2 * scale * NANO)
        weights.append(int(exact.multiply(exact.exp(power), unit)))
    return list(accumulate(weights[place] for place in places.tolist()))
