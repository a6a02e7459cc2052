"""Model fills of many documents at once: step i fills the i-th masked region of each, in one call of the model.

Guarantee: for region i of a document the model reads its kept text, the words filled in at regions 0 to i - 1, and
whether region i is of the type NUMBER. No masked string reaches the model. A `FillStrategy` that needs one
(`core.text.fill_dp`) reads it itself.

Each region's word is chosen once. If the model fails on a call, it is called again for each document separately: the
model itself draws nothing, and earlier choices stay. A document that fails alone ends with its error, and nothing more
is chosen for it.

Cost: as many calls as the document with most regions has, each with a window of text for each remaining document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.errors import GatewayError
from core.guarded import guarded
from core.text.infill_model import CONTEXT_CHARS, Blank, FloatArray, InfillModel
from core.text.policy import NUMBER, Sanitised
from core.text.sanitize import Inspected, fill_in

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Ranked:
    """Each region's word is chosen from the model's `count` best. `choose` gets the region's number and the words."""

    count: int
    choose: Callable[[int, Sequence[str]], str]


@dataclass(frozen=True)
class Scored:
    """Each region's word is chosen from a score for each candidate. `choose` gets the region's number and its row."""

    choose: Callable[[int, FloatArray], str]


FillStrategy = Ranked | Scored


class _Passage:
    """The state of one document during filling."""

    def __init__(self, found: Inspected) -> None:
        ends = [0, *(mask.end for mask in found.masks)]
        starts = [*(mask.start for mask in found.masks), len(found.text)]
        self._kept = [found.text[end:start] for end, start in zip(ends, starts, strict=True)]
        self._numbers = [mask.type == NUMBER for mask in found.masks]
        self._before = self._kept[0][-CONTEXT_CHARS:]
        self.words: list[str] = []

    @property
    def blank(self) -> Blank:
        after, remaining = [], CONTEXT_CHARS
        for part in self._kept[len(self.words) + 1 :]:
            after.append(part[:remaining])
            remaining -= len(part) + 1
            if remaining <= 0:
                break
        return Blank(self._before, tuple(after), number=self._numbers[len(self.words)])

    def add(self, word: str) -> None:
        self.words.append(word)
        self._before = (self._before + word + self._kept[len(self.words)])[-CONTEXT_CHARS:]


def fill_left_to_right(
    found: Sequence[Inspected], strategies: Sequence[FillStrategy], model: InfillModel
) -> list[Sanitised | GatewayError]:
    """Return each document with all regions filled, or the error of the model or of its strategy, without text."""
    counts = [len(each.masks) for each in found]
    return [
        words if isinstance(words, GatewayError) else fill_in(each, words)
        for each, words in zip(found, first_words(found, strategies, model, counts), strict=True)
    ]


def first_words(
    found: Sequence[Inspected], strategies: Sequence[FillStrategy], model: InfillModel, counts: Sequence[int]
) -> list[list[str] | GatewayError]:
    """Return the words of the first `counts` regions of each document, or the error of the model or of its strategy,
    without text. Regions beyond them are blanks that stay."""
    passages = [_Passage(each) for each in found]
    failed: dict[int, GatewayError] = {}
    for place in range(max(counts, default=0)):
        waiting = [number for number, count in enumerate(counts) if place < count and number not in failed]
        blanks = {number: passages[number].blank for number in waiting}
        for number, word in _chosen(place, blanks, strategies, model).items():
            if isinstance(word, GatewayError):
                failed[number] = word
            else:
                passages[number].add(word)
    return [failed.get(number) or passage.words for number, passage in enumerate(passages)]


def _chosen(
    place: int, blanks: Mapping[int, Blank], strategies: Sequence[FillStrategy], model: InfillModel
) -> dict[int, str | GatewayError]:
    """Return the word of each document's region `place`."""
    words: dict[int, str | GatewayError] = {}
    ranked = {number: strategy for number in blanks if isinstance(strategy := strategies[number], Ranked)}
    count = max((strategy.count for strategy in ranked.values()), default=0)
    best = _answers(lambda batch: model.ranked(batch, count=count), {number: blanks[number] for number in ranked})
    for number, offered in best.items():
        strategy = ranked[number]
        words[number] = (
            offered if isinstance(offered, GatewayError) else guarded(strategy.choose, place, offered[: strategy.count])
        )
    scored = {number: strategy for number in blanks if isinstance(strategy := strategies[number], Scored)}
    for number, row in _answers(model.logits, {number: blanks[number] for number in scored}).items():
        words[number] = row if isinstance(row, GatewayError) else guarded(scored[number].choose, place, row)
    return words


def _answers(
    ask: Callable[[Sequence[Blank]], Iterable[Answer]], blanks: Mapping[int, Blank]
) -> dict[int, Answer | GatewayError]:
    """Return the model's result for each blank, or the error of the model on that blank alone."""
    if not blanks:
        return {}
    found = guarded(ask, list(blanks.values()))
    if not isinstance(found, GatewayError):
        return dict(zip(blanks, found, strict=True))
    if len(blanks) == 1:
        return dict.fromkeys(blanks, found)
    alone: dict[int, Answer | GatewayError] = {}
    for number, blank in blanks.items():
        alone |= _answers(ask, {number: blank})
    return alone
