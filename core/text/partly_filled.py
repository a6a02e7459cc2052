"""A document of which a language model has filled the first places, and the next places as a text of their own.

Filling a document in parts gives the same distribution as filling it at once. The word of place i is a function of the
text with the places before it filled, of the positions of the places after it, of public parameters, of the original at
place i (fill `dp` only) and of fresh randomness. `part` contains all of these: the model reads at most `CONTEXT_CHARS`
characters on either side, and blanks are the same (`core.text.fill_left_to_right`). So the joint law of the words is
the same product of conditional laws, however the places are grouped, and composition is the same sequential one. Each
place is in one part only, so its word is drawn once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from core.text.infill_model import CONTEXT_CHARS
from core.text.policy import Mask, Sanitised
from core.text.sanitize import NOTHING_REPORTED, Inspected, Reading, fill_in


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
