"""Windows of a long text, in which recognisers run separately.

A text is cut into cores of at most `WINDOW_CHARS` characters, after a white space character where there is one among
the last `OVERLAP_CHARS` of a core. A window is a core with `OVERLAP_CHARS` more characters on each side, so that a
recogniser sees what is near. A text of at most `WINDOW_CHARS` characters is one window.

A find counts if it touches the core of its window (`place`). Hence, for a recogniser whose finds depend on at most
`OVERLAP_CHARS` characters on each side of a character that they cover:

* nothing is lost. Each character of a find lies in some core, and the window of that core shows the recogniser
  everything that the find depends on;
* nothing is added, because a find that touches a core depends on the text of its window alone.

A find without white space may be of any length: where one reaches the edge of a window, `place` extends it to the next
white space. What remains is a find that contains white space and is longer than the overlap. Windows may find it in
part.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

WINDOW_CHARS = 16_000
OVERLAP_CHARS = 1_000

_SPACE = re.compile(r"\s")


class Window(NamedTuple):
    """Characters `start:end` of a text, which are read together. The cores `core_start:core_end` of all windows follow
    one another and cover the text."""

    start: int
    end: int
    core_start: int
    core_end: int


def windows(text: str) -> list[Window]:
    """Return the windows of `text` in order, at least one."""
    cuts = [0]
    while len(text) - cuts[-1] > WINDOW_CHARS:
        cuts.append(_cut(text, cuts[-1] + WINDOW_CHARS))
    cuts.append(len(text))
    return [
        Window(max(0, start - OVERLAP_CHARS), min(len(text), end + OVERLAP_CHARS), start, end)
        for start, end in pairwise(cuts)
    ]


def place(text: str, window: Window, start: int, end: int) -> tuple[int, int] | None:
    """Return the characters of `text` that a find at `start:end` of a window covers, or None if it touches no character
    of the window's core. A find that reaches an edge of the window extends to the next white space of `text`."""
    start, end = start + window.start, end + window.start
    if end <= window.core_start or start >= window.core_end:
        return None
    if window.end < len(text) and not _separates(text, end, window.end):
        beyond = _SPACE.search(text, window.end)
        end = beyond.start() if beyond else len(text)
    if window.start > 0 and not _separates(text, window.start, start):
        start = window.start
        while start > 0 and not text[start - 1].isspace():
            start -= 1
    return start, end


def _cut(text: str, latest: int) -> int:
    """Return the end of a core: after the last white space in reach, else `latest`."""
    for end in range(latest, latest - OVERLAP_CHARS, -1):
        if text[end - 1].isspace():
            return end
    return latest


def _separates(text: str, start: int, end: int) -> bool:
    """Whether the characters show that a find before or after them was not cut off: recognisers trim punctuation, but
    no letters, digits or white space."""
    return any(text[at].isalnum() or text[at].isspace() for at in range(start, end))
