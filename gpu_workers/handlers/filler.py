"""The fills of a language model, in the sanitise worker. The regions of many documents are filled together.

The texts have already been inspected. `core.text.model_fills` documents what the model reads.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from core.errors import GatewayError, InstalledFileBroken, InvalidInput
from core.files.disk import FileVersion
from core.guarded import guarded
from core.mechanisms.words.token_selection import scores
from core.text.fill_top_k import top_1, top_k
from core.text.mask_words import AllowLists
from core.text.model_fills import CLIP, Blank, FillStrategy, InfillModel, PartlyFilled, dp_draws, first_words, slots_of
from core.text.policy import DP, MODEL_FILLS, TOP_1, SanitizeTask
from core.text.sanitize import Inspected, fill_in
from gpu_workers.facts import InfillFacts
from gpu_workers.handlers.options import FileCache
from gpu_workers.handlers.sanitize_tasks import DocumentTask, Filled, FilledPlaces, FillTask
from gpu_workers.models.infill_sources import infill_model, tuned_infill
from gpu_workers.models.sources import Endpoint, InfillSource

_CANARY = Blank("The parcel was sent from the ", (" near our ", "."))


class Filler:
    """`source`: see `WorkerOptions.infill`, not off. `slots_max`: the most regions of a document that are filled.
    `models_loaded_max`: the number of fine-tuned models that are kept in memory.

    Raises: ValueError for a folder without a model that can fill.
    """

    def __init__(self, source: InfillSource, *, device: str, slots_max: int, models_loaded_max: int) -> None:
        self._source = source
        self._model: InfillModel = infill_model(source, device=device)
        self._slots_max = slots_max
        self._device = device
        self._own = FileCache(self._load, loaded_max=models_loaded_max)

    @property
    def modes(self) -> tuple[str, ...]:
        return tuple(mode for mode in MODEL_FILLS if mode != DP or self._model.candidates)

    def facts(self) -> InfillFacts:
        listed = self._model.candidates
        return InfillFacts(
            name=self._model.name,
            modes=self.modes,
            candidates=None if listed is None else len(listed),
            candidates_fingerprint=None if listed is None else listed.fingerprint,
        )

    def check(self) -> None:
        """Fill a canary. Raises RuntimeError if no word is returned for a word blank, or ValueError if no number is
        returned for a number blank.

        An endpoint is not called: while it is down, fills that need no model must continue to work, and it may recover
        later.
        """
        if isinstance(self._source, Endpoint):
            return
        _check_fills(self._model)
        if self._model.candidates:
            scores(self._model.logits([_CANARY]), clip=CLIP)

    def prepare(
        self, tasks: Mapping[int, SanitizeTask], found: Mapping[int, Inspected], lists: AllowLists
    ) -> Callable[[], dict[int, Filled]]:
        """See `Handler.prepare` of `gpu_workers.engine.handler`. The draw returns one answer for each task."""
        refused: dict[int, GatewayError] = {}
        strategies: dict[int, FillStrategy] = {}
        inspected = dict(found)
        for number, task in tasks.items():
            if task.fill == DP and not isinstance(task, FillTask):
                inspected[number] = slots_of(found[number], task.policy)
            if len(inspected[number].masks) > self._slots_max and not isinstance(task, FillTask):
                refused[number] = InvalidInput(
                    f"a model fills at most {self._slots_max} masked places of a document", field="documents"
                )
            else:
                strategies[number] = self._strategy(task, inspected[number], lists)
        together: dict[FileVersion | None, list[int]] = {}
        for number in strategies:
            together.setdefault(tasks[number].model, []).append(number)

        def draw() -> dict[int, Filled]:
            answers = dict[int, Filled](refused)
            for file, numbers in together.items():
                # Use one model after another: `models_loaded_max` limits how many are in memory.
                model = guarded(self._own.get, file) if file else self._model
                if isinstance(model, GatewayError):
                    answers |= dict.fromkeys(numbers, model)
                    continue
                filled = first_words(
                    [inspected[number] for number in numbers],
                    [strategies[number] for number in numbers],
                    model,
                    [_count(tasks[number], inspected[number]) for number in numbers],
                )
                for number, words in zip(numbers, filled, strict=True):
                    answers[number] = _answer(tasks[number], inspected[number], words)
            return answers

        return draw

    def _load(self, file: FileVersion) -> InfillModel:
        """Load a model that a tenant has fine-tuned. Raises InstalledFileBroken."""
        try:
            model = tuned_infill(self._source, self._model, Path(file.path), device=self._device)
            _check_fills(model)
        except Exception:  # the file cannot be used, whatever the reason
            broken = InstalledFileBroken(code="infill-broken")
        else:
            return model
        raise broken

    def _strategy(self, task: SanitizeTask, found: Inspected, lists: AllowLists) -> FillStrategy:
        if task.fill == TOP_1:
            return top_1()
        if task.fill == DP and self._model.candidates:
            return dp_draws(found, task.epsilon_nano or 0, self._model.candidates, scope=task.scope)
        return top_k(found.masks, task.policy, lists, count=task.k, considered=self._model.considered)


def _count(task: SanitizeTask, found: Inspected) -> int:
    """The number of places to fill in this task."""
    if isinstance(task, FillTask):
        return task.places
    places_max = task.places_max if isinstance(task, DocumentTask) else None
    return min(len(found.masks), places_max or len(found.masks))


def _answer(task: SanitizeTask, found: Inspected, words: list[str] | GatewayError) -> Filled:
    if isinstance(words, GatewayError):
        return words
    if isinstance(task, FillTask):
        return FilledPlaces(tuple(words))
    return fill_in(found, words) if len(words) == len(found.masks) else PartlyFilled.of(found, words)


def _check_fills(model: InfillModel) -> None:
    """Raises RuntimeError if no word is returned."""
    if not model.ranked([_CANARY], count=1)[0][0].strip():
        raise RuntimeError("the infill model returned no word")
