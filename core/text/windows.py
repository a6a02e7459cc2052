"""Windows of a long text, in which recognisers run separately.

A text is cut into cores of at most `WINDOW_CHARS` characters and about `WINDOW_PIECES` word pieces, after a white space
character where there is one among the last `OVERLAP_CHARS` of a core. A window is a core with `OVERLAP_CHARS` more
characters on each side, so that a recogniser sees what is near. The number of word pieces is the work of a tagger.
Ordinary text has fewer of them than the limit; a text of single letters, punctuation or Chinese characters is cut into
smaller windows, each of which takes about as long.

A find counts if it touches the core of its window (`Extent.place`). Hence, for a recogniser whose finds depend on at
most `OVERLAP_CHARS` characters on each side of a character that they cover:

* nothing is lost. Each character of a find lies in some core, and the window of that core shows the recogniser
  everything that the find depends on;
* nothing is added, because a find that touches a core depends on the text of its window alone.

A tagger reads less of a window (`near_core`); the same holds for its finds with `CONTEXT_CHARS`. A find without white
space may be of any length: where one reaches the edge of a window, `Extent.place` extends it to the next white space.
What remains is a find that contains white space and is longer than the overlap. Windows may find it in part.

Cost: linear in the text, and constant for each find. Pieces are estimated without a vocabulary, since one of word
pieces has most short English words as one piece, spells rare words in several, and punctuation and the characters of
other scripts mostly one by one: a run of at most six ASCII letters and digits counts 1, and three more of them 1 each
time. Every other character that is not ASCII white space counts 1.
"""

import re
import string
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_FIRST_CHARS = 6  # of a run of letters and digits, which are one piece
_FURTHER_CHARS = 3  # of the same run, for one more piece

_BLANK, _OTHER, _LETTER = 0, 1, 2
_KINDS = bytes(
    _LETTER if char in string.ascii_letters + string.digits else _BLANK if char in string.whitespace else _OTHER
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


WINDOW_CHARS = 4_000
WINDOW_PIECES = 1_250
OVERLAP_CHARS = 1_000
# What a tagger reads on each side of a core: as much as a sentence. Its time decides that of a window.
CONTEXT_CHARS = 256

_SPACE = re.compile(r"\s")


class TextWindow(NamedTuple):
    """Characters `start:end` of a text, which are read together. The cores `core_start:core_end` of all windows follow
    one another and cover the text."""

    start: int
    end: int
    core_start: int
    core_end: int


class Extent(NamedTuple):
    """A window, and how far finds that reach its edges extend. All numbers are offsets in the text.

    A find that starts at `first` or before it starts at `before`. A find that ends after `last` ends at `after`.
    """

    window: TextWindow
    first: int
    last: int
    before: int
    after: int

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the characters of the text that a find at `start:end` of the window covers, or None if it touches no
        character of the window's core. A find that reaches an edge of the window extends to the next white space of the
        text."""
        window = self.window
        start, end = start + window.start, end + window.start
        if end <= window.core_start or start >= window.core_end:
            return None
        return self.before if start <= self.first else start, self.after if end > self.last else end


def windows(text: str) -> list[TextWindow]:
    """Return the windows of `text` in order, at least one."""
    cuts = [0]
    if len(text) > min(WINDOW_CHARS, WINDOW_PIECES):
        pieces = cumulative_pieces(text)
        while True:
            limit = pieces[cuts[-1]] + WINDOW_PIECES
            latest = min(cuts[-1] + WINDOW_CHARS, int(pieces.searchsorted(limit, side="right")) - 1)
            if latest >= len(text):
                break
            cuts.append(_cut(text, cuts[-1], max(latest, cuts[-1] + 1)))
    cuts.append(len(text))
    return [
        TextWindow(max(0, start - OVERLAP_CHARS), min(len(text), end + OVERLAP_CHARS), start, end)
        for start, end in pairwise(cuts)
    ]


def extents(text: str, cut: Sequence[TextWindow]) -> list[Extent]:
    """Return the extents of `cut`, all windows of `text`."""
    befores, afters = [0], [len(text)]
    for window, following in pairwise(cut):
        befores.append(_after_space(text, window.start, following.start, default=befores[-1]))
    for following, window in pairwise(reversed(cut)):
        space = _SPACE.search(text, window.end, following.end)
        afters.append(space.start() if space else afters[-1])
    return [
        Extent(window, _first_separator(text, window), _last_separator(text, window), before, after)
        for window, before, after in zip(cut, befores, reversed(afters), strict=True)
    ]


def near_core(window: TextWindow, text: str) -> tuple[int, int]:
    """Return the characters of a window's own `text` that a tagger reads: its core and at least `CONTEXT_CHARS` on each
    side, up to white space or the edge of the window. Hence no find without white space is cut off."""
    first = max(0, window.core_start - window.start - CONTEXT_CHARS)
    last = window.core_end - window.start + CONTEXT_CHARS
    space = _SPACE.search(text, last) if last < len(text) else None
    return _after_space(text, 0, first, default=0), space.start() if space else len(text)


def _cut(text: str, start: int, latest: int) -> int:
    """Return the end of a core: after the last white space in reach, else `latest`."""
    return _after_space(text, max(start, latest - OVERLAP_CHARS), latest, default=latest)


def _after_space(text: str, start: int, end: int, *, default: int) -> int:
    """Return the place after the last white space of `text[start:end]`."""
    part = text[start:end]
    if part[-1:].isspace():
        return end
    last = part.rsplit(None, 1)[-1] if part else ""
    return end - len(last) if len(last) < len(part) else default


def _first_separator(text: str, window: TextWindow) -> int:
    """Return the first character of a window that shows that a find after it was not cut off; -1 if the text begins
    there."""
    if window.start == 0:
        return -1
    return next((at for at in range(window.start, window.end) if _separates(text[at])), window.end)


def _last_separator(text: str, window: TextWindow) -> int:
    """Return the last character of a window that shows that a find before it was not cut off; the length of the text if
    the text ends there."""
    if window.end == len(text):
        return len(text)
    return next((at for at in range(window.end - 1, window.start - 1, -1) if _separates(text[at])), window.start - 1)


def _separates(character: str) -> bool:
    """Recognisers trim punctuation from a find, but no letters, digits or white space."""
    return character.isalnum() or character.isspace()
