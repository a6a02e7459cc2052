"""The tasks of the sanitise and fill roles. The front end builds them, so this module imports no recogniser.

Recognisers run in windows of a long document (`core.text.windows`). The engine runs the windows as tasks of their own,
so that short documents of other tenants run between them. The task that follows joins the finds and fills the document.

A language model fills a document in steps of a few places. The first step is the document's own task, which masks it
and fills its first places. Each further step fills the next ones. A step has about the size of a piece, so that
documents of other tenants run between two steps. Why this does not change the distribution of the result, and why no
place is drawn twice: `core.text.model_fills`. If a step fails, the document fails and none of its places is drawn
again.

For a document with many words or values, `metric_dp` and `surrogate` draw in parts. The document's first step masks it
and lists what to draw. Each part is drawn by a task of its own. The last step masks the document again, from the same
finds, and puts the results in their places; it draws nothing. `gpu_workers.handlers.sanitiser` has the argument that
the distribution of the result does not change. If a part fails, the document fails. Parts and results are bytes, so
that the front end passes them on without reading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from core.errors import GatewayError
from core.files.disk import FileVersion
from core.mechanisms.words.pricing import slot_epsilon_nano
from core.text.formats.form import Form
from core.text.masks import WindowFinds
from core.text.model_fills import PartlyFilled
from core.text.policy import DP, FILLS, METRIC_DP, MODEL_FILLS, SURROGATE, Mask, MaskPolicy, Sanitised, SanitizeTask
from core.text.segment import visible
from core.text.windows import WINDOW_CHARS, estimated_pieces, near_core, windows
from gpu_workers.engine.protocol import Divided, Joined, Task


@dataclass(frozen=True)
class WordsToDraw:
    """What to draw for a document, in parts, and what recognisers found in the document's windows. `terms`: of the
    document, for `surrogate` (`core.text.surrogates.draw`)."""

    parts: tuple[bytes, ...] = field(repr=False)
    finds: tuple[WindowFinds, ...] = field(repr=False)
    terms: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class WordTask:
    """A part of a document with `metric_dp`. Its result is the drawn words. Units: epsilon in nano, per unit of
    distance."""

    part: bytes = field(repr=False)
    mechanism: str
    epsilon_nano: int


@dataclass(frozen=True)
class SurrogateTask:
    """A part of a document with `surrogate`. Its result is the drawn values."""

    part: bytes = field(repr=False)
    terms: bytes = field(repr=False)
    policy: MaskPolicy


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

    def pieces(self, weight_max: int) -> Divided:
        """The next places as one piece. See `gpu_workers.engine.protocol.Divisible`."""
        places = min(self.filled.left, places_of(weight_max))
        text, masks = self.filled.part(places)
        own = self.document
        step = FillTask(
            text, own.policy, own.fill, self.slot_epsilon_nano, k=own.k, model=own.model, masks=masks, places=places
        )
        return Divided([Task(step, step.weight)], self._continued)

    def _continued(self, results: Sequence[FilledPlaces]) -> Task | Joined:
        filled = self.filled.filled(results[0].words)
        return (
            RestTask(self.document, filled, self.slot_epsilon_nano).task if filled.left else Joined(filled.sanitised())
        )


_CHARS_PER_TOKEN = 4
_TEXT_TOKENS = 10  # what each text takes beside its characters: 4 ms for a word, where a piece of a long text takes .33
_TOKENS_PER_PLACE = 16  # of a long text, on average; how many places a text has is known once it has been inspected
_PLACES_FEW = 10  # a short text may consist of masked places
_TOKENS_PER_ENTITY = 8  # of a short text
_REST_SHARE = 16  # without recognisers, a model or draws, a text takes at most 1/16 of the time of the tagger
# the draws for a text of different words or values take this part of that time
_DRAW_SHARES = {METRIC_DP: 2, SURROGATE: 3}


@dataclass(frozen=True)
class WindowTask:
    """One window of a document, for the recognisers of the technique `entity`. Its result is a `WindowFinds`.

    `model`: what fills the document afterwards, so that a worker without it refuses the first window. `tagged`: the
    characters that a tagger reads, all if None.
    """

    text: str = field(repr=False)
    policy: MaskPolicy
    model: FileVersion | None = None
    tagged: tuple[int, int] | None = None
    pauses = True  # between two batches of the tagger

    @property
    def weight(self) -> int:
        return _tokens(self.text)


@dataclass(frozen=True)
class DocumentTask(SanitizeTask):
    """A document of a request. `finds`: what recognisers found in its windows, if those ran as tasks of their own.
    `places_max`: the most places that this task fills, all if None; if the document has more, the result is a
    `PartlyFilled` or a `WordsToDraw`. `drawn`: the parts of a `WordsToDraw` with their draws. `form`: that of a
    structured document, whose text is then the view of the form."""

    finds: Sequence[WindowFinds] | None = field(default=None, repr=False)
    places_max: int | None = None
    drawn: tuple[tuple[bytes, bytes], ...] | None = field(default=None, repr=False)
    form: Form | None = field(default=None, repr=False)
    # Patterns are exact. The tagger's choice at its threshold has no guarantee, and a draw has one for each place.
    any_worker = True

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is computed once, such as the windows."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def _tokens(self) -> int:
        return _tokens(self.text)

    @cached_property
    def _windows(self) -> list[Task]:
        """Its windows as tasks. They are cut once, where the weight is asked for: for a megabyte that takes a tenth of
        a second, which must not be one of the event loop."""
        return [Task(window, window.weight) for window in window_tasks(self)]

    @property
    def interruptible(self) -> bool:
        """Whether a long document is only masked and filled without a model: its windows have been read, or need no
        recogniser."""
        read = self.finds is not None or not self.needs_recognisers
        return self.fill not in MODEL_FILLS and read and len(self.text) > WINDOW_CHARS

    @property
    def interruptible_draw(self) -> bool:
        """Whether nothing is drawn under a guarantee."""
        return self.interruptible and self.fill in FILLS

    @property
    def weight(self) -> int:
        """The estimated work, in tokens."""
        tokens = self._tokens
        if self.finds is None and not self._in_parts:
            _ = self._windows
        reading = tokens if self.finds is None else tokens // _REST_SHARE + 1
        filling = self._filling(tokens) if self.fill in MODEL_FILLS else 0
        drawing = tokens // _DRAW_SHARES[self.fill] if self.fill in _DRAW_SHARES and not self._in_parts else 0
        return reading + filling + drawing

    @property
    def stepwise(self) -> bool:
        """Whether places are filled in steps. See `gpu_workers.engine.protocol.Task`."""
        return self.fill in MODEL_FILLS and self.places_max is None

    @property
    def _in_parts(self) -> bool:
        """Whether this is the first or the last step of a document that is divided."""
        return self.places_max is not None or self.drawn is not None

    def _filling(self, tokens: int) -> int:
        if self.fill == DP and self.policy.whole:
            places = tokens
        else:
            few = tokens // _TOKENS_PER_ENTITY + 1 if self.policy.techniques == ("entity",) else tokens
            places = max(tokens // _TOKENS_PER_PLACE, min(_PLACES_FEW, few))
        return min(places, self.places_max or places) * min(PLACE_TOKENS, tokens + 1)

    def pieces(self, weight_max: int) -> Divided | None:
        """The windows of a document that has more than one, which must not depend on an engine's limits. Then, for a
        model fill, `metric_dp` or `surrogate`, its first step. See `gpu_workers.engine.protocol.Divisible`."""
        if self._in_parts:
            return None
        own = self._windows if self.finds is None else []
        if len(own) > 1:
            return Divided(own, self._with)
        if self.fill not in (*MODEL_FILLS, *_DRAW_SHARES):
            return None
        first = self._changed(places_max=weight_max if self.fill in _DRAW_SHARES else places_of(weight_max))
        return Divided([Task(first, first.weight)], self._continued)

    def _changed(self, **members: Any) -> DocumentTask:
        """The task with other members and the same text, whose tokens are known."""
        changed = replace(self, **members)
        changed.__dict__["_tokens"] = self._tokens
        return changed

    def _with(self, finds: Sequence[Any]) -> Task:
        task = self._changed(finds=tuple(finds))
        return Task(task, task.weight, stepwise=task.stepwise)

    def _continued(self, results: Sequence[Any]) -> Task | Joined:
        (result,) = results
        if isinstance(result, PartlyFilled):
            return RestTask.of(self, result).task
        if isinstance(result, WordsToDraw):
            rest = _DrawTask(self, result)
            return Task(rest, self.weight, stepwise=True)
        return Joined(result)


@dataclass(frozen=True)
class _DrawTask:
    """A document whose words are to be drawn. Only its pieces are run."""

    document: DocumentTask
    words: WordsToDraw
    only_pieces = True

    def pieces(self, weight_max: int) -> Divided:
        """Draw the parts, then put the words in their places. See `gpu_workers.engine.protocol.Divisible`."""
        own = self.document

        def join(drawn: Sequence[bytes]) -> Task:
            last = own._changed(finds=self.words.finds, drawn=tuple(zip(self.words.parts, drawn, strict=True)))
            return Task(last, last.weight)

        parts: list[WordTask | SurrogateTask] = [
            SurrogateTask(part, self.words.terms, own.policy)
            if own.fill == SURROGATE
            else WordTask(part, own.mechanism, own.epsilon_nano or 0)
            for part in self.words.parts
        ]
        return Divided([Task(part, weight_max) for part in parts], join)


def window_tasks(task: SanitizeTask) -> list[WindowTask]:
    """Return the windows of a document that recognisers must read."""
    if not task.needs_recognisers:
        return []
    text = visible(task.text)
    found = []
    for window in windows(text):
        own = text[window.start : window.end]
        found.append(WindowTask(own, task.policy, task.model, near_core(window, own)))
    return found


def _tokens(text: str) -> int:
    """Return the estimated work of reading a text: patterns read characters, and a tagger reads word pieces."""
    return max(len(text) // _CHARS_PER_TOKEN, estimated_pieces(text)) + _TEXT_TOKENS
