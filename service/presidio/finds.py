"""The finds of an answer to `POST /analyze`, from what workers found in its texts, without those that it allows.

A find is allowed if it is equal to a term of the request's list, or has a match of a pattern in it. Patterns are
compiled and searched in a process apart (`service.isolation`).

Recognisers that come with a request become definitions of own recognisers. A definition has one score, so the patterns
of a recogniser are divided by their scores. Patterns are those of RE2: lookaround and back references are refused, and
`\\b` and `\\w` know ASCII letters alone.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from core.errors import InvalidInput
from core.text.own_recognisers.definition import Definition, RecogniserLimits
from core.text.own_recognisers.patterns import EncodedText, PatternFinder, SearchBudget
from core.text.own_recognisers.recogniser import DraftFinds, check
from core.text.policy import Sanitised
from service.presidio.schemas import AdHocRecogniser, AnalyzeRequest
from service.sanitize.rows import language_refused

_SCORE_DIGITS = 4


def shown_score(score: float) -> float:
    return round(score, _SCORE_DIGITS)


def explanation(
    recogniser: str, score: float, *, before: float, pattern_name: str | None = None, pattern: str | None = None
) -> dict[str, Any]:
    """`before`: the score without context words. The gateway names no context word and no validation."""
    return {
        "original_score": shown_score(before),
        "pattern": pattern,
        "pattern_name": pattern_name,
        "recognizer": recogniser,
        "regex_flags": None,
        "score": shown_score(score),
        "score_context_improvement": shown_score(score - before),
        "supportive_context_word": "",
        "textual_explanation": f"Detected by `{recogniser}`",
        "validation_result": None,
    }


FLAGS_DEFAULT = re.DOTALL | re.MULTILINE | re.IGNORECASE
_MULTILINE = re.MULTILINE  # always on: `^` and `$` match at the beginning and end of a line
ALWAYS_RAISED = 1.0  # a threshold that no pattern reaches, so that a context word nearby raises every score
FIELD = "ad_hoc_recognizers"


@dataclass(frozen=True)
class AdHoc:
    """A definition, and what answers tell of its finds. `patterns`: (name, expression, score) by their numbers.
    `instructions`: the most to which they compile."""

    definition: Definition
    recogniser: str
    patterns: Sequence[tuple[str, str, float]]
    deny_score: float
    packed: bytes = field(repr=False)
    instructions: int

    def results(self, found: DraftFinds, *, explained: bool) -> Iterator[dict[str, Any]]:
        """The finds as the analyzer shows them. Raises InvalidInput for more than one answer holds."""
        if found.total > len(found.finds):
            raise InvalidInput(f"A recogniser of the request finds more than {len(found.finds)} places.", field=FIELD)
        for find in found.finds:
            name, expression, before = ("deny_list", None, self.deny_score)
            if find.pattern is not None:
                name, expression, before = self.patterns[find.pattern]
            score = self.deny_score if find.pattern is None else find.score
            reasons = explanation(self.recogniser, score, before=before, pattern_name=name, pattern=expression)
            yield {
                "analysis_explanation": reasons if explained else None,
                "end": find.end,
                "entity_type": self.definition.entity,
                "score": score,
                "start": find.start,
            }


def ad_hoc_of(recognisers: Sequence[AdHocRecogniser], limits: RecogniserLimits) -> list[AdHoc]:
    """What the recognisers of a request search. Raises InvalidInput, which repeats nothing of them."""
    found: list[AdHoc] = []
    for number, body in enumerate(recognisers):
        try:
            found += _definitions(body, limits)
        except InvalidInput as error:
            error.field = f"{FIELD}.{number}.{_FIELDS.get(error.field or '', error.field)}"
            raise
    patterns = sum(len(each.patterns) for each in found)
    if patterns > limits.patterns_max:
        raise InvalidInput(f"A request has at most {limits.patterns_max} patterns.", field=FIELD)
    return found


_FIELDS = {"entity": "supported_entity", "deny": "deny_list"}


def _definitions(body: AdHocRecogniser, limits: RecogniserLimits) -> Iterator[AdHoc]:
    flags = FLAGS_DEFAULT if body.global_regex_flags is None else body.global_regex_flags
    cased = case_sensitive(flags, field="global_regex_flags")
    context = tuple(body.context or ())
    name = body.name or "PatternRecognizer"
    bare = Definition(
        entity=body.entity,
        case_sensitive=cased,
        whole_words=False,
        program_bytes_max=limits.program_bytes_max,
        patterns=tuple(each.regex for each in body.patterns or ()),
        deny=tuple(body.deny_list or ()),
        context=context if body.patterns else (),
    )
    instructions = check(bare, limits)
    by_score: dict[float, list[tuple[str, str, float]]] = {}
    for each in body.patterns or ():
        if each.score > 0:  # Presidio leaves out the others, too
            by_score.setdefault(each.score, []).append((each.name, each.regex, each.score))
    for score, patterns in by_score.items():
        written = tuple(f"(?s:{regex})" if flags & re.DOTALL else regex for _, regex, _ in patterns)
        own = replace(bare, patterns=written, deny=(), score=score)
        yield AdHoc(own, name, patterns, 0.0, own.packed(), instructions)
    if bare.deny and body.deny_list_score > 0:
        own = replace(bare, patterns=(), context=(), whole_words=True)
        yield AdHoc(own, name, (), body.deny_list_score, own.packed(), 0)


def case_sensitive(flags: int, *, field: str) -> bool:
    """Whether flags of Python's `re` make patterns case-sensitive. Raises InvalidInput for flags that RE2 lacks."""
    if flags & ~FLAGS_DEFAULT or not flags & _MULTILINE:
        raise InvalidInput("The flags are those of MULTILINE, with or without IGNORECASE and DOTALL.", field=field)
    return not flags & re.IGNORECASE


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


def allow_list_of(body: AnalyzeRequest, limits: RecogniserLimits) -> AllowList:
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


def check_patterns(allowed: AllowList, limits: RecogniserLimits) -> None:
    """Raise InvalidInput for a pattern that RE2 cannot compile."""
    _matcher(allowed, limits)


def without_allowed(
    texts: Sequence[str], found: Sequence[Sequence[dict[str, Any]]], allowed: AllowList, limits: RecogniserLimits
) -> list[list[dict[str, Any]]]:
    """The finds of each text that the list does not allow. Raises InvalidInput for patterns that take too long."""
    pattern = _matcher(allowed, limits) if allowed.patterns else None
    budget = SearchBudget("allow_list")

    def admits(find: str) -> bool:
        if pattern is None:
            return find in allowed.terms
        budget.next_recogniser()
        return next(pattern.spans(EncodedText(find), budget), None) is not None

    return [
        [each for each in own_finds if not admits(text[each["start"] : each["end"]])]
        for text, own_finds in zip(texts, found, strict=True)
    ]


def _matcher(allowed: AllowList, limits: RecogniserLimits) -> PatternFinder:
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
