"""Patterns in the syntax of RE2, whose search takes time linear in the text for every pattern.

To find all matches is not linear: a search may have to read the rest of the text before it ends a match of a few
characters, as `-(?s:.*x)?` does, and the next search reads it again. A `SearchBudget` therefore limits both the matches
and the time of a processor. A text that exceeds either is refused, so that it never counts as searched.

`^` and `$` match at the beginning and end of a line. RE2 reads UTF-8 bytes; its places are converted to code points.

RE2's `\\b` knows ASCII letters alone. A pattern of whole words is therefore compiled with one character before and one
after it that is no letter, mark, digit or underscore, and the text has a line break at each end. A search goes on at
the character after a find, which may be the one before the next.
"""

import time
from bisect import bisect
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import re2

from core.errors import InvalidInput

FINDS_MAX = 10_000  # matches of the patterns of one recogniser, in one window
# For all recognisers in one window. 10,000 finds, or 1,000 patterns that find nothing, take about a fifth of it.
SEARCH_CPU_S_MAX = 0.25

_BESIDE = r"[^\pL\pM\pN_]"
# texts in which a pattern that can match nothing usually does
_PROBES = (b"", b"a", b"a a", b"1", b" ", b"\n", b"a1", b"-a-", b"A\nb")
_MISSING, _UNEXPECTED = "missing )", "unexpected )"
_REASONS = {
    _MISSING: "a closing parenthesis is missing",
    _UNEXPECTED: "a closing parenthesis has no opening one",
    "missing ]": "a closing bracket is missing",
    "missing argument to repetition operator": "a repetition has nothing to repeat",
    "no argument for repetition operator": "a repetition has nothing to repeat",
    "bad repetition operator": "two repetitions follow one another",
    "invalid repetition size": "a repetition is too large or out of order",
    "invalid character class range": "a character class is not known or out of order",
    "invalid character class": "a character class is not known",
    "invalid perl operator": "a group of this kind is not supported; RE2 has no lookaround",
    "invalid escape sequence": "an escape is not known; RE2 has no back references",
    "invalid named capture group": "the name of a group cannot be used",
    "trailing \\": "a backslash has nothing after it",
    "trailing \\ at end of expression": "a backslash has nothing after it",
    "invalid UTF-8": "a character cannot be encoded",
    "pattern too large - compile failed": "it needs too much memory",
    "expression nesting depth exceeded": "it is nested too deeply",
}


class EncodedText:
    """A text in UTF-8, between two line breaks, with the places of its code points."""

    def __init__(self, text: str) -> None:
        self._ascii = text.isascii()
        self.length = len(text)
        self.data = b"\n" + text.encode("utf-8", "surrogatepass") + b"\n"

    @cached_property
    def _before(self) -> npt.NDArray[np.int64]:
        """The number of code points before each byte, and before the end."""
        starts = (np.frombuffer(self.data, dtype=np.uint8) & 0xC0) != 0x80
        return np.concatenate(([0], np.cumsum(starts)))

    def place(self, byte: int) -> int:
        """Return the code point of the text that begins at this byte, or the nearest end of the text."""
        place = (byte if self._ascii else int(self._before[byte])) - 1
        return min(max(place, 0), self.length)

    def step(self, byte: int) -> int:
        """Return the byte after the code point that begins at `byte`."""
        byte += 1
        while byte < len(self.data) and self.data[byte] & 0xC0 == 0x80:
            byte += 1
        return byte

    def step_back(self, byte: int) -> int:
        """Return the first byte of the code point that ends at `byte`."""
        byte -= 1
        while self.data[byte] & 0xC0 == 0x80:
            byte -= 1
        return byte


