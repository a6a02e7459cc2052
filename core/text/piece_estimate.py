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

_SPACE, _OTHER, _LETTER = 0, 1, 2
_KINDS = bytes(
    _LETTER if char in string.ascii_letters + string.digits else _SPACE if char in string.whitespace else _OTHER
    for char in map(chr, range(256))
)


def cumulative_pieces(text: str) -> npt.NDArray[np.float64]:
    """Return the estimated number of pieces of `text[:n]` for each n from 0 to the length of the text."""
    return np.concatenate(([0], np.cumsum(_thirds(text), dtype=np.int32))) / _FURTHER_CHARS


def estimated_pieces(text: str) -> int:
    """Return the estimated number of pieces of `text`, rounded up."""
    return -(-int(_thirds(text).sum(dtype=np.int64)) // _FURTHER_CHARS)


def _thirds(text: str) -> npt.NDArray[np.uint8]:
    """Return the thirds of a piece that each character counts."""
    kinds = np.frombuffer(text.encode("ascii", "replace").translate(_KINDS), dtype=np.uint8)
    word = kinds == _LETTER
    begins, further = word.copy(), word.copy()
    begins[1:] &= ~word[:-1]
    further[:_FIRST_CHARS] = False
    for back in range(1, _FIRST_CHARS + 1):
        further[back:] &= word[:-back]
    whole = (begins | (kinds == _OTHER)).view(np.uint8)
    thirds: npt.NDArray[np.uint8] = _FURTHER_CHARS * whole + further.view(np.uint8)
    return thirds
