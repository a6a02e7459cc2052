"""Batches for the masked-language-model adapter: full rows of running text in which a share of the pieces is hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from gpu_workers.domains.public_text import json_lines
from gpu_workers.offline.tagger_batches import CLS, MASK, SEP, training_tokenizer

ROW_PIECES_MAX = 128
_LENGTHS = (64, ROW_PIECES_MAX)
_SHARE = 0.25
_SHOWN, _OTHER = 0.10, 0.05  # of the pieces to predict: unchanged, replaced by any piece
_SPECIAL = 999  # ids up to this one are [PAD], [UNK], [CLS], [SEP], [MASK] and unused ones
_ENCODE_AT_ONCE = 2_000

IntArray = npt.NDArray[np.int64]
Stream = npt.NDArray[np.uint16]


def _column(path: Path, *names: str) -> Iterator[str]:
    for row in json_lines(path):
        yield " ".join(str(row[name]) for name in names if row.get(name))


def _imdb(data: Path, split: str) -> Iterator[str]:
    return (text.replace("<br />", " ") for text in _column(data / "imdb" / f"{split}.jsonl.gz", "text"))


def wikitext(data: Path, split: str) -> Iterator[str]:
    """Paragraphs without the corpus's markers: `@-@` becomes a hyphen, `<unk>` the tokeniser's unknown piece."""
    for text in _column(data / "lm" / f"wikitext2_{split}.jsonl.gz", "text"):
        if not text.strip().startswith("= ") and text.strip():
            for mark in ("-", ",", "."):
                text = text.replace(f" @{mark}@ ", mark)
            yield text.replace("<unk>", "[UNK]")


def _glue(data: Path) -> Iterator[str]:
    for name in ("sst2", "mnli", "qnli", "qqp"):
        path = data / "glue" / f"{name}_train.jsonl.gz"
        fields = [key for key in next(iter(json_lines(path))) if key not in ("label", "idx")]
        for field in fields:
            yield from _column(path, field)


def _senteval(data: Path) -> Iterator[str]:
    for name in ("mr_all", "cr_all", "mpqa_all", "trec6_train", "sst5_train"):
        yield from _column(data / "senteval" / f"{name}.jsonl.gz", "text")


def _entity_corpora(data: Path) -> Iterator[str]:
    for name in ("wikigold", "gum_train"):
        for row in json_lines(data / "ner" / f"{name}.jsonl.gz"):
            yield " ".join(row["tokens"])


# Share of the rows from each source. Small sources are read more often.
_SOURCES: dict[str, tuple[float, Callable[[Path], Iterator[str]]]] = {
    "imdb": (0.45, lambda data: _imdb(data, "train")),
    "yelp": (0.12, lambda data: _column(data / "lm" / "yelp_sentences.jsonl.gz", "text")),
    "glue": (0.20, _glue),
    "wikitext": (0.14, lambda data: wikitext(data, "valid")),
    "senteval": (0.05, _senteval),
    "entity-corpora": (0.04, _entity_corpora),
}

HELD_OUT: dict[str, Callable[[Path], Iterator[str]]] = {
    "imdb-test": lambda data: _imdb(data, "test"),
    "wikitext2-test": lambda data: wikitext(data, "test"),
}


def encoded(tokenizer: Tokenizer, texts: Iterator[str]) -> Iterator[list[int]]:
    """Yield the pieces of each text."""
    rows: list[str] = []
    for text in texts:
        rows.append(text)
        if len(rows) == _ENCODE_AT_ONCE:
            yield from (item.ids for item in tokenizer.encode_batch_fast(rows, add_special_tokens=False))
            rows = []
    yield from (item.ids for item in tokenizer.encode_batch_fast(rows, add_special_tokens=False))


@dataclass(frozen=True)
class Masked:
    """`ids` `[rows, length]` with hidden pieces; `positions`: flat positions to predict; `truth`: the hidden pieces."""

    ids: torch.Tensor
    positions: torch.Tensor
    truth: torch.Tensor


def stream_of(tokenizer: Tokenizer, texts: Iterator[str]) -> Stream:
    """Concatenate the pieces of all texts, with the end of each text marked."""
    rows = [np.array([*row, SEP], dtype=np.uint16) for row in encoded(tokenizer, texts) if row]
    return np.concatenate([np.zeros(0, dtype=np.uint16), *rows])


def guessable(stream: Stream) -> int:
    """How many pieces can be predicted: all except end marks and pieces that the vocabulary lacks."""
    return int((stream > _SPECIAL).sum())


def public_batches(data: Path, seed: int) -> InfillBatches:
    """Batches of the mix on which the shipped adapter is trained."""
    tokenizer = training_tokenizer()
    streams = {}
    for name, (weight, texts) in _SOURCES.items():
        streams[name] = weight, stream_of(tokenizer, texts(data))
        print(f"{name}: {len(streams[name][1])} pieces", flush=True)
    return InfillBatches(list(streams.values()), tokenizer, seed)


class InfillBatches:
    """`batch(step)` depends on the seed and the step alone."""

    def __init__(self, streams: Sequence[tuple[float, Stream]], tokenizer: Tokenizer, seed: int) -> None:
        """`streams`: for each, its share of the rows and its pieces, which must be more than `ROW_PIECES_MAX`."""
        self._seed = seed
        self._weights = [weight for weight, _ in streams]
        self._streams = [stream for _, stream in streams]
        vocabulary = tokenizer.get_vocab_size()
        self._vocabulary = vocabulary
        self._continues = np.zeros(vocabulary, dtype=np.bool_)
        for piece, number in tokenizer.get_vocab().items():
            self._continues[number] = piece.startswith("##")

    def frequencies(self) -> torch.Tensor:
        """Share of each piece in the mix, smoothed by half an occurrence, float32 `[vocabulary]`."""
        counts = np.full(self._vocabulary, 1e-7)
        for stream, weight in zip(self._streams, self._weights, strict=True):
            counts += weight * np.bincount(stream, minlength=self._vocabulary) / len(stream)
        return torch.from_numpy((counts / counts.sum()).astype(np.float32))

    def batch(self, step: int, pieces: int) -> Masked:
        """Return rows of one length, with `pieces` pieces in total, without padding."""
        rng = np.random.default_rng([self._seed, step])
        length = int(rng.choice(_LENGTHS))
        ids = np.empty((pieces // length, length), dtype=np.int64)
        for row in ids:
            stream = self._streams[rng.choice(len(self._weights), p=self._weights)]
            start = rng.integers(len(stream) - length)
            row[0], row[-1] = CLS, SEP
            row[1:-1] = stream[start : start + length - 2]
        return self._mask(ids, rng)

    def _mask(self, ids: IntArray, rng: np.random.Generator) -> Masked:
        # Half of the rows hide whole words, as the service does. The others hide single pieces.
        whole = rng.random((len(ids), 1)) < 0.5
        unit = np.where(whole, np.cumsum(~self._continues[ids], axis=1), np.arange(ids.shape[1]))
        guessed = np.take_along_axis(rng.random((len(ids), ids.shape[1] + 1)) < _SHARE, unit, axis=1)
        guessed &= ids > _SPECIAL
        flat = ids.reshape(-1).copy()
        positions = np.flatnonzero(guessed)
        truth = flat[positions]
        draw = rng.random(len(positions))
        flat[positions[draw >= _SHOWN]] = MASK
        other = positions[(draw >= _SHOWN) & (draw < _SHOWN + _OTHER)]
        flat[other] = rng.integers(_SPECIAL + 1, self._vocabulary, len(other))
        hidden = flat.reshape(ids.shape)
        return Masked(torch.from_numpy(hidden), torch.from_numpy(positions), torch.from_numpy(truth))


def held_out(texts: Iterator[str], length: int, rows: int) -> Masked:
    """`rows` rows of held-out text with 15 % of the pieces hidden. The same text gives the same rows."""
    tokenizer = training_tokenizer()
    stream: list[int] = []
    for row in encoded(tokenizer, texts):
        stream += [*row, SEP]
        if len(stream) > 8 * rows * length:
            break
    rng = np.random.default_rng(length)
    ids = np.empty((rows, length), dtype=np.int64)
    for number, start in enumerate(np.linspace(0, len(stream) - length, rows).astype(int)):
        ids[number] = [CLS, *stream[start : start + length - 2], SEP]
    positions = np.flatnonzero((rng.random(ids.shape) < 0.15) & (ids > _SPECIAL))
    flat = ids.reshape(-1)
    truth = flat[positions].copy()
    flat[positions] = MASK
    return Masked(torch.from_numpy(ids), torch.from_numpy(positions), torch.from_numpy(truth))
