"""What a fill needs of a language model: one small protocol, whatever the model is.

A masked language model answers both questions; a model that only writes text (a causal one, an endpoint) answers
`ranked` and has no `candidates`, so that the fill `dp` is refused. Nothing here imports a model.
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

CONTEXT_CHARS = 1_200  # on either side of a blank: more than a window of the models here holds


@dataclass(frozen=True)
class Blank:
    """One place to fill, and what may be read around it: `CONTEXT_CHARS` characters on either side at most.

    `before`: the text to its left, words that were filled in already included. `after`: the text to its right, cut at
    each place that is still to be filled. `number`: whether the mask says that a number stood there.
    """

    before: str = field(repr=False)
    after: tuple[str, ...] = field(repr=False)
    number: bool = False


class Candidates:
    """The fixed public list that the fill `dp` draws from. `fingerprint` tells one list from another.

    Raises: ValueError for fewer than two words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        if len(words) < 2:
            raise ValueError("at least two candidates")
        self.words = tuple(words)
        # the first of two that are spelt alike
        self._places = {word: place for place, word in reversed(list(enumerate(self.words)))}

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the words in order, a line each."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def place(self, original: str) -> int | None:
        """Where the word stands in the list, as it is written or in lower case."""
        return self._places.get(original, self._places.get(original.lower()))


class InfillModel(Protocol):
    """Batches are the caller's: many blanks, of many documents and tenants, come in one call.

    A blank's answer depends on that blank alone, up to rounding. Whatever goes wrong is raised; nothing is made up.
    """

    @property
    def name(self) -> str: ...

    @property
    def candidates(self) -> Candidates | None:
        """What `logits` speaks of; None where the model has none."""
        ...

    @property
    def considered(self) -> int:
        """How many words `ranked` gives for hardly more than the price of one."""
        ...

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """For each blank 1 to `count` single words, the best first; numbers for a blank of a number, as far as the
        model can spell any."""
        ...

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        """A finite number for each blank and candidate, float32 `[blanks, candidates]`; the largest is best. Whether a
        blank is one of a number does not matter.

        Raises: RuntimeError where there are no candidates.
        """
        ...
