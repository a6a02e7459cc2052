"""Parts of a text around literals, so that slow patterns examine little of an ordinary text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S

Span = tuple[int, int]


def lower(text: str) -> str:
    """Return `text` in lower case, with the same number of characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def around(text: str, literals: Iterable[str], *, before: int, after: int) -> list[Span]:
    """Return disjoint parts of `text`, in order: every literal with `before` and `after` characters beside it.

    Time: linear in the text for each literal.
    """
    found = []
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            found.append((max(0, at - before), min(len(text), at + len(literal) + after)))
            at = text.find(literal, at + 1)
    return merged(found)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the union of `spans` as disjoint ones, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def matches_in(pattern: regex.Pattern[str], text: str, spans: Iterable[Span]) -> Iterator[regex.Match[str]]:
    """Yield the matches of `pattern` inside `spans`. A match sees the characters before its span, and none after it.

    Raises TimeoutError.
    """
    for start, end in spans:
        yield from pattern.finditer(text, start, end, timeout=REGEX_TIMEOUT_S)
