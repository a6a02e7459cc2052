"""The interface of an entity recogniser, and a regular-expression recogniser that fails closed.

A recogniser has a name, a scan and context words. `hits` returns every hit with its score after context. It either
examines the whole text or raises. Presidio's own loops skip a pattern whose match times out, and its engine ignores
a recogniser that raises. Both would treat unexamined text as clean, so this project has its own loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

REGEX_TIMEOUT_S = 10.0  # for each pattern and text; a normal pattern needs 0.05 s per MB
CONTEXT_BEFORE_CHARS = 60
CONTEXT_AFTER_CHARS = 25
CONTEXT_BONUS = 0.35
CONTEXT_SCORE_MIN = 0.4
BOUNDARY = "\ufdd0"  # no character of a text: what is beyond it is no context

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


class Hit(NamedTuple):
    start: int
    end: int
    score: float


class Hits(NamedTuple):
    """The hits of one recogniser: those that reach the threshold, and the others."""

    passed: Sequence[Hit]
    weak: Sequence[Hit]

    def masked(self, text: str) -> list[Hit]:
        """Return the hits to mask in `text`, in order of position.

        If a string passes once, all its occurrences pass: an occurrence without a context word would otherwise reveal
        what the first mask hides.
        """
        known = {text[hit.start : hit.end]: hit.score for hit in self.passed}
        repeats = [
            Hit(start, end, known[string])
            for start, end, _ in self.weak
            if known and (string := text[start:end]) in known
        ]
        return sorted({*self.passed, *repeats})


class Pattern(NamedTuple):
    regex: regex.Pattern[str]
    score: float


def matches(pattern: regex.Pattern[str], text: str) -> Iterator[regex.Match[str]]:
    """Yield non-overlapping matches. Raises TimeoutError after `REGEX_TIMEOUT_S`."""
    yield from pattern.finditer(text, timeout=REGEX_TIMEOUT_S)


Scan = Callable[[str], Iterator[Hit]]


@dataclass(frozen=True)
class Recogniser:
    """`digits_min`: a text with fewer decimal digits cannot contain a hit, so the scan is skipped."""

    entity: str
    scan: Scan
    context: regex.Pattern[str] | None = None
    digits_min: int = 0

    def hits(self, text: str, *, threshold: float, digits: int) -> Hits:
        """Return all hits with their scores after context. `digits`: the number of decimal digits of `text`.

        A hit without a letter or digit identifies nobody and is dropped (`::` is a valid IPv6 address).
        """
        passed: list[Hit] = []
        weak: list[Hit] = []
        if digits >= self.digits_min:
            for hit in self.scan(text):
                if _LETTER_OR_DIGIT.search(text, hit.start, hit.end) is None:
                    continue
                if hit.score < threshold:
                    hit = self._with_context(text, hit)
                (passed if hit.score >= threshold else weak).append(hit)
        return Hits(passed, weak)

    def _with_context(self, text: str, hit: Hit) -> Hit:
        if self.context is None:
            return hit
        start, end, score = hit
        before = text[max(0, start - CONTEXT_BEFORE_CHARS) : start].rpartition(BOUNDARY)[2]
        after = text[end : end + CONTEXT_AFTER_CHARS].partition(BOUNDARY)[0]
        around = before + "\n" + after
        if self.context.search(around, timeout=REGEX_TIMEOUT_S) is None:
            return hit
        return Hit(start, end, min(1.0, max(score + CONTEXT_BONUS, CONTEXT_SCORE_MIN)))


def context_of(words: Sequence[str]) -> regex.Pattern[str] | None:
    """Return a pattern for any of the words: whole words in any case, with an optional plural `s`."""
    if not words:
        return None
    body = "|".join(regex.escape(word.strip()) for word in sorted(words, key=len, reverse=True))
    return regex.compile(rf"(?<!\w)(?:{body})s?(?!\w)", regex.IGNORECASE)


def pattern_scan(
    patterns: Sequence[Pattern],
    validate: Callable[[str], bool | None] | None = None,
    invalidate: Callable[[str], bool | None] | None = None,
    *,
    valid_score: float = 1.0,
) -> Scan:
    """Return a scan with Presidio's scoring: a valid checksum gives `valid_score`, an invalid one drops the match, and
    without a verdict the pattern's own score stays."""

    def scan(text: str) -> Iterator[Hit]:
        for pattern, base in patterns:
            for match in matches(pattern, text):
                found = match.group()
                if not found:
                    continue
                score = base
                verdict = validate(found) if validate else None
                if verdict is False or (invalidate and invalidate(found)):
                    continue
                if verdict:
                    score = max(base, valid_score)
                yield Hit(match.start(), match.end(), score)

    return scan
