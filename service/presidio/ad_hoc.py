"""Recognisers that come with one request of `POST /analyze`, as definitions of own recognisers.

A definition has one score, so the patterns of a recogniser are divided by their scores. Patterns are those of RE2:
lookaround and back references are refused, and `\\b` and `\\w` know ASCII letters alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.errors import InvalidInput
from core.text.own_recognisers.definition import Definition, Limits
from core.text.own_recognisers.recogniser import DraftFinds, check
from service.presidio.schemas import AdHocRecogniser

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


def ad_hoc_of(recognisers: Sequence[AdHocRecogniser], limits: Limits) -> list[AdHoc]:
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


def _definitions(body: AdHocRecogniser, limits: Limits) -> Iterator[AdHoc]:
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
