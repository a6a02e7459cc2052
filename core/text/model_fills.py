"""The fills of a language model: the protocol of models, fills of many documents at once, and the fill `dp`.

A masked language model implements both methods of `InfillModel`. A generative model (a causal one, an endpoint)
implements only `ranked` and has no `candidates`, so the fill `dp` rejects it. This module imports no model.

**Many documents at once** (`fill_left_to_right`): step i fills the i-th masked region of each, in one call of the
model. Guarantee: for region i of a document the model reads its kept text, the words filled in at regions 0 to i - 1,
and whether region i is of the type NUMBER. No masked string reaches the model. A `FillStrategy` that needs one reads it
itself. Each region's word is chosen once. If the model fails on a call, it is called again for each document
separately: the model itself draws nothing, and earlier choices stay. A document that fails alone ends with its error,
and nothing more is chosen for it. Cost: as many calls as the document with most regions has, each with a window of text
for each remaining document.

**Fill `dp`** (`dp_draws`): every slot is drawn from the model's fixed public candidates, under differential privacy.
One draw is `token_selection.select`. It costs epsilon for replacing the slot's own original by anything else, if the
model never reads that original. It does not: the model reads the kept text, the words released at slots to the left,
and masks at slots to the right. So an original affects its own draw only, and later draws depend on that draw's
outcome, which is post-processing. This holds for all documents of a batch together: other documents may change the last
digits of the model's numbers, but no original of any document is among the model's inputs.

* scope `slot`. A slot is a masked region, whatever its content, or with the technique `all` a word. Each draw has eps.
  Guarantee: eps for replacing the content of one slot by anything else, given the mask pattern and the kept text, which
  have no protection. A document costs eps whatever its number of slots. Replacing two slots at once costs 2 eps.
* scope `document`. Every word is a slot; punctuation, case and line breaks are dropped first. Each of the n draws has
  eps / n. Guarantee: eps for replacing the whole document by any other of as many words: the draws compose by sum.

The original has the full score. The model's scores give the other candidates up to half of it. If the original is no
candidate, the model's scores alone decide.

**Documents in parts** (`PartlyFilled`): filling a document in parts gives the same distribution as filling it at once.
The word of place i is a function of the text with the places before it filled, of the positions of the places after it,
of public parameters, of the original at place i (fill `dp` only) and of fresh randomness. `part` contains all of these:
the model reads at most `CONTEXT_CHARS` characters on either side, and blanks are the same. So the joint law of the
words is the same product of conditional laws, however the places are grouped, and composition is the same sequential
one. Each place is in one part only, so its word is drawn once.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from core.errors import GatewayError
from core.guarded import guarded
from core.mechanisms.words.pricing import slot_epsilon_nano
from core.mechanisms.words.token_selection import scores, select
from core.text.policy import NUMBER, Mask, MaskPolicy, Sanitised
from core.text.sanitize import NOTHING_REPORTED, Inspected, Reading, fill_in

FloatArray = npt.NDArray[np.float32]

CONTEXT_CHARS = 1_200  # on either side of a blank: more than the window of the supported models


@dataclass(frozen=True)
class Blank:
    """One place to fill, and the text around it: at most `CONTEXT_CHARS` characters on either side.

    `before`: the text to its left, including words that were filled in already. `after`: the text to its right, split
    at each place that is still to be filled. `number`: whether the mask says that the original is a number.
    """

    before: str = field(repr=False)
    after: tuple[str, ...] = field(repr=False)
    number: bool = False


class Candidates:
    """The fixed public list from which the fill `dp` draws. `fingerprint` identifies a list.

    Raises: ValueError for fewer than two words.
    """

    def __init__(self, words: Sequence[str]) -> None:
        if len(words) < 2:
            raise ValueError("at least two candidates")
        self.words = tuple(words)
        # of two equal spellings, the first
        self._places = {word: place for place, word in reversed(list(enumerate(self.words)))}

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the words in order, one line each."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def place(self, original: str) -> int | None:
        """Return the index of the word in the list, as it is written or in lower case."""
        return self._places.get(original, self._places.get(original.lower()))


class InfillModel(Protocol):
    """A language model for fills. The caller forms batches: one call may contain blanks of many documents and tenants.

    The result for a blank depends on that blank alone, up to rounding. Every failure is raised.
    """

    @property
    def name(self) -> str: ...

    @property
    def candidates(self) -> Candidates | None:
        """The candidates to which `logits` refers; None if the model has none."""
        ...

    @property
    def considered(self) -> int:
        """How many words `ranked` can return at little more than the cost of one."""
        ...

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        """Return for each blank 1 to `count` single words, the best first. A blank for a number gets numbers, as far as
        the model can produce them."""
        ...

    def logits(self, blanks: Sequence[Blank]) -> FloatArray:
        """Return a finite number for each blank and candidate, float32 `[blanks, candidates]`; the largest is best.

        `Blank.number` has no effect. Raises: RuntimeError if there are no candidates.
        """
        ...


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


CLIP = 10.0  # logits: a candidate this far below the model's best scores 0


def slots_of(found: Inspected, policy: MaskPolicy) -> Inspected:
    """Return the slots of a result of `core.text.sanitize.inspect_words`, as masks of one type.

    One type, because a type would reveal information. There are at most as many slots as tokens, so counting a text's
    tokens before it is charged suffices to know that it can be filled.
    """
    if not policy.whole:
        return replace(found, masks=_one_a_token(found))
    return replace(
        found, masks=[replace(mask, start=start, end=end) for mask in found.masks[:1] for start, end in found.tokens]
    )


def _one_a_token(found: Inspected) -> list[Mask]:
    """Return the masks, joining those that share a token. Each contains a letter or digit, hence a part of a token."""
    starts = [token.start for token in found.tokens]
    joined: list[Mask] = []
    for mask in found.masks:
        if joined:
            last = joined[-1]
            before = bisect_left(starts, last.end) - 1  # the last token that begins before the mask's end
            if before >= 0 and found.tokens[before].end > mask.start:
                joined[-1] = replace(last, end=mask.end)
                continue
        joined.append(mask)
    return joined


def dp_draws(found: Inspected, epsilon_nano: int, candidates: Candidates, *, scope: str) -> Scored:
    """Return a draw for each slot of `slots_of`.

    Units: epsilon in nano, for the whole text. A remainder of the division among slots is not spent. `Scored.choose`
    raises ValueError for logits that are not finite.
    """
    own_nano = slot_epsilon_nano(epsilon_nano, scope=scope, slots=len(found.masks))

    def choose(place: int, row: FloatArray) -> str:
        mask = found.masks[place]
        fitting = np.right_shift(scores(row[None], clip=CLIP)[0], 1)
        own = candidates.place(found.text[mask.start : mask.end])
        return candidates.words[select(fitting, own, epsilon_nano=own_nano)]

    return Scored(choose)


@dataclass(frozen=True)
class PartlyFilled:
    """`text` is the original, `words` fill its first `masks`. `before`: the end of the text to the left of the next
    place, with these words. `counted`: the document's numbers of masked tokens and of tokens."""

    text: str = field(repr=False)
    masks: Sequence[Mask]
    counted: tuple[int, int]
    before: str = field(repr=False)
    words: tuple[str, ...] = field(default=(), repr=False)
    reading: Reading = NOTHING_REPORTED

    @classmethod
    def of(cls, found: Inspected, words: Sequence[str]) -> PartlyFilled:
        """A document whose first places have been filled with `words`; at least one place is left."""
        first = found.masks[0].start
        before = found.text[max(0, first - CONTEXT_CHARS) : first]
        counted = found.masked_tokens, len(found.tokens)
        return cls(found.text, found.masks, counted, before, reading=found.reading).filled(words)

    @property
    def left(self) -> int:
        """The number of places that are not filled."""
        return len(self.masks) - len(self.words)

    def filled(self, words: Sequence[str]) -> PartlyFilled:
        """The same document with the next places filled."""
        before = self.before
        for place, word in enumerate(words, len(self.words)):
            end = self.masks[place + 1].start if place + 1 < len(self.masks) else len(self.text)
            kept = self.text[max(self.masks[place].end, end - CONTEXT_CHARS) : end]
            before = (before + word + kept)[-CONTEXT_CHARS:]
        return replace(self, words=(*self.words, *words), before=before)

    def part(self, places: int) -> tuple[str, list[Mask]]:
        """The text around the next `places`, with the places to their left filled, and all masks in it."""
        start, last = len(self.words), len(self.words) + places - 1
        end, shown = self._reach(last)
        moved = len(self.before) - self.masks[start].start
        text = self.before + self.text[self.masks[start].start : end]
        masks = self.masks[start : shown + 1]
        return text, [replace(mask, start=mask.start + moved, end=mask.end + moved) for mask in masks]

    def _reach(self, place: int) -> tuple[int, int]:
        """The end of the text that the model reads to the right of `place`, and the last mask before that end."""
        end, left = self.masks[place].end, CONTEXT_CHARS
        while place + 1 < len(self.masks):
            following = self.masks[place + 1]
            left -= following.start - end + 1
            if left <= 0:
                return following.start, place
            place, end = place + 1, following.end
        return min(len(self.text), end + left), place

    def sanitised(self) -> Sanitised:
        """The released document, all places of which are filled."""
        masked_tokens, tokens = self.counted
        filled = fill_in(Inspected(self.text, (), self.masks, self.reading), self.words)
        return replace(filled, masked_tokens=masked_tokens, tokens=tokens)