class SearchBudget:
    """What the searches of patterns in one window may cost. Also matches that no find comes from count: those without a
    letter or digit, and empty ones. The time is that of a processor, of the calling thread."""

    def __init__(self, field: str = "mask.recognisers") -> None:
        self._field = field
        self._until = time.thread_time() + SEARCH_CPU_S_MAX
        self._matches = 0

    def next_recogniser(self) -> None:
        """Count the matches of another recogniser."""
        self._matches = 0

    def spend(self, matches: int) -> None:
        """Count a search that ended with so many matches. Raises InvalidInput if the budget is used up."""
        self._matches += matches
        if self._matches > FINDS_MAX:
            raise InvalidInput(
                f"A recogniser finds more than {FINDS_MAX} places in a part of a document.", field=self._field
            )
        if time.thread_time() > self._until:
            raise InvalidInput(
                "The patterns of the recognisers take too long for a part of a document. Let a pattern end its finds "
                "sooner: one that reads on behind each find, as with `.*`, reads the same text many times.",
                field=self._field,
            )


class PatternFinder:
    """One pattern. Raises InvalidInput, with the place of an error and nothing of the pattern, if RE2 cannot compile it
    in `program_bytes_max`, and for a pattern that matches the empty text."""

    def __init__(
        self, pattern: str, *, field: str, case_sensitive: bool, whole_words: bool, program_bytes_max: int
    ) -> None:
        self._whole_words = whole_words
        options = re2.Options()
        options.max_mem = program_bytes_max
        options.log_errors = False
        options.never_capture = True
        options.case_sensitive = case_sensitive
        try:
            alone = _compiled(f"(?m:{pattern})", pattern, options, field)
            if any(match.start() == match.end() for probe in _PROBES for match in alone.finditer(probe)):
                raise InvalidInput("A pattern must not match the empty text.", field=field)
            self._regex = (
                _compiled(f"(?m:{_BESIDE}(?:{pattern}){_BESIDE})", pattern, options, field) if whole_words else alone
            )
        finally:
            re2.purge()  # the library keeps the patterns that it has compiled, which may be sensitive

    @property
    def instructions(self) -> int:
        """The size of the compiled pattern, which bounds the time to compile it."""
        return int(self._regex.programsize)

    def spans(self, encoded: EncodedText, budget: SearchBudget) -> Iterator[tuple[int, int]]:
        """Yield the matches that do not overlap, from the left. An empty match is left out. Raises InvalidInput once
        `budget` is used up."""
        position = 0
        while True:
            match = self._regex.search(encoded.data, position)
            budget.spend(0 if match is None else 1)
            if match is None:
                return
            start, end = match.start(), match.end()
            if self._whole_words:
                start, end = encoded.step(start), encoded.step_back(end)
            if start < end:
                first, last = encoded.place(start), encoded.place(end)
                if first < last:
                    yield first, last
                position = end
            elif self._whole_words:
                position = start
            elif start == len(encoded.data):
                return
            else:
                position = encoded.step(start)


def _compiled(whole: str, pattern: str, options: re2.Options, field: str) -> re2._Regexp:
    """Compile `whole`, which contains `pattern`. A pattern must be valid by itself: within the parentheses of `whole`,
    another one could close what it has not opened."""
    if refusal := _error(pattern, options) or _error(whole, options):
        raise InvalidInput(_sentence(refusal, pattern, options), field=field)
    return re2.compile(_bytes(whole), options)


def _bytes(pattern: str) -> bytes:
    return pattern.encode("utf-8", "surrogatepass")


def _error(pattern: str, options: re2.Options) -> str:
    """Return RE2's message, a reason and a part of the pattern, or an empty string for a pattern that it compiles."""
    try:
        re2.compile(_bytes(pattern), options)
    except re2.error as error:
        return bytes(error.args[0]).decode(errors="replace")
    return ""


def _sentence(message: str, pattern: str, options: re2.Options) -> str:
    """Return what is wrong in the gateway's own words."""
    reason, _, part = message.partition(": ")
    if reason == _UNEXPECTED:
        # RE2 reads from the left, so this is the end of the shortest beginning with the same error
        place = bisect(range(len(pattern)), 0, key=lambda at: _error(pattern[: at + 1], options).startswith(reason))
    else:
        place = pattern.find(part) if part and reason != _MISSING else -1  # then the part is the whole pattern
    where = f" at character {place + 1}" if place >= 0 else ""
    return f"RE2 cannot compile this pattern{where}: {_REASONS.get(reason, 'it is not in the syntax of RE2')}."
