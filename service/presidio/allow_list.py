"""Finds that a request of `POST /analyze` allows: equal to a term, or with a match of a pattern in them.

Patterns are compiled and searched in a process apart (`service.isolation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InvalidInput
from core.text.own_recognisers.definition import Limits
from core.text.own_recognisers.patterns import Encoded, PatternFinder, SearchBudget
from service.presidio.ad_hoc import FLAGS_DEFAULT, case_sensitive
from service.presidio.schemas import AnalyzeRequest


@dataclass(frozen=True)
class AllowList:
    """`terms`, or `patterns` that are no terms."""

    terms: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    cased: bool = False

    def __bool__(self) -> bool:
        return bool(self.terms or self.patterns)


def allow_list_of(body: AnalyzeRequest, limits: Limits) -> AllowList:
    """The list of a request, whose patterns have not been compiled. Raises InvalidInput for too many patterns."""
    terms = [term for term in body.allow_list or () if term]
    if body.allow_list_match != "regex":
        return AllowList(frozenset(terms))
    if len(terms) > limits.patterns_max or any(len(term) > limits.pattern_chars_max for term in terms):
        raise InvalidInput(
            f"An allow list has at most {limits.patterns_max} patterns of {limits.pattern_chars_max} characters.",
            field="allow_list",
        )
    cased = case_sensitive(FLAGS_DEFAULT if body.regex_flags is None else body.regex_flags, field="regex_flags")
    return AllowList(patterns=tuple(terms), cased=cased)


def check_patterns(allowed: AllowList, limits: Limits) -> None:
    """Raise InvalidInput for a pattern that RE2 cannot compile."""
    _matcher(allowed, limits)


def without_allowed(
    texts: Sequence[str], found: Sequence[Sequence[dict[str, Any]]], allowed: AllowList, limits: Limits
) -> list[list[dict[str, Any]]]:
    """The finds of each text that the list does not allow. Raises InvalidInput for patterns that take too long."""
    pattern = _matcher(allowed, limits) if allowed.patterns else None
    budget = SearchBudget("allow_list")

    def admits(find: str) -> bool:
        if pattern is None:
            return find in allowed.terms
        budget.next_recogniser()
        return next(pattern.spans(Encoded(find), budget), None) is not None

    return [
        [each for each in own_finds if not admits(text[each["start"] : each["end"]])]
        for text, own_finds in zip(texts, found, strict=True)
    ]


def _matcher(allowed: AllowList, limits: Limits) -> PatternFinder:
    def finder(pattern: str, field: str) -> PatternFinder:
        return PatternFinder(
            pattern,
            field=field,
            case_sensitive=allowed.cased,
            whole_words=False,
            program_bytes_max=limits.program_bytes_max,
        )

    for number, pattern in enumerate(allowed.patterns):
        finder(pattern, f"allow_list.{number}")
    return finder("|".join(f"(?:{pattern})" for pattern in allowed.patterns), "allow_list")
