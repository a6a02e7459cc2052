"""What a recogniser that is not stored yet would find in a text, and why it would or would not be masked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from core.text.own_recognisers.finds import by_allow_lists
from core.text.own_recognisers.patterns import SearchBudget
from core.text.own_recognisers.recogniser import OwnRecogniser, Readings
from core.text.policy import Mask
from core.text.visible import hidden, visible
from core.text.windows import extents, windows

SHOWN_MAX = 1_000

ALLOWED, BELOW_THRESHOLD = "allow", "threshold"


@dataclass(frozen=True)
class DraftFind:
    """A find at `start:end` of the text. `pattern`: the number of the pattern, None for a term of the deny list.
    `context`: whether a context word is near; None for a deny term, and for a recogniser without context words.
    `suppressed_by`: the rule by which it is not masked, None if it is."""

    start: int
    end: int
    pattern: int | None
    score: float
    context: bool | None
    suppressed_by: str | None


@dataclass(frozen=True)
class DraftFinds:
    """The first `SHOWN_MAX` finds in order of position, and the number of all."""

    finds: tuple[DraftFind, ...]
    total: int


def try_out(text: str, recogniser: OwnRecogniser, *, threshold: float) -> DraftFinds:
    """Return what `recogniser` finds in `text`, by the rules of a request that names it alone. Raises InvalidInput once
    the `SearchBudget` of one of its windows is used up."""
    shown = visible(text)
    found = set(_found(shown, recogniser, threshold))
    allowed = sorted(set(_allowed(shown, recogniser)))
    passing = {shown[find.start : find.end] for find in found if find.score >= threshold}
    places = _places(text)
    finds = []
    for find in sorted(found, key=lambda each: (each.start, each.end, -1 if each.pattern is None else each.pattern)):
        rule = None
        if find.pattern is not None:
            if shown[find.start : find.end] not in passing:
                rule = BELOW_THRESHOLD
            elif by_allow_lists([Mask(find.start, find.end, "", "")], allowed)[1]:
                rule = ALLOWED
        start, end = places(find.start), places(find.end - 1) + 1
        finds.append(DraftFind(start, end, find.pattern, find.score, find.context, rule))
        if len(finds) == SHOWN_MAX:
            break
    return DraftFinds(tuple(finds), len(found))


def _found(text: str, recogniser: OwnRecogniser, threshold: float) -> Iterator[DraftFind]:
    cut = windows(text)
    for extent in extents(text, cut):
        window = Readings(text[extent.window.start : extent.window.end])
        for find in recogniser.found(window, threshold=threshold, budget=SearchBudget("recogniser")):
            if at := extent.place(find.hit.start, find.hit.end):
                yield DraftFind(*at, find.pattern, find.hit.score, find.context, None)
        for start, end in recogniser.denied(window):
            if at := extent.place(start, end):
                yield DraftFind(*at, None, 1.0, None, None)


def _allowed(text: str, recogniser: OwnRecogniser) -> Iterator[tuple[int, int]]:
    for window in windows(text):
        for start, end in recogniser.allowed(Readings(text[window.start : window.end])):
            yield start + window.start, end + window.start


def _places(text: str) -> Callable[[int], int]:
    """Return a function from characters of `visible(text)` to those of `text`."""
    gaps = list(hidden(text))
    removed = list(accumulate((end - start for start, end in gaps), initial=0))
    # the first visible character after each gap
    after = [end - total for (_, end), total in zip(gaps, removed[1:], strict=True)]
    return lambda place: place + removed[bisect_right(after, place)]
