"""The tasks of the sanitise and fill roles. The front end builds them, so this module imports no recogniser.

Recognisers run in windows of a long document (`core.text.windows`). The engine runs the windows as tasks of their own,
so that short documents of other tenants run between them. Everything else, including all randomness, belongs to the
task that follows: it joins the finds and fills the whole document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.text.piece_estimate import estimated_pieces
from core.text.policy import METRIC_DP, MODEL_FILLS, MaskPolicy, SanitizeTask
from core.text.recognised import WindowFinds
from core.text.visible import visible
from core.text.windows import windows
from gpu_workers.engine.protocol import Pieces, Task

_CHARS_PER_TOKEN = 4
_FILL_WORK = 3  # of a model fill, in units of reading the text once: each place is read with its surroundings
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
    """A document of a request. `finds`: what recognisers found in its windows, if those ran as tasks of their own."""

    finds: Sequence[WindowFinds] | None = field(default=None, repr=False)

    @property
    def weight(self) -> int:
        """The estimated work, in tokens."""
        tokens = _tokens(self.text)
        reading = tokens if self.finds is None else tokens // _REST_SHARE + 1
        filling = _FILL_WORK * tokens if self.fill in MODEL_FILLS else 0
        drawing = tokens // _DRAW_SHARE if self.fill == METRIC_DP else 0
        return reading + filling + drawing

    def pieces(self, weight_max: int) -> Pieces | None:  # noqa: ARG002 - the masks must not depend on an engine's limits
        """The windows of a document that has more than one. See `gpu_workers.engine.protocol.Divisible`."""
        own = window_tasks(self) if self.finds is None else []
        return Pieces([Task(window, window.weight) for window in own], self._with) if len(own) > 1 else None

    def _with(self, finds: Sequence[Any]) -> Task:
        task = replace(self, finds=tuple(finds))
        return Task(task, task.weight)


def window_tasks(task: SanitizeTask) -> list[WindowTask]:
    """Return the windows of a document that recognisers must read."""
    if not task.needs_recognisers:
        return []
    text = visible(task.text)
    return [WindowTask(text[window.start : window.end], task.policy) for window in windows(text)]


def _tokens(text: str) -> int:
    """Return the estimated work of reading a text: patterns read characters, and a tagger reads word pieces."""
    return max(len(text) // _CHARS_PER_TOKEN, estimated_pieces(text)) + 1
