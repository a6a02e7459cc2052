"""The protocol between fills and language models.

A masked language model implements both methods. A generative model (a causal one, an endpoint) implements only `ranked`
and has no `candidates`, so the fill `dp` rejects it. This module imports no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

CONTEXT_CHARS = 1_200  # on either side of a blank: more than the window of the supported models


@dataclass(frozen=True)
class Blank:
    """One place to fill, and the text around it: at most `CONTEXT_CHARS` characters on either side.

    `before`: the text to its left, including words that were filled in already. `after`: the text to its right, split
    at each place that is still to be filled. `number`: whether the mask says that the original is a number.
    """

    before: str = field(repr=False)
    after: tuple[str, ...] = field(repr=False)
    number: bool = False


class Candidates:
    """The fixed public list from which the fill `dp` draws. `fingerprint` identifies a list.

    Raises: ValueError for fewer than two words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        if len(words) < 2:
            raise ValueError("at least two candidates")
        self.words = tuple(words)
        # of two equal spellings, the first
        self._places = {word: place for place, word in reversed(list(enumerate(self.words)))}

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the words in order, one line each."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def place(self, original: str) -> int | None:
        """Return the index of the word in the list, as it is written or in lower case."""
        return self._places.get(original, self._places.get(original.lower()))


class InfillModel(Protocol):
    """A language model for fills. The caller forms batches: one call may contain blanks of many documents and tenants.

    The result for a blank depends on that blank alone, up to rounding. Every failure is raised.
    """

    @property
    def name(self) -> str: ...

    @property
    def candidates(self) -> Candidates | None:
        """The candidates to which `logits` refers; None if the model has none."""
        ...

    @property
    def considered(self) -> int:
        """How many words `ranked` can return at little more than the cost of one."""
        ...

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """Return for each blank 1 to `count` single words, the best first. A blank for a number gets numbers, as far as
        the model can produce them."""
        ...

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        """Return a finite number for each blank and candidate, float32 `[blanks, candidates]`; the largest is best.

        `Blank.number` has no effect. Raises: RuntimeError if there are no candidates.
        """
        ...
