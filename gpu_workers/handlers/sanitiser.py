"""The handler that a worker process runs for `POST /sanitize`.

`warm_up` loads every list and recogniser, and prevents a worker that misses planted data from serving. A batch returns
one result or one error for each document, or window of a document, in order. Errors hold no text, and a document that
fails does not affect the others.

A document with many words or values is drawn in parts (`gpu_workers.handlers.sanitize_tasks`). The released
distribution is that of the undivided document, and each draw is made in one part only:

* `metric_dp`: each word has its own draw, which is independent of all others given the word (`core.mechanisms.words`).
  Equal words are in the same part, where they share work but not their draws. Their draws are identically distributed,
  so any of them may take any place.
* `surrogate`: a value's draw depends on the value and the terms of the document alone, which every part has
  (`core.text.fill_surrogate`). The last step draws another one where two parts have drawn the same.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import GatewayError, InvalidInput, TaskFailed
from core.guarded import guarded
from core.mechanisms.words import replacement
from core.mechanisms.words.pricing import EXPONENTIAL, LAPLACE, MECHANISMS
from core.mechanisms.words.replacement import NOISE_DIMENSION, ExponentialWords, LaplaceWords, WordMechanism
from core.text.fill_surrogate import MaskedValue, distinct, document, draw, in_places, values_of
from core.text.languages import UNKNOWN, guess, language_of
from core.text.mask_words import AllowLists
from core.text.masks import WindowFinds
from core.text.model_fills import PartlyFilled
from core.text.own_recognisers.recogniser import DraftFinds
from core.text.policy import (
    ENTITIES,
    FILLS,
    METRIC_DP,
    MODEL_FILLS,
    PRICED_FILLS,
    SURROGATE,
    TECHNIQUES,
    MaskPolicy,
    Sanitised,
    SanitizeTask,
    Spans,
    supported,
)
from core.text.reversible.mapping import MaskedConversation
from core.text.sanitize import (
    Inspected,
    fill_in,
    fill_masks,
    finds_only,
    inspect,
    inspect_words,
    put,
    replace_words,
    sanitize,
    words_of,
)
from core.text.surrogates.draw import Document
from gpu_workers.engine.handler import CanaryMissed, UnfitDevice
from gpu_workers.facts import SanitiserFacts, WordVectorFacts
from gpu_workers.handlers import conversation_tasks
from gpu_workers.handlers.conversation_tasks import Beginning, MaskTask, RestoreTask
from gpu_workers.handlers.own_finder import DraftTask, OwnFinder, tried
from gpu_workers.handlers.recognition import Finds, joined, recognise
from gpu_workers.handlers.sanitize_tasks import (
    DocumentTask,
    Filled,
    FilledPlaces,
    FillTask,
    SurrogateTask,
    WindowTask,
    WordsToDraw,
    WordTask,
)
from gpu_workers.models.sources import INFILL_OFF, TAGGER_OFF, InfillSource

if TYPE_CHECKING:
    from gpu_workers.handlers.entity_tagger import NameFinder
    from gpu_workers.handlers.filler import Filler


_DRAWS_PER_WORD = 8  # a further draw of a word is several times as fast as the first, for either mechanism


def step(task: DocumentTask, finds: Finds, found: Inspected, lists: AllowLists) -> WordsToDraw | Sanitised | None:
    """The result of the first or the last step of a document that is drawn in parts; None for any other task, and for a
    document of one part."""
    surrogates = task.fill == SURROGATE
    if task.drawn is not None:
        return _with_surrogates(task, found, task.drawn, lists) if surrogates else _with_words(found, task.drawn)
    if task.fill not in (SURROGATE, METRIC_DP) or task.places_max is None:
        return None
    parts = _value_parts(found, task.places_max) if surrogates else _word_parts(found, task.places_max)
    if len(parts) < 2:
        return None
    terms = _terms(task, found).packed() if surrogates else b""
    return WordsToDraw(parts, tuple(each for each in finds if isinstance(each, WindowFinds)), terms)


def _terms(task: DocumentTask, found: Inspected) -> Document:
    values = values_of(found.text, found.masks)
    return document(values, key=task.surrogate_key, language=found.reading.language)


def draw_part(task: WordTask | SurrogateTask, mechanisms: Mapping[str, WordMechanism], lists: AllowLists) -> bytes:
    """Return a draw for each word or value of a part."""
    if isinstance(task, WordTask):
        words = _words(task.part)
        return _packed(mechanisms[task.mechanism].release(words, [task.epsilon_nano] * len(words)))
    values = [MaskedValue(*each) for each in json.loads(task.part)]
    return _packed(draw(values, Document.unpacked(task.terms), task.policy, lists))


def _word_parts(found: Inspected, words_max: int) -> tuple[bytes, ...]:
    """The words to draw, in parts of at most `words_max` different words, and some more equal ones."""
    parts: list[list[tuple[str, int]]] = [[]]
    draws = 0
    for word, count in Counter(word for region in words_of(found) for word in region).items():
        left = count
        while left:
            if len(parts[-1]) == words_max or draws == words_max * _DRAWS_PER_WORD:
                parts.append([])
                draws = 0
            own = min(left, words_max * _DRAWS_PER_WORD - draws)
            parts[-1].append((word, own))
            draws, left = draws + own, left - own
    return tuple(_packed(part) for part in parts)


def _value_parts(found: Inspected, values_max: int) -> tuple[bytes, ...]:
    """The values that need a surrogate, in parts of at most `values_max`."""
    values = values_of(found.text, found.masks)
    return tuple(_packed(values[start : start + values_max]) for start in range(0, len(values), values_max))


def _with_words(found: Inspected, drawn: Sequence[tuple[bytes, bytes]]) -> Sanitised:
    """The document with the words that were drawn for its parts. Raises an error if they do not fit."""
    own: dict[str, list[str]] = defaultdict(list)
    for part, words in drawn:
        for word, new in zip(_words(part), json.loads(words), strict=True):
            own[word].append(new)

    def in_order() -> Iterator[str]:
        for region in words_of(found):
            for word in region:
                yield own[word].pop()

    return put(found, in_order())


def _with_surrogates(
    task: DocumentTask, found: Inspected, drawn: Sequence[tuple[bytes, bytes]], lists: AllowLists
) -> Sanitised:
    """The document with the values that were drawn for its parts. Raises an error if they do not fit."""
    own = [value for _, part in drawn for value in json.loads(part)]
    values = values_of(found.text, found.masks)
    fills = distinct(values, own, _terms(task, found), task.policy, lists)
    return fill_in(found, in_places(found.text, found.masks, fills))


def _packed(value: object) -> bytes:
    return json.dumps(value).encode()


def _words(part: bytes) -> list[str]:
    return [word for word, count in json.loads(part) for _ in range(count)]


# Fictitious data: a reserved domain, a number for fiction, a test card, and the example IBAN of the standard.
CANARY = "Write to jo@example.org, call (202) 555-0143, card 4111 1111 1111 1111, IBAN GB82 WEST 1234 5698 7654 32."
CANARY_VALUES = {
    "EMAIL_ADDRESS": "jo@example.org",
    "PHONE_NUMBER": "(202) 555-0143",
    "CREDIT_CARD": "4111 1111 1111 1111",
    "IBAN_CODE": "GB82 WEST 1234 5698 7654 32",
}
Result = (
    Sanitised
    | PartlyFilled
    | FilledPlaces
    | WordsToDraw
    | bytes
    | WindowFinds
    | DraftFinds
    | MaskedConversation
    | list[str]
    | list[Beginning]
    | GatewayError
)
AnyTask = SanitizeTask | WindowTask | WordTask | SurrogateTask | DraftTask | MaskTask | RestoreTask

_CANARY_EPSILON_NANO = 10**9
_MODEL = "model"  # a key beside the names of the word mechanisms
_PACKAGES = ("presidio-analyzer", "phonenumbers", "wordfreq", "faker", "sentencex", "google-re2", "pyahocorasick")


class Sanitiser:
    """`allow_list_dir`: the operator's own lists, one `<name>.txt` each. `places_max`: the most masked places of a
    document. For the others, see `WorkerOptions`."""

    def __init__(
        self,
        *,
        allow_list_dir: Path | None = None,
        tagger: str = TAGGER_OFF,
        infill: InfillSource = INFILL_OFF,
        fill_slots_max: int = 1,
        places_max: int = 100_000,
        infill_models_loaded_max: int = 1,
        recognisers_loaded_max: int = 1,
        device: str = "cpu",
        threads: int = 0,
    ) -> None:
        self._lists = AllowLists(allow_list_dir)
        self._places_max = places_max
        # Importing torch costs one second and 170 MB, and a worker without a model does not need it.
        if tagger != TAGGER_OFF or infill != INFILL_OFF:
            from gpu_workers.models.device import torch_device

            device = str(torch_device(device, threads))
        self._own = OwnFinder(loaded_max=recognisers_loaded_max)
        self._names: NameFinder | None = None
        if tagger != TAGGER_OFF:
            from gpu_workers.handlers.entity_tagger import NameFinder

            self._names = NameFinder(tagger, device=device)
        self._filler: Filler | None = None
        if infill != INFILL_OFF:
            from gpu_workers.handlers.filler import Filler

            self._filler = Filler(
                infill, device=device, slots_max=fill_slots_max, models_loaded_max=infill_models_loaded_max
            )
        self._vocabulary = replacement.shipped()
        self._words: dict[str, WordMechanism] = {
            EXPONENTIAL: ExponentialWords(self._vocabulary),
            LAPLACE: LaplaceWords(self._vocabulary.leading(NOISE_DIMENSION)),
        }

    def warm_up(self) -> SanitiserFacts:
        """Load every list, and check each recogniser and fill with planted data. Raises CanaryMissed, UnfitDevice, or
        the error of a list that does not load."""
        for name in self._lists.names:
            self._lists.words(name)
        if self._names:
            self._names.check()
        guess(CANARY)  # loads the model
        entities = supported(self._names.types if self._names else ())
        masked = MaskPolicy(techniques=tuple(TECHNIQUES))
        for fill in FILLS:
            sanitize(CANARY, masked, fill, lists=self._lists)
            result = sanitize(CANARY, MaskPolicy(), fill, lists=self._lists)
            found = {span.type for span in result.spans}
            for entity, value in CANARY_VALUES.items():
                if value in result.text or entity not in found:
                    raise CanaryMissed(f"the canary of {entity} was not masked")
        self._check_words(masked)
        if self._filler:
            self._filler.check()
        return SanitiserFacts(
            techniques=tuple(TECHNIQUES),
            fills=(*FILLS, METRIC_DP, *(self._filler.modes if self._filler else ())),
            infill=self._filler.facts() if self._filler else None,
            word_vectors=WordVectorFacts(words=len(self._vocabulary.words), dimension=self._vocabulary.dimension),
            word_mechanisms=tuple(MECHANISMS),
            tagger=self._names.facts() if self._names else None,
            entities=tuple(entities),
            default_entities=tuple(name for name in entities if ENTITIES[name].default),
            thresholds={name: ENTITIES[name].threshold for name in entities},
            allow_lists=tuple(self._lists.names),
            versions={name: metadata.version(name) for name in _PACKAGES},
        )

    def _check_words(self, policy: MaskPolicy) -> None:
        if not self._vocabulary.self_check():
            raise UnfitDevice("this device does not compute distances between words exactly")
        known = set(self._vocabulary.words)
        for result in self.run(
            [SanitizeTask(CANARY, policy, METRIC_DP, _CANARY_EPSILON_NANO, mechanism) for mechanism in MECHANISMS]
        ):
            if not isinstance(result, Sanitised) or not known.issuperset(result.text.split()):
                raise CanaryMissed("the output contains a word outside the public vocabulary")

    def run(self, tasks: Sequence[AnyTask]) -> list[Result]:
        """Return one answer for each task, in order."""
        return self.prepare(tasks)()

    def prepare(self, tasks: Sequence[AnyTask]) -> Callable[[], list[Result]]:
        """See `Handler.prepare`. Three steps run once for the whole batch: the tagger reads all windows, each word
        mechanism draws for all its `metric_dp` tasks, and the model fills the blanks of all its tasks."""
        answers: dict[int, Result] = {}
        alone: dict[int, Inspected] = {}
        found: dict[str, dict[int, Inspected]] = {}
        for index, (task, finds) in enumerate(zip(tasks, recognise(tasks, self._names, self._own), strict=True)):
            if isinstance(task, WindowTask):
                (answers[index],) = finds
                continue
            if isinstance(task, DraftTask):
                answers[index] = guarded(tried, task)
                continue
            if isinstance(task, MaskTask | RestoreTask):
                answers[index] = guarded(conversation_tasks.run, task)
                continue
            if isinstance(task, WordTask | SurrogateTask):
                continue
            inspected = guarded(self._inspected, task, finds)
            if isinstance(inspected, GatewayError | Sanitised):
                answers[index] = inspected
            elif (
                isinstance(task, DocumentTask)
                and (own := guarded(step, task, finds, inspected, self._lists)) is not None
            ):
                answers[index] = own
            elif task.fill == METRIC_DP or task.fill in MODEL_FILLS:
                found.setdefault(task.mechanism if task.fill == METRIC_DP else _MODEL, {})[index] = inspected
            else:
                alone[index] = inspected
        documents = {index: task for index, task in enumerate(tasks) if isinstance(task, SanitizeTask)}
        parts = {index: task for index, task in enumerate(tasks) if isinstance(task, WordTask | SurrogateTask)}
        by_model = found.pop(_MODEL, {})
        fill = self._by_model({index: documents[index] for index in by_model}, by_model)

        def draw() -> list[Result]:
            for index, inspected in alone.items():
                task = documents[index]
                answers[index] = guarded(self._filled, task, inspected)
            answers.update(fill())
            for index, part in parts.items():
                answers[index] = guarded(draw_part, part, self._words, self._lists)
            for mechanism, own in found.items():
                epsilons = [documents[index].epsilon_nano or 0 for index in own]
                replaced = guarded(replace_words, list(own.values()), epsilons, self._words[mechanism])
                if isinstance(replaced, GatewayError):
                    answers.update(dict.fromkeys(own, replaced))
                else:
                    answers.update(zip(own, replaced, strict=True))
            return [answers[index] for index in range(len(tasks))]

        return draw

    def _filled(self, task: SanitizeTask, found: Inspected) -> Sanitised:
        return fill_masks(
            found,
            task.policy,
            task.fill,
            self._lists,
            surrogate_key=task.surrogate_key,
            language=found.reading.language,
        )

    def _inspected(self, task: SanitizeTask, finds: Finds) -> Inspected | Sanitised:
        """The regions to fill, or the result of a document that is not filled: one that its policy refuses, or one of a
        dry run."""
        if isinstance(task, FillTask):
            return Inspected(task.text, (), task.masks)
        if task.fill in PRICED_FILLS:  # the language of a private text is private
            return self._checked(inspect_words(task.text, task.policy, self._lists, joined(task, finds)))
        language = language_of(task.text, task.policy)
        if language is None:
            return Sanitised("", Spans.of(()), 0, 0, language=UNKNOWN, refused=True)
        form = task.form if isinstance(task, DocumentTask) else None
        found = inspect(task.text, task.policy, self._lists, joined(task, finds), form, explain=task.explain)
        found = self._checked(replace(found, reading=replace(found.reading, language=language)))
        return finds_only(found) if task.dry_run else found

    def _checked(self, found: Inspected) -> Inspected:
        if len(found.masks) > self._places_max:
            raise InvalidInput(f"a document has at most {self._places_max} masked places", field="documents")
        return found

    def _by_model(
        self, tasks: Mapping[int, SanitizeTask], found: Mapping[int, Inspected]
    ) -> Callable[[], dict[int, Filled]]:
        if not tasks:
            return dict
        if self._filler is None or not {task.fill for task in tasks.values()} <= set(self._filler.modes):
            raise TaskFailed(reason="no-model")  # the gateway requests only the fills that this worker has reported
        return self._filler.prepare(tasks, found, self._lists)
