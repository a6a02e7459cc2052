"""The masked strings of one document, for testing whether a candidate repeats one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set as AbstractSet

LEAK_CHARS_MIN = 4
WINDOW_CHARS = 64  # a longer string is looked for by its first characters, so that a test is linear in the candidate

DIGITS_FORM_CHARS_MAX = 16  # no document has a quarter of the numbers of a longer form

_DIGIT = re.compile(r"\d")


class Originals:
    """It lives for one call. `strings`: all masked strings, casefolded."""

    def __init__(self, strings: AbstractSet[str]) -> None:
        self._strings = strings
        sizes = {len(each) for each in strings}
        self._lengths = sorted(size for size in sizes if LEAK_CHARS_MIN <= size <= WINDOW_CHARS)
        self._long: dict[str, list[str]] = {}
        for each in strings:
            if len(each) > WINDOW_CHARS:
                self._long.setdefault(each[:WINDOW_CHARS], []).append(each)
        self._forms = Counter(form for each in strings if (form := _form_of_digits(each)))

    def uses_up(self, original: str) -> bool:
        """Whether a quarter of all numbers of the form of `original` are masked strings, so that half of them are taken
        once each has a surrogate of that form. Not for an original with letters, of which there are many."""
        form = _form_of_digits(original)
        return bool(form) and 4 * self._forms[form] > 10 ** form.count("0")

    def equal_to(self, candidate: str) -> bool:
        """Whether the candidate is a masked string."""
        return candidate.casefold() in self._strings

    def repeated_by(self, candidate: str) -> bool:
        """Whether the candidate is a masked string, or contains one of `LEAK_CHARS_MIN` characters or more."""
        folded = candidate.casefold()
        if folded in self._strings:
            return True
        for length in self._lengths:
            if length > len(folded):
                return False
            for start in range(len(folded) - length + 1):
                if folded[start : start + length] in self._strings:
                    return True
        return bool(self._long) and any(
            folded.startswith(each, start)
            for start in range(len(folded) - WINDOW_CHARS)
            for each in self._long.get(folded[start : start + WINDOW_CHARS], ())
        )


def _form_of_digits(string: str) -> str:
    """Return a short string with each digit as 0; empty for a longer one, and for one with letters or no digit."""
    if len(string) > DIGITS_FORM_CHARS_MAX or not any(map(str.isdecimal, string)):
        return ""
    return "" if any(map(str.isalpha, string)) else _DIGIT.sub("0", string)
