"""Word-level metric DP by noise: every word becomes the public word nearest to its noisy vector.

Guarantee: for each word by itself, Pr[A(w) in S] <= e^(eps |v(w) - v(w')|) Pr[A(w') in S] for any two strings w, w' and
every set S of words, v their public vectors (`word_vectors`): eps per unit of Euclidean distance. All vectors lie in
the unit ball, so no two are further apart than 2, and it is pure 2 eps-DP for replacing a word by any other. Each word
has noise of its own: replacing one word of a text changes one draw, and a text costs eps however long it is. How many
words there are is public.

Why: the vector is released by `laplace` of `core.mechanisms.vectors`, from v(w) in float64: two different vectors are
1/130 apart at least, far beyond that mechanism's floor. What follows sees that release and the public vocabulary alone.
A word may come out as itself, and must be free to: a decoder that looked at the word, to leave it out or to let an
unknown one pass, would tell what it was. A word outside the vocabulary can never come out.

The same promise is kept with far less harm by `word_selection`; this is the paper's form.

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

NOISE_DIMENSION = 24  # of the shipped vectors' first dimensions: noise grows with each


class WordMechanism(Protocol):
    """Replaces words by words of a public vocabulary."""

    def release(self, words: Sequence[str], epsilon_nano: Sequence[int]) -> list[str]: ...


class LaplaceWords:
    """See the module docstring. Holds no private state: one object serves any number of calls."""

    def __init__(self, vocabulary: WordVectors) -> None:
        self.vocabulary = vocabulary

    def release(self, words: Sequence[str], epsilon_nano: Sequence[int]) -> list[str]:
        """A word of the vocabulary for each of `words`, which may be any strings, at an epsilon of its own.

        Units: epsilon in nano, per unit of Euclidean distance. Raises: ValueError where there are not as many epsilons
        as words, InvalidInput for one outside (0, EPSILON_MAX / 2].
        """
        if len(words) != len(epsilon_nano):
            raise ValueError("each word has an epsilon")
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
