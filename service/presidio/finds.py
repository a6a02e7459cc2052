"""The finds of an answer to `POST /analyze`, from what workers found in its texts, without those that it allows.

A find is allowed if it is equal to a term of the request's list, or has a match of a pattern in it. Patterns are
compiled and searched in a process apart (`service.isolation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from core.errors import InvalidInput
from core.text.own_recognisers.definition import Limits
from core.text.own_recognisers.patterns import Encoded, PatternFinder, SearchBudget
from core.text.policy import Sanitised
from service.presidio.ad_hoc import FLAGS_DEFAULT, AdHoc, case_sensitive, explanation, shown_score
from service.presidio.schemas import AnalyzeRequest
from service.sanitize.rows import language_refused

Found = dict[str, Any]


def collected(
    texts: Sequence[str], read: Sequence[int], results: Sequence[Any], own: Sequence[AdHoc], *, explained: bool
) -> list[list[Found]]:
    """The finds of each text. `results`: of the documents, then of each own recogniser in each of the texts `read`."""
    found: list[list[Found]] = [[] for _ in texts]
    drafts = results[len(results) - len(own) * len(read) :]
    for number, result in zip(read, results[: len(results) - len(drafts)], strict=False):
        if result.refused:
            raise language_refused(field=f"text.{number}")
        found[number] += _shown(result, explained=explained)
    at = iter(drafts)
    for each in own:
        for number in read:
            found[number] += each.results(next(at), explained=explained)
    if own:
        found = [_without_contained(each) for each in found]
    return found


def _shown(result: Sanitised, *, explained: bool) -> Iterable[Found]:
    if result.origins is None:
        raise TypeError("the finds have no places")
    for span, origin in zip(result.spans, result.origins, strict=True):
        # a word that a list does not have has no recogniser, and no score
        score = shown_score(origin.score) if origin.recogniser else 1.0
        reasons = explanation(origin.recogniser or span.technique, score, before=score) if explained else None
        yield {
            "analysis_explanation": reasons,
            "end": origin.end,
            "entity_type": span.type,
            "score": score,
            "start": origin.start,
        }


def _without_contained(found: Iterable[Found]) -> list[Found]:
    """The finds that no other one of the same type contains with as high a score."""

    def order(each: Found) -> tuple[Any, ...]:
        return each["entity_type"], each["start"], -each["end"], -each["score"]

    kept: list[Found] = []
    for _, own in groupby(sorted(found, key=order), key=lambda each: each["entity_type"]):
        open_: list[Found] = []
        for each in own:
            open_ = [other for other in open_ if other["end"] > each["start"]]
            if not any(other["end"] >= each["end"] and other["score"] >= each["score"] for other in open_):
                open_.append(each)
                kept.append(each)
    return sorted(kept, key=lambda each: (each["start"], -each["end"]))


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
