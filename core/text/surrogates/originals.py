"""The masked strings of one document, for testing whether a candidate repeats one."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

LEAK_CHARS_MIN = 4
WINDOW_CHARS = 64  # a longer string is looked for by its first characters, so that a test is linear in the candidate


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
