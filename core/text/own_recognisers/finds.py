"""What the recognisers of a tenant or the operator find in a text, as a whole or in its windows.

An allow list suppresses a find of a pattern or of the tagger only if the find lies completely within one occurrence of
a term. A find that reaches beyond the term is masked as a whole, and a deny list is never suppressed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from core.errors import RecogniserFailed
from core.text.own_recognisers.patterns import SearchBudget
from core.text.own_recognisers.recogniser import OwnRecogniser, Range, Readings
from core.text.policy import Mask, MaskPolicy
from core.text.recogniser import Hit, Hits
from core.text.windows import Extent, extents, windows


@dataclass(frozen=True)
class OwnHits:
    """The finds of one recogniser in one window: of its patterns, and the occurrences of its lists."""

    patterns: Hits
    denied: tuple[Range, ...]
    allowed: tuple[Range, ...]


OwnFinds = tuple[OwnHits, ...]  # in the order of the policy's recognisers


@dataclass(frozen=True)
class OwnRecognised:
    """The finds in a whole text. `allowed` is sorted."""

    found: Sequence[Mask]
    denied: Sequence[Mask]
    allowed: Sequence[Range]


NOTHING = OwnRecognised((), (), ())
OWN_PREFIX = "own."  # before the name of the recogniser, where an answer names what found a place


def search(text: str, recognisers: Sequence[OwnRecogniser], policy: MaskPolicy) -> OwnFinds:
    """Return what each of the policy's recognisers finds in one window. Raises InvalidInput once the
    `SearchBudget` that they share is used up."""
    window, budget = Readings(text), SearchBudget()
    return tuple(_hits(window, recogniser, policy.threshold(recogniser.entity), budget) for recogniser in recognisers)


def _hits(window: Readings, recogniser: OwnRecogniser, threshold: float, budget: SearchBudget) -> OwnHits:
    best: dict[Range, float] = {}
    for find in recogniser.found(window, threshold=threshold, budget=budget):
        at = (find.hit.start, find.hit.end)
        best[at] = max(find.hit.score, best.get(at, 0.0))
    hits = [Hit(*at, score) for at, score in best.items()]
    return OwnHits(
        Hits([hit for hit in hits if hit.score >= threshold], [hit for hit in hits if hit.score < threshold]),
        tuple(recogniser.denied(window)),
        tuple(recogniser.allowed(window)),
    )


def join(text: str, policy: MaskPolicy, parts: Sequence[OwnFinds]) -> OwnRecognised:
    """Return the finds in the whole text. `parts`: those in each of `windows(text)`, in order.

    Raises RecogniserFailed if a part, or a recogniser in it, is missing.
    """
    cut = windows(text)
    if len(parts) != len(cut) or any(len(part) != len(policy.own) for part in parts):
        raise RecogniserFailed
    placing = extents(text, cut)
    found: list[Mask] = []
    denied: list[Mask] = []
    allowed: set[Range] = set()
    for own, hits in zip(policy.own, zip(*parts, strict=True), strict=True):
        windowed = list(zip(placing, hits, strict=True))
        passed = [_placed(extent, hit) for extent, each in windowed for hit in each.patterns.passed]
        weak = [_placed(extent, hit) for extent, each in windowed for hit in each.patterns.weak]
        whole = Hits([hit for hit in passed if hit], [hit for hit in weak if hit])
        name = OWN_PREFIX + own.name
        found += [Mask(hit.start, hit.end, own.entity, "entity", hit.score, name) for hit in whole.masked(text)]
        places = {extent.place(*at) for extent, each in windowed for at in each.denied}
        denied += [Mask(*at, own.entity, "entity", recogniser=name) for at in places if at]
        allowed |= {
            (start + extent.window.start, end + extent.window.start)
            for extent, each in windowed
            for start, end in each.allowed
            if extent.place(start, end)
        }
    return OwnRecognised(found, sorted(denied, key=lambda mask: (mask.start, mask.end)), sorted(allowed))


def _placed(extent: Extent, hit: Hit) -> Hit | None:
    at = extent.place(hit.start, hit.end)
    return Hit(*at, hit.score) if at else None


def by_allow_lists(masks: Iterable[Mask], allowed: Sequence[Range]) -> tuple[list[Mask], list[Mask]]:
    """Return the masks that stay, and those that lie completely within one of the ranges `allowed`, which are
    sorted."""
    starts = [start for start, _ in allowed]
    reach = list(accumulate((end for _, end in allowed), max))  # the farthest end of the ranges up to each
    kept: list[Mask] = []
    suppressed: list[Mask] = []
    for mask in masks:
        number = bisect_right(starts, mask.start)
        (suppressed if number and reach[number - 1] >= mask.end else kept).append(mask)
    return kept, suppressed
