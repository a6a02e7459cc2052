"""An estimate of the word pieces of a text, which are the unit of a language model's work.

A vocabulary of word pieces has most short English words as one piece. It spells rare words in several pieces, and
punctuation and the characters of other scripts mostly one by one. The estimate needs no vocabulary: a run of at most
six ASCII letters and digits counts 1, and three more of them 1 each time. Every other character that is not ASCII white
space counts 1.
"""

from __future__ import annotations

import string

import numpy as np
import numpy.typing as npt

_FIRST_CHARS = 6  # of a run of letters and digits, which are one piece
_FURTHER_CHARS = 3  # of the same run, for one more piece

_WORD = np.zeros(256, dtype=bool)
_WORD[list(map(ord, string.ascii_letters + string.digits))] = True
_SPACE = np.zeros(256, dtype=bool)
_SPACE[list(map(ord, string.whitespace))] = True


def cumulative_pieces(text: str) -> npt.NDArray[np.float64]:
    """Return the estimated number of pieces of `text[:n]` for each n from 0 to the length of the text."""
    codes = np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8)
    word = _WORD[codes]
    begins, further = word.copy(), word.copy()
    begins[1:] &= ~word[:-1]
    further[:_FIRST_CHARS] = False
    for back in range(1, _FIRST_CHARS + 1):
        further[back:] &= word[:-back]
    thirds = _FURTHER_CHARS * (begins | ~(word | _SPACE[codes])) + further
    return np.concatenate(([0], np.cumsum(thirds))) / _FURTHER_CHARS


def estimated_pieces(text: str) -> int:
    """Return the estimated number of pieces of `text`, rounded up."""
    return int(np.ceil(cumulative_pieces(text)[-1]))
