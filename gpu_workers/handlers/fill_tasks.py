"""The steps in which a language model fills a document: the tasks that follow the first places.

The first step is the document's own task (`gpu_workers.handlers.sanitize_tasks.DocumentTask`), which masks it and fills
its first places. Each further step fills the next ones. A step has about the size of a piece, so that documents of
other tenants run between two steps. Why this does not change the distribution of the result, and why no place is drawn
twice: `core.text.model_fills`. If a step fails, the document fails and none of its places is drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.errors import GatewayError
from core.mechanisms.words.pricing import slot_epsilon_nano
from core.text.model_fills import PartlyFilled
from core.text.policy import Mask, Sanitised, SanitizeTask
from gpu_workers.engine.protocol import Joined, Pieces, Task

PLACE_TOKENS = 48  # a model reads about as many pieces of text for each place


def places_of(weight: int) -> int:
    """The number of places that a model fills in a step of this weight."""
    return max(1, weight // PLACE_TOKENS)


@dataclass(frozen=True)
class FilledPlaces:
    """The words of the places of a `FillTask`."""

    words: tuple[str, ...] = field(repr=False)


Filled = Sanitised | PartlyFilled | FilledPlaces | GatewayError


@dataclass(frozen=True)
class FillTask(SanitizeTask):
    """The next `places` of a document. Its text is a part of the document, in which the places to the left are filled.
    `masks` are all places in it. `epsilon_nano` is that of one place. Its result is a `FilledPlaces`."""

    masks: Sequence[Mask] = ()
    places: int = 0

    @property
    def needs_recognisers(self) -> bool:
        """The document was inspected in its first step."""
        return False

    @property
    def weight(self) -> int:
        return self.places * PLACE_TOKENS


@dataclass(frozen=True)
class RestTask:
    """A document whose first places are filled. Only its pieces are run, one after the other: each needs the words of
    the one before it. `slot_epsilon_nano`: the epsilon of each place, None for a fill without a price."""

    document: SanitizeTask
    filled: PartlyFilled
    slot_epsilon_nano: int | None
    only_pieces = True

    @classmethod
    def of(cls, document: SanitizeTask, filled: PartlyFilled) -> RestTask:
        """The rest of `document` after its first places."""
        epsilon_nano = document.epsilon_nano
        if epsilon_nano is not None:
            epsilon_nano = slot_epsilon_nano(epsilon_nano, scope=document.scope, slots=len(filled.masks))
        return cls(document, filled, epsilon_nano)

    @property
    def task(self) -> Task:
        return Task(self, self.filled.left * PLACE_TOKENS, stepwise=True)

    def pieces(self, weight_max: int) -> Pieces:
        """The next places as one piece. See `gpu_workers.engine.protocol.Divisible`."""
        places = min(self.filled.left, places_of(weight_max))
        text, masks = self.filled.part(places)
        own = self.document
        step = FillTask(
            text, own.policy, own.fill, self.slot_epsilon_nano, k=own.k, model=own.model, masks=masks, places=places
        )
        return Pieces([Task(step, step.weight)], self._continued)

    def _continued(self, results: Sequence[FilledPlaces]) -> Task | Joined:
        filled = self.filled.filled(results[0].words)
        return (
            RestTask(self.document, filled, self.slot_epsilon_nano).task if filled.left else Joined(filled.sanitised())
        )
