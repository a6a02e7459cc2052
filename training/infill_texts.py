"""The public texts of the shipped language model of fills: those that it learns from, and those that measure it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from gpu_workers.infill.fine_tuning import Masked, Specials, Stream, encoded, stream_of
from training.public_text import json_lines
from training.tagger_batches import CLS, MASK, SEP, training_tokenizer


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


def public_streams(data: Path) -> list[tuple[float, Stream]]:
    """The mix on which the shipped adapter is trained: the share of each source in the rows, and its pieces."""
    tokenizer = training_tokenizer()
    streams = []
    for name, (weight, texts) in _SOURCES.items():
        streams.append((weight, stream_of(tokenizer, texts(data))))
        print(f"{name}: {len(streams[-1][1])} pieces", flush=True)
    return streams


def frequencies(streams: Sequence[tuple[float, Stream]], vocabulary: int) -> torch.Tensor:
    """Share of each piece in the mix, smoothed by half an occurrence, float32 `[vocabulary]`."""
    counts = np.full(vocabulary, 1e-7)
    for weight, stream in streams:
        counts += weight * np.bincount(stream, minlength=vocabulary) / len(stream)
    return torch.from_numpy((counts / counts.sum()).astype(np.float32))


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
    positions = np.flatnonzero((rng.random(ids.shape) < 0.15) & Specials.of(tokenizer).ordinary[ids])
    flat = ids.reshape(-1)
    truth = flat[positions].copy()
    flat[positions] = MASK
    return Masked(torch.from_numpy(ids), torch.from_numpy(positions), torch.from_numpy(truth))
