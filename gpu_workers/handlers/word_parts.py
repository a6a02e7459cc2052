"""What a worker does for the pieces of `gpu_workers.handlers.word_tasks`.

The released distribution is that of the undivided document, and each draw is made in one part only:

* `metric_dp`: each word has its own draw, which is independent of all others given the word (`core.mechanisms.words`).
  Equal words are in the same part, where they share work but not their draws. Their draws are identically distributed,
  so any of them may take any place.
* `surrogate`: a value's draw depends on the value and the terms of the document alone, which every part has
  (`core.text.fill_surrogate`). The last step draws another one where two parts have drawn the same.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from core.mechanisms.words.replacement import WordMechanism
from core.text.fill_surrogate import Value, distinct, document, draw, in_places, values_of
from core.text.mask_words import AllowLists
from core.text.masks import WindowFinds
from core.text.policy import METRIC_DP, SURROGATE, Sanitised
from core.text.sanitize import Inspected, fill_in, put, words_of
from core.text.surrogates.draw import Document
from gpu_workers.handlers.recognition import Finds
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from gpu_workers.handlers.word_tasks import SurrogateTask, WordsToDraw, WordTask

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
    values = [Value(*each) for each in json.loads(task.part)]
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
