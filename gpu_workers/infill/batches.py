"""Batches that the language model of fills is trained on: full rows of running text with hidden pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

ROW_PIECES_MAX = 128
CLS, SEP, MASK = 101, 102, 103
SPECIAL_MAX = 999  # ids up to this one are [PAD], [UNK], [CLS], [SEP], [MASK] and unused ones
_LENGTHS = (64, ROW_PIECES_MAX)
_SHARE = 0.25
_SHOWN, _OTHER = 0.10, 0.05  # of the pieces to predict: unchanged, replaced by any piece
_ENCODE_AT_ONCE = 2_000

IntArray = npt.NDArray[np.int64]
Stream = npt.NDArray[np.uint16]


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
    return int((stream > SPECIAL_MAX).sum())


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
        guessed &= ids > SPECIAL_MAX
        flat = ids.reshape(-1).copy()
        positions = np.flatnonzero(guessed)
        truth = flat[positions]
        draw = rng.random(len(positions))
        flat[positions[draw >= _SHOWN]] = MASK
        other = positions[(draw >= _SHOWN) & (draw < _SHOWN + _OTHER)]
        flat[other] = rng.integers(SPECIAL_MAX + 1, self._vocabulary, len(other))
        hidden = flat.reshape(ids.shape)
        return Masked(torch.from_numpy(hidden), torch.from_numpy(positions), torch.from_numpy(truth))
