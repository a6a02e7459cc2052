"""Batches for the entity tagger: real sentences and templates, with names, case and spacing varied."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from gpu_workers.models.embedded import embedded_vocabulary
from gpu_workers.models.pieces import IntArray, Pieces, pieces_of
from gpu_workers.offline import ner_corpora, templates
from gpu_workers.offline.names import Names
from gpu_workers.offline.ner_corpora import IGNORED, NONE, Tagged

LABELS = (NONE, "PERSON", "LOCATION", "ORGANIZATION")
PIECES_MAX = 126
CLS, SEP, MASK = 101, 102, 103
_CODES = {label: code for code, label in enumerate(LABELS)} | {IGNORED: -100}
_MIX = {"wikigold": 0.34, "btc": 0.20, "wnut17": 0.12, "gum": 0.12, "": 0.22}  # "": templates
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


def _recased(text: str, spans: list[tuple[int, int, str]], rng: random.Random) -> str:
    """Change the case of some texts, if that keeps every offset."""
    draw = rng.random()
    if draw > 0.22:
        return text
    other = text.lower() if draw < 0.10 else text.upper() if draw < 0.17 else text.title()
    return other if len(other) == len(text) and spans else text


class Batches:
    """`batch(step)` depends on the seed and the step alone."""

    def __init__(self, data: Path, seed: int, names_size: int = 8_000) -> None:
        self._seed = seed
        self._tokenizer = training_tokenizer()
        self._corpora = {name: ner_corpora.read(data, name) for name in _MIX if name}
        self._names = Names(seed, names_size)
        self._seen: dict[str, list[str]] = {label: [] for label in LABELS[1:]}
        for sentences in self._corpora.values():
            for sentence in sentences:
                for first, after, label in ner_corpora.runs(sentence):
                    if label in self._seen:
                        self._seen[label].append(" ".join(sentence.words[first:after]))

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
        corpus = rng.choices(list(_MIX), weights=list(_MIX.values()))[0]
        pieces_target = rng.choice([1, 60, PIECES_MAX])
        natural, separator = rng.random() < 0.5, rng.choice(["\n", " ", " "])
        text, spans = self._sentence(corpus, 0, natural, rng)
        start = rng.randrange(len(self._corpora[corpus])) if corpus else 0
        if corpus:
            text, spans = self._sentence(corpus, start, natural, rng)
        while len(text) < 4 * pieces_target:
            start += 1
            more, more_spans = self._sentence(corpus, start, natural, rng)
            spans += [(a + len(text) + 1, b + len(text) + 1, label) for a, b, label in more_spans]
            text += separator + more
        item = example(self._tokenizer, _recased(text, spans, rng), spans)
        return Example(_head(item.pieces, PIECES_MAX), item.labels[:PIECES_MAX])

    def _sentence(
        self, corpus: str, number: int, natural: bool, rng: random.Random
    ) -> tuple[str, list[tuple[int, int, str]]]:
        if not corpus:
            return templates.draw(self._names, rng)
        sentences = self._corpora[corpus]
        sentence: Tagged = sentences[number % len(sentences)]
        if rng.random() < 0.4:
            sentence = ner_corpora.swapped(sentence, 0.6, self._other_name, rng)
        return ner_corpora.written(sentence, natural)

    def _other_name(self, label: str, rng: random.Random) -> str:
        return rng.choice(self._seen[label]) if rng.random() < 0.4 else self._names.of(label, rng)

    def _drop_words(self, batch: dict[str, torch.Tensor], rng: random.Random) -> None:
        """Hide some pieces, so that the model must infer them from the context."""
        draw = torch.from_numpy(np.random.default_rng(rng.randrange(2**32)).random(batch["ids"].shape))
        hidden = (draw < _WORD_DROPOUT) & (batch["ids"] != CLS) & (batch["ids"] != SEP) & (batch["mask"] == 1)
        batch["ids"][hidden] = MASK


def _head(pieces: Pieces, count: int) -> Pieces:
    return Pieces(*(getattr(pieces, name)[:count] for name in ("ids", "starts", "ends", "words", "cases")))
