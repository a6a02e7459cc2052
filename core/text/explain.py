"""Which finds of a text were suppressed, and by which rule (`core.text.origins.RULES`).

Finds of the technique `entity` alone are listed. Not listed: a match that a checksum or a form rejects, which is no
find; what a tagger scores below `TAGGED_SCORE_MIN`, which it does not report; and the words of a word list. The time is
linear in the number of finds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

from core.errors import RecogniserFailed
from core.text.mask_entity import Joined
from core.text.mask_tagged import TAGGER
from core.text.masks import Findings, groups, strongest, union
from core.text.origins import ALLOW_LISTED, BELOW_THRESHOLD, NO_CONTEXT, OVERLAPPED, SuppressedFind, SuppressedFinds
from core.text.policy import Mask, MaskPolicy
from core.text.recognised import Recognised
from core.text.recogniser import Hit
from core.text.visible import Regions


class _Dropped(NamedTuple):
    """A suppressed find, at its place in the visible text. `source`: the recogniser of a hit whose rule is still to be
    determined."""

    find: SuppressedFind
    source: Joined | None = None


def suppressed_finds(
    text: str, all_findings: Findings, recognised: Recognised, policy: MaskPolicy, *, sent: Regions, finds_max: int
) -> SuppressedFinds:
    """Return the suppressed finds of `text`, which is visible text. At most `finds_max`: those with the highest scores.

    Raises RecogniserFailed if the search for a context word fails.
    """
    total = 0

    def counted() -> Iterator[_Dropped]:
        nonlocal total
        for each in _dropped(text, all_findings, recognised, policy):
            total += 1
            yield each

    kept = nlargest(max(1, finds_max), counted(), key=_rank)[:finds_max]
    kept.sort(key=lambda each: each.find[:6])
    reported = [find for each in kept if (find := _reported(text, each, sent)) is not None]
    # The values of a form may be read in another order than that of the document.
    return SuppressedFinds(tuple(sorted(reported, key=lambda find: find[:6])), total - len(kept))


def _rank(dropped: _Dropped) -> tuple[float, int, int, str, str]:
    find = dropped.find
    return find.score, -find.start, -find.end, find.type, find.recogniser


def _dropped(text: str, all_findings: Findings, recognised: Recognised, policy: MaskPolicy) -> Iterator[_Dropped]:
    for source in recognised.hits:
        for start, end, score in source.hits.suppressed(text):
            find = SuppressedFind(start, end, source.recogniser.entity, score, source.recogniser.name, BELOW_THRESHOLD)
            yield _Dropped(find, source)
    requested = policy.requested()
    for start, end, kind, score in recognised.tagged.found if recognised.tagged else ():
        if kind in requested and score < requested[kind]:
            yield _Dropped(SuppressedFind(start, end, kind, score, TAGGER, BELOW_THRESHOLD))
    for mask in all_findings.allowed:
        find = SuppressedFind(mask.start, mask.end, mask.type, mask.score, mask.recogniser, ALLOW_LISTED)
        yield _Dropped(find)
    for find in (*_lost(text, all_findings), *_beside_patterns(all_findings)):
        yield _Dropped(find)


def _lost(text: str, all_findings: Findings) -> Iterator[SuppressedFind]:
    """Yield the entity finds of each region, without the one that gives the region its type."""
    for found in (all_findings.combined(text), all_findings.names):
        for group in groups(found):
            if len(group) > 1:
                winner = strongest(group)
                for mask in group:
                    if mask is not winner and mask.technique == "entity":
                        yield _overlapped(mask, by=winner)


def _beside_patterns(all_findings: Findings) -> Iterator[SuppressedFind]:
    """Yield the names that a pattern's find overlaps. What lies beside that find stays masked."""
    for names, values in all_findings.cut():
        regions = union(values)
        ends = [region.end for region in regions]
        for mask in names:
            number = bisect_right(ends, mask.start)
            if number < len(regions) and regions[number].start < mask.end:
                yield _overlapped(mask, by=regions[number])


def _overlapped(mask: Mask, *, by: Mask) -> SuppressedFind:
    return SuppressedFind(mask.start, mask.end, mask.type, mask.score, mask.recogniser, OVERLAPPED, by.type)


def _reported(text: str, dropped: _Dropped, sent: Regions) -> SuppressedFind | None:
    """Return the find at its place in the text as sent; None for one in the labels that a form adds."""
    find, source = dropped
    region = sent.region(find.start, find.end)
    if region is None:
        return None
    find_sent = find._replace(start=region[0], end=region[1])
    if source is None:
        return find_sent
    return find_sent._replace(rule=NO_CONTEXT) if _lacks_context(text, find, source) else find_sent


def _lacks_context(text: str, find: SuppressedFind, source: Joined) -> bool:
    failed = False
    try:
        lacks = source.recogniser.lacks_context(text, Hit(find.start, find.end, find.score), threshold=source.threshold)
    except Exception:  # any error: its message and frames may contain the text
        failed = True
    if failed:
        raise RecogniserFailed(entity=source.recogniser.entity)
    return lacks
