"""A definition that is ready to search, and what it finds in one window of a text.

Each find of a pattern has the recogniser's score. One below the threshold of its type gets a higher score if a context
word is near, as those of the shipped recognisers do (`core.text.recogniser`). A term of the deny list has the score 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from core.errors import InvalidInput, RecogniserBroken
from core.text.own_recognisers.definition import Definition, Limits, check_shape
from core.text.own_recognisers.folding import Folded, fold
from core.text.own_recognisers.patterns import Encoded, PatternFinder, SearchBudget
from core.text.own_recognisers.terms import TermFinder, folded_terms
from core.text.recogniser import CONTEXT_AFTER_CHARS, CONTEXT_BEFORE_CHARS, CONTEXT_BONUS, CONTEXT_SCORE_MIN, Hit

INSTRUCTIONS_MAX = 200_000
"""Of the compiled patterns of one recogniser. They take half a second to compile, in which a worker does nothing
else."""

Range = tuple[int, int]


class Readings:
    """The forms of one window that finders read. Each is made once, for all recognisers."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def encoded(self) -> Encoded:
        return Encoded(self.text)

    @cached_property
    def caseless(self) -> Folded:
        return fold(self.text, case_sensitive=False)

    @cached_property
    def cased(self) -> Folded:
        return fold(self.text, case_sensitive=True)


@dataclass(frozen=True)
class PatternFind:
    """A find of the pattern with this number. `score` is that after context; `context`: whether a context word is near,
    None if the recogniser has none."""

    hit: Hit
    pattern: int
    context: bool | None


class OwnRecogniser:
    """Searches texts by a definition. For each window, the time is bounded."""

    def __init__(self, definition: Definition) -> None:
        """Raises InvalidInput for a pattern or a term that cannot be used."""
        deny, allow, context = _terms(definition)
        self.entity = definition.entity
        self._score = definition.score
        self._cased = definition.case_sensitive
        self._has_context = bool(definition.context)
        self._deny = TermFinder(deny, whole_words=definition.whole_words)
        self._allow = TermFinder(allow, whole_words=definition.whole_words)
        self._context = TermFinder(context, whole_words=True)
        self._patterns = _patterns(definition)

    def denied(self, window: Readings) -> list[Range]:
        """Return what the deny list covers, in order. Occurrences that overlap are one range."""
        ranges: list[Range] = []
        for start, end in sorted(self._deny.spans(self._folded(window))):
            if ranges and start < ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((start, end))
        return ranges

    def allowed(self, window: Readings) -> list[Range]:
        """Return the occurrences of the allow list."""
        return list(self._allow.spans(self._folded(window)))

    def found(self, window: Readings, *, threshold: float, budget: SearchBudget) -> Iterator[PatternFind]:
        """Yield the finds of the patterns, also those below the threshold. A find without a letter or digit identifies
        nobody and is left out. Raises InvalidInput once `budget`, that of the window, is used up."""
        budget.next_recogniser()
        context = sorted(self._context.spans(window.caseless)) if self._patterns else []
        for number, pattern in enumerate(self._patterns):
            for start, end in pattern.spans(window.encoded, budget):
                if not any(map(str.isalnum, window.text[start:end])):
                    continue
                near = _near(context, start, end) if self._has_context else None
                score = self._score
                if near and score < threshold:
                    score = min(1.0, max(score + CONTEXT_BONUS, CONTEXT_SCORE_MIN))
                yield PatternFind(Hit(start, end, score), number, near)

    def _folded(self, window: Readings) -> Folded:
        return window.cased if self._cased else window.caseless


def _terms(definition: Definition) -> tuple[set[str], set[str], set[str]]:
    """Return the forms of the deny list, the allow list and the context words."""
    cased = definition.case_sensitive
    deny = folded_terms(definition.deny, field="deny", case_sensitive=cased)
    allow = folded_terms(definition.allow, field="allow", case_sensitive=cased)
    if deny & allow:
        raise InvalidInput("A term is on the deny list and on the allow list.", field="allow")
    return deny, allow, folded_terms(definition.context, field="context", case_sensitive=False)


def _patterns(definition: Definition) -> list[PatternFinder]:
    """Compile the patterns. Raises InvalidInput, also for one with which they take more than `INSTRUCTIONS_MAX`."""
    found: list[PatternFinder] = []
    for index, pattern in enumerate(definition.patterns):
        finder = PatternFinder(
            pattern,
            field=f"patterns.{index}",
            case_sensitive=definition.case_sensitive,
            whole_words=definition.whole_words,
            program_bytes_max=definition.program_bytes_max,
        )
        found.append(finder)
        if sum(each.instructions for each in found) > INSTRUCTIONS_MAX:
            raise InvalidInput(
                f"Up to this pattern, the patterns of the recogniser compile to more than {INSTRUCTIONS_MAX:,} "
                "instructions. A class of Unicode that is repeated by numbers takes most of them: \\pL+ is far smaller "
                "than \\pL{1,30}.",
                field=f"patterns.{index}",
            )
    return found


def _near(context: Sequence[Range], start: int, end: int) -> bool:
    """Whether a context word lies completely in the characters beside a find. `context` is sorted."""
    first = bisect_left(context, (start - CONTEXT_BEFORE_CHARS, 0))
    last = bisect_left(context, (start, 0))
    if any(word_end <= start for _, word_end in context[first:last]):
        return True
    first = bisect_left(context, (end, 0))
    return first < len(context) and context[first][1] <= end + CONTEXT_AFTER_CHARS


def check(definition: Definition, limits: Limits) -> int:
    """Return the instructions to which the patterns compile. Raises InvalidInput for a definition that cannot be
    used."""
    check_shape(definition, limits)
    _terms(definition)
    return sum(pattern.instructions for pattern in _patterns(definition))


def ready(content: bytes) -> OwnRecogniser:
    """Return the recogniser of a `Definition.packed`. Raises RecogniserBroken."""
    try:
        return OwnRecogniser(Definition.unpacked(content))
    except InvalidInput:
        raise RecogniserBroken from None
