"""A masked language model as `core.text.model_fills.InfillModel`.

A blank is read in a window of pieces around it, with as many pieces to its left as to its right if the text has them.
Blanks that are not filled yet are the model's mask piece. Candidates: every piece of the vocabulary that is a whole
word of letters (`MaskedLM.words`), in the order of its number. A blank of a number is filled with a piece of digits
(`MaskedLM.numbers`), or with a word if the vocabulary has no such piece.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.text.model_fills import Blank, Candidates, FloatArray
from gpu_workers.models.infill import MaskedLM, Question
from gpu_workers.models.pieces import IntArray

WINDOW_PIECES = 48  # around a blank: the time grows with it, and more pieces improve little (benchmarks.infill)


class MaskedInfill:
    """Raises ValueError for a vocabulary without words."""

    considered = 1_000

    def __init__(self, model: MaskedLM) -> None:
        self._model = model
        self.name = model.name
        words, numbers = dict(sorted(model.words.items())), dict(sorted(model.numbers.items()))
        self.candidates = Candidates(tuple(words.values()))
        self._ids = np.array(list(words), dtype=np.int64)
        self._with_numbers = np.array([*words, *numbers], dtype=np.int64)
        self._spelt = (*words.values(), *numbers.values())
        self._window = min(model.window, WINDOW_PIECES)

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        words, spelt = len(self.candidates), self._spelt
        answers = []
        for row, blank in zip(self._rows(blanks, self._with_numbers), blanks, strict=True):
            first, end = (words, len(spelt)) if blank.number and len(spelt) > words else (0, words)
            answers.append([spelt[first + place] for place in _best(row[first:end], count)])
        return answers

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        return self._rows(blanks, self._ids)

    def _rows(self, blanks: Sequence[Blank], ids: IntArray) -> FloatArray:
        if not blanks:
            return np.zeros((0, len(ids)), dtype=np.float32)
        return np.concatenate(self._model.logits(self._questions(blanks), ids))

    def _questions(self, blanks: Sequence[Blank]) -> list[Question]:
        # A vocabulary that marks the beginnings of words counts the space before a word as part of the word.
        parts = [part.rstrip(" ") for blank in blanks for part in (blank.before, *blank.after)]
        pieces = iter(self._model.ids(parts))
        questions = []
        for blank in blanks:
            before = next(pieces)
            after: list[IntArray] = []
            for number in range(len(blank.after)):
                after += [self._mask] * (number > 0) + [next(pieces)]
            questions.append(self._question(before, np.concatenate([*after, np.zeros(0, dtype=np.int64)])))
        return questions

    @property
    def _mask(self) -> IntArray:
        return np.array([self._model.mask], dtype=np.int64)

    def _question(self, before: IntArray, after: IntArray) -> Question:
        available = self._window - 1
        left = min(len(before), max(available // 2, available - len(after)))
        right = min(len(after), available - left)
        ids = np.concatenate([before[len(before) - left :], self._mask, after[:right]])
        return Question(ids, np.array([left], dtype=np.int64))


def _best(row: FloatArray, count: int) -> IntArray:
    """Return the indices of the `count` largest values, the largest first."""
    count = min(count, len(row))
    own = np.argpartition(-row, count - 1)[:count]
    placed: IntArray = own[np.argsort(-row[own], kind="stable")]
    return placed
