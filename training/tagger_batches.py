"""Batches for the entity tagger: real sentences, code, and templates in eight languages, with varied names and case."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from gpu_workers.models.embedded import embedded_vocabulary
from gpu_workers.models.pieces import IntArray, Pieces, pieces_of
from training import ner_corpora
from training.code_lines import CodeLines
from training.names import Names
from training.ner_corpora import IGNORED, NONE, Tagged
from training.slots import CREDENTIALS, Language

LABELS = (NONE, "PERSON", "LOCATION", "ORGANIZATION", *CREDENTIALS.values())
PIECES_MAX = 126
CLS, SEP, MASK = 101, 102, 103  # pieces of the bundled encoder
_CODES = {label: code for code, label in enumerate(LABELS)} | {IGNORED: -100}
# share of the batches of each corpus, and of the templates of each file
CORPORA = {
    "wikigold": 0.1,
    "btc": 0.1,
    "wnut17": 0.1,
    "wnut17-test": 0.06,
    "tweebank": 0.06,
    "uner-en": 0.14,
    "gum": 0.04,
    "germeval": 0.05,
    "uner-de": 0.015,
    "uner-pt": 0.035,
    "kpwr": 0.05,
    "europeana-de": 0.005,
    "europeana-fr": 0.015,
    "pud-es": 0.015,
    "pud-fr": 0.01,
    "pud-it": 0.01,
    "pud-pl": 0.015,
    "ud-de": 0.01,
    "ud-es": 0.02,
    "ud-fr": 0.015,
    "ud-it": 0.02,
    "ud-nl": 0.025,
    "ud-pt": 0.01,
}
TEXTS = {
    "en": 0.2,
    "en-news": 0.04,
    "en-machine": 0.12,
    "en-output": 0.06,
    "en-logins": 0.09,
    "en-talk": 0.08,
    "en-kept": 0.1,
    "en-firms": 0.1,
    "de": 0.06,
    "de-logins": 0.016,
    "de-talk": 0.02,
    "de-kept": 0.03,
    "fr": 0.06,
    "fr-logins": 0.016,
    "fr-talk": 0.02,
    "fr-kept": 0.03,
    "es": 0.09,
    "es-logins": 0.016,
    "es-talk": 0.02,
    "es-kept": 0.03,
    "it": 0.06,
    "it-logins": 0.016,
    "it-talk": 0.02,
    "it-kept": 0.03,
    "nl": 0.08,
    "nl-logins": 0.016,
    "nl-talk": 0.02,
    "nl-kept": 0.03,
    "pt": 0.06,
    "pt-logins": 0.016,
    "pt-talk": 0.02,
    "pt-kept": 0.03,
    "pl": 0.07,
    "pl-logins": 0.016,
    "pl-talk": 0.02,
    "pl-kept": 0.03,
}
CODE = {"python": 0.04}
# the language of the names that replace a corpus's own; Polish ones are inflected, treebanks have none
_SWAPPED = {
    "wikigold": "en",
    "btc": "en",
    "wnut17": "en",
    "wnut17-test": "en",
    "tweebank": "en",
    "uner-en": "en",
    "gum": "en",
    "germeval": "de",
    "uner-de": "de",
    "uner-pt": "pt",
    "europeana-de": "de",
    "europeana-fr": "fr",
    "pud-es": "es",
}
_OTHER_SOURCE = 0.06  # how often the next sentence of a row is of another language
_WORD_DROPOUT = 0.06
_SLICES = 4


def training_tokenizer() -> Tokenizer:
    """Return the encoder's tokeniser as in the service, except that a corpus's own [UNK] becomes the unknown piece."""
    tokenizer = embedded_vocabulary().tokenizer
    tokenizer.encode_special_tokens = False
    return tokenizer


@dataclass(frozen=True)
class Example:
    """Pieces and their label codes; -100 for pieces that training ignores."""

    pieces: Pieces
    labels: IntArray


def example(tokenizer: Tokenizer, text: str, spans: Sequence[tuple[int, int, str]]) -> Example:
    """Label each piece by the span in which it starts."""
    pieces = pieces_of(text, tokenizer.encode(text, add_special_tokens=False))
    codes = np.zeros(len(text) + 1, dtype=np.int64)
    for start, end, label in spans:
        codes[start:end] = _CODES[label]
    return Example(pieces, codes[pieces.starts])


def tensors(examples: Sequence[Example]) -> dict[str, torch.Tensor]:
    """`ids`, `cases`, `mask`, `labels` `[rows, length]` of examples, with [CLS] and [SEP], padded to the longest."""
    length = max(len(item.labels) for item in examples) + 2
    ids, cases = np.zeros((2, len(examples), length), dtype=np.int64)
    labels = np.full((len(examples), length), -100, dtype=np.int64)
    mask = np.zeros((len(examples), length), dtype=np.int64)
    for row, item in enumerate(examples):
        count = len(item.labels)
        ids[row, : count + 2] = [CLS, *item.pieces.ids, SEP]
        cases[row, 1 : count + 1] = item.pieces.cases
        labels[row, 1 : count + 1] = item.labels
        mask[row, : count + 2] = 1
    arrays = {"ids": ids, "cases": cases, "mask": mask, "labels": labels}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _recased(text: str, rng: random.Random) -> str:
    """Change the case of some texts, if that keeps every offset."""
    draw = rng.random()
    if draw > 0.28:
        return text
    other = text.lower() if draw < 0.15 else text.upper() if draw < 0.23 else text.title()
    return other if len(other) == len(text) else text


class Batches:
    """`batch(step)` depends on the seed and the step alone."""

    def __init__(
        self, data: Path, seed: int, names_size: int = 8_000, corpora: Mapping[str, float] | None = None
    ) -> None:
        """`corpora`: which to draw from, by default all, and the share of each."""
        own = CORPORA if corpora is None else corpora
        self._seed = seed
        self._tokenizer = training_tokenizer()
        self._corpora = {name: ner_corpora.read(data, name) for name in own}
        self._world = Names(seed, names_size)
        self._texts = {name: Language.of(name, self._world, seed) for name in TEXTS}
        self._code = CodeLines()
        self._mix = {**own, **TEXTS, **CODE}

    def batch(self, step: int, tokens: int) -> dict[str, torch.Tensor]:
        """Return about `tokens` pieces with little padding: a slice of a larger draw that is sorted by length."""
        rng = random.Random(self._seed * 1_000_003 + step)
        drawn: list[Example] = []
        size = 0
        while size < _SLICES * tokens:
            drawn.append(self._draw(rng))
            size += len(drawn[-1].labels) + 2
        drawn.sort(key=lambda item: len(item.labels))
        ends = np.cumsum([len(item.labels) + 2 for item in drawn])
        chosen = rng.randrange(_SLICES)
        batch = tensors([item for item, end in zip(drawn, ends, strict=True) if (end - 1) // tokens == chosen])
        self._drop_words(batch, rng)
        return batch

    def _draw(self, rng: random.Random) -> Example:
        source = rng.choices(list(self._mix), weights=list(self._mix.values()))[0]
        pieces_target = rng.choice([1, 60, PIECES_MAX])
        natural, separator = rng.random() < 0.7, rng.choice(["\n", " ", " "])
        start = rng.randrange(len(self._corpora[source])) if source in self._corpora else 0
        text, spans = self._sentence(source, start, natural, rng)
        while len(text) < 4 * pieces_target:
            start += 1
            if rng.random() < _OTHER_SOURCE:
                source = rng.choice(list(self._texts))
            more, more_spans = self._sentence(source, start, natural, rng)
            spans += [(a + len(text) + 1, b + len(text) + 1, label) for a, b, label in more_spans]
            text += separator + more
        item = example(self._tokenizer, _recased(text, rng), spans)
        first = rng.randrange(max(1, len(item.labels) - PIECES_MAX + 1)) if rng.random() < 0.3 else 0
        return Example(_part(item.pieces, first, PIECES_MAX), item.labels[first : first + PIECES_MAX])

    def _sentence(
        self, source: str, number: int, natural: bool, rng: random.Random
    ) -> tuple[str, list[tuple[int, int, str]]]:
        if source in self._texts:
            return self._texts[source].draw(rng)
        if source in CODE:
            return self._code.draw(rng), []
        sentences = self._corpora[source]
        sentence: Tagged = sentences[number % len(sentences)]
        language = _SWAPPED.get(source)
        if language and rng.random() < 0.4:
            sentence = ner_corpora.swapped(sentence, 0.6, self._texts[language].names.of, rng)
        return ner_corpora.written(sentence, natural)

    def _drop_words(self, batch: dict[str, torch.Tensor], rng: random.Random) -> None:
        """Hide some pieces, so that the model must infer them from the context."""
        draw = torch.from_numpy(np.random.default_rng(rng.randrange(2**32)).random(batch["ids"].shape))
        hidden = (draw < _WORD_DROPOUT) & (batch["ids"] != CLS) & (batch["ids"] != SEP) & (batch["mask"] == 1)
        batch["ids"][hidden] = MASK


def _part(pieces: Pieces, first: int, count: int) -> Pieces:
    names = ("ids", "starts", "ends", "words", "cases")
    return Pieces(*(getattr(pieces, name)[first : first + count] for name in names))
