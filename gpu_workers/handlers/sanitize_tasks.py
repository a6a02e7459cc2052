"""The tasks of the sanitise and fill roles. The front end builds them, so this module imports no recogniser.

Recognisers run in windows of a long document (`core.text.windows`). The engine runs the windows as tasks of their own,
so that short documents of other tenants run between them. The task that follows joins the finds and fills the document.
A document with a fill of a language model is filled in steps of a few places (`gpu_workers.handlers.fill_tasks`); all
other randomness belongs to one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.text.partly_filled import PartlyFilled
from core.text.policy import DP, METRIC_DP, MODEL_FILLS, MaskPolicy, SanitizeTask
from core.text.recognised import WindowFinds
from core.text.visible import visible
from core.text.windows import windows
from gpu_workers.engine.protocol import Joined, Pieces, Task
from gpu_workers.handlers.fill_tasks import PLACE_TOKENS, RestTask, places_of

_CHARS_PER_TOKEN = 4
_TOKENS_PER_PLACE = 16  # of a long text, on average; how many places a text has is known once it has been inspected
_PLACES_FEW = 10  # a short text may consist of masked places
_TOKENS_PER_ENTITY = 8  # of a short text
_REST_SHARE = 16  # without recognisers, a model or draws, a text takes at most 1/16 of the time of the tagger
_DRAW_SHARE = 3  # the draws of `metric_dp` for a text of different words take 1/3 of that time


@dataclass(frozen=True)
class WindowTask:
    """One window of a document, for the recognisers of the technique `entity`. Its result is a `WindowFinds`."""

    text: str = field(repr=False)
    policy: MaskPolicy

    @property
    def weight(self) -> int:
        return _tokens(self.text)


@dataclass(frozen=True)
class DocumentTask(SanitizeTask):
    """A document of a request. `finds`: what recognisers found in its windows, if those ran as tasks of their own.
    `places_max`: the most places that a model fills in this task, all if None; if the document has more, the result is
    a `PartlyFilled`."""

    finds: Sequence[WindowFinds] | None = field(default=None, repr=False)
    places_max: int | None = None

    @property
    def weight(self) -> int:
        """The estimated work, in tokens."""
        tokens = _tokens(self.text)
        reading = tokens if self.finds is None else tokens // _REST_SHARE + 1
        filling = self._filling(tokens) if self.fill in MODEL_FILLS else 0
        drawing = tokens // _DRAW_SHARE if self.fill == METRIC_DP else 0
        return reading + filling + drawing

    @property
    def stepwise(self) -> bool:
        """Whether places are filled in steps. See `gpu_workers.engine.protocol.Task`."""
        return self.fill in MODEL_FILLS and self.places_max is None

    def _filling(self, tokens: int) -> int:
        if self.fill == DP and self.policy.whole:
            places = tokens
        else:
            few = tokens // _TOKENS_PER_ENTITY + 1 if self.policy.techniques == ("entity",) else tokens
            places = max(tokens // _TOKENS_PER_PLACE, min(_PLACES_FEW, few))
        return min(places, self.places_max or places) * min(PLACE_TOKENS, tokens + 1)

    def pieces(self, weight_max: int) -> Pieces | None:
        """The windows of a document that has more than one, which must not depend on an engine's limits. Then, for a
        model fill, the first places. See `gpu_workers.engine.protocol.Divisible`."""
        own = window_tasks(self) if self.finds is None and self.places_max is None else []
        if len(own) > 1:
            return Pieces([Task(window, window.weight) for window in own], self._with)
        if not self.stepwise:
            return None
        first = replace(self, places_max=places_of(weight_max))
        return Pieces([Task(first, first.weight)], self._continued)

    def _with(self, finds: Sequence[Any]) -> Task:
        task = replace(self, finds=tuple(finds))
        return Task(task, task.weight, stepwise=task.stepwise)

    def _continued(self, results: Sequence[Any]) -> Task | Joined:
        (result,) = results
        return RestTask.of(self, result).task if isinstance(result, PartlyFilled) else Joined(result)


def window_tasks(task: SanitizeTask) -> list[WindowTask]:
    """Return the windows of a document that recognisers must read."""
    if not task.needs_recognisers:
        return []
    text = visible(task.text)
    return [WindowTask(text[window.start : window.end], task.policy) for window in windows(text)]


def _tokens(text: str) -> int:
    return len(text) // _CHARS_PER_TOKEN + 1
