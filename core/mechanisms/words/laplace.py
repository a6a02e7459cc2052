"""Word-level metric DP by noise: every word becomes the public word nearest to its noisy vector.

Guarantee: for each word separately, Pr[A(w) in S] <= e^(eps |v(w) - v(w')|) Pr[A(w') in S] for any two strings w, w'
and every set S of words, v their public vectors (`vocabulary`): eps per unit of Euclidean distance. All vectors lie in
the unit ball, so their distance is at most 2, and it is pure 2 eps-DP for replacing a word by any other. Each word
has its own noise: replacing one word of a text changes one draw, and a text costs eps whatever its length. The number
of words is public.

Proof: the vector is released by `laplace` of `core.mechanisms.vectors`, from v(w) in float64. The distance of two
different vectors is at least 1/130, far above that mechanism's floor. The steps after it depend only on that release
and the public vocabulary. The output may equal the input word, and this must be possible: a decoder that excluded the
input word, or passed an unknown word through, would reveal it. A word outside the vocabulary is never an output.

`exponential` has the same guarantee and changes the text far less. This module implements the paper's form.

Source: Feyisetan, Balle, Drake and Diethe 2020, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

import numpy as np

from core.amounts import NANO
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.spec import vector_spec
from core.mechanisms.words.vocabulary import WordVectors

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
