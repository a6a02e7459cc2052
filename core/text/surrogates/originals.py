"""The masked strings of one document, for testing whether a candidate repeats one."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

LEAK_CHARS_MIN = 4


class Originals:
    """It lives for one call. `strings`: all masked strings, casefolded."""

    def __init__(self, strings: AbstractSet[str]) -> None:
        self._strings = strings
        self._lengths = sorted({len(each) for each in strings if len(each) >= LEAK_CHARS_MIN})

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
        return False
