"""Word-level metric DP by selection: a public word, with a probability that decreases with its distance.

Guarantee: for each word separately, Pr[A(w) = y] <= e^(eps |v(w) - v(w')|) Pr[A(w') = y] for any two strings w, w' and
every word y, v their public vectors (`vocabulary`): eps per unit of Euclidean distance, for every pair and without
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

import os
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import accumulate

import numpy as np

from core.amounts import NANO
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.words.vocabulary import ROWS_AT_ONCE, Rows, WordVectors

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
