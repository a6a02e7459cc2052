"""Model fills of many documents at once: step i fills the i-th masked region of each, in one call of the model.

Guarantee: what the model reads for region i of a document is its kept text, the words filled in at regions 0 to i - 1,
and whether region i is of the type NUMBER. No masked string reaches the model; a `Way` that reads one
(`core.text.fill_dp`) does so by itself.

Cost: as many calls as the document with most regions has, each with a window of text for each document left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.text.infill_model import CONTEXT_CHARS, Blank, FloatArray, InfillModel
from core.text.policy import NUMBER, Sanitised
from core.text.sanitize import Inspected, fill_in


@dataclass(frozen=True)
class Ranked:
    """Each region's word is chosen from the model's `count` best. `choose` gets the region's number and the words."""

    count: int
    choose: Callable[[int, Sequence[str]], str]


@dataclass(frozen=True)
class Scored:
    """Each region's word is chosen by a number for each candidate. `choose` gets the region's number and its row."""

    choose: Callable[[int, FloatArray], str]


Way = Ranked | Scored


class _Passage:
    """One document while it is filled."""

    def __init__(self, found: Inspected) -> None:
        ends = [0, *(mask.end for mask in found.masks)]
        starts = [*(mask.start for mask in found.masks), len(found.text)]
        self._kept = [found.text[end:start] for end, start in zip(ends, starts, strict=True)]
        self._numbers = [mask.type == NUMBER for mask in found.masks]
        self._before = self._kept[0][-CONTEXT_CHARS:]
        self.words: list[str] = []

    @property
    def blank(self) -> Blank:
        after, room = [], CONTEXT_CHARS
        for part in self._kept[len(self.words) + 1 :]:
            after.append(part[:room])
            room -= len(part) + 1
            if room <= 0:
                break
        return Blank(self._before, tuple(after), number=self._numbers[len(self.words)])

    def add(self, word: str) -> None:
        self.words.append(word)
        self._before = (self._before + word + self._kept[len(self.words)])[-CONTEXT_CHARS:]


def fill_left_to_right(found: Sequence[Inspected], ways: Sequence[Way], model: InfillModel) -> list[Sanitised]:
    """Each document with each of its regions filled. Raises what the model and the ways raise."""
    passages = [_Passage(each) for each in found]
    for place in range(max((len(each.masks) for each in found), default=0)):
        waiting = [number for number, each in enumerate(found) if place < len(each.masks)]
        blanks = {number: passages[number].blank for number in waiting}
        for number, word in _chosen(place, blanks, ways, model).items():
            passages[number].add(word)
    return [fill_in(each, passage.words) for each, passage in zip(found, passages, strict=True)]


def _chosen(place: int, blanks: dict[int, Blank], ways: Sequence[Way], model: InfillModel) -> dict[int, str]:
    """The word of each document's region `place`."""
    words: dict[int, str] = {}
    ranked = {number: way for number in blanks if isinstance(way := ways[number], Ranked)}
    if ranked:
        best = model.ranked([blanks[number] for number in ranked], count=max(way.count for way in ranked.values()))
        for (number, way), offered in zip(ranked.items(), best, strict=True):
            words[number] = way.choose(place, offered[: way.count])
    scored = {number: way for number in blanks if isinstance(way := ways[number], Scored)}
    if scored:
        rows = model.logits([blanks[number] for number in scored])
        for (number, scored_way), row in zip(scored.items(), rows, strict=True):
            words[number] = scored_way.choose(place, row)
    return words
