"""Finds that a request of `POST /analyze` allows: equal to a term, or with a match of a pattern in them."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InvalidInput
from core.text.own_recognisers.definition import Limits
from core.text.own_recognisers.patterns import Encoded, PatternFinder, SearchBudget
from service.presidio.ad_hoc import FLAGS_DEFAULT, case_sensitive
from service.presidio.schemas import AnalyzeRequest


@dataclass(frozen=True)
class AllowList:
    terms: frozenset[str] = frozenset()
    pattern: PatternFinder | None = None

    def admits(self, find: str, budget: SearchBudget) -> bool:
        """Raises InvalidInput once `budget`, that of the request, is used up."""
        if self.pattern is None:
            return find in self.terms
        budget.next_recogniser()
        return next(self.pattern.spans(Encoded(find), budget), None) is not None


def allow_list_of(body: AnalyzeRequest, limits: Limits) -> AllowList:
    """Raises InvalidInput for a pattern that RE2 cannot compile, and for too many."""
    terms = [term for term in body.allow_list or () if term]
    if body.allow_list_match != "regex":
        return AllowList(frozenset(terms))
    if len(terms) > limits.patterns_max or any(len(term) > limits.pattern_chars_max for term in terms):
        raise InvalidInput(
            f"An allow list has at most {limits.patterns_max} patterns of {limits.pattern_chars_max} characters.",
            field="allow_list",
        )
    cased = case_sensitive(FLAGS_DEFAULT if body.regex_flags is None else body.regex_flags, field="regex_flags")

    def finder(pattern: str, field: str) -> PatternFinder:
        return PatternFinder(
            pattern,
            field=field,
            case_sensitive=cased,
            whole_words=False,
            program_bytes_max=limits.program_bytes_max,
        )

    for number, term in enumerate(terms):
        finder(term, f"allow_list.{number}")
    return AllowList(pattern=finder("|".join(f"(?:{term})" for term in terms), "allow_list") if terms else None)
