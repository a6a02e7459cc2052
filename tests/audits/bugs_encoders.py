"""Planted bugs of the encoders, and of how a text becomes units; each names the step of the proof it breaks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from audits.bug import Bug, Detector, check
from audits.detect_sentences import swap
from audits.encoders import UnfitEncoder, company, floating_workers, integer_workers
from audits.neighbours import Texts

from core.text import segment
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer import bert
from gpu_workers.models.integer.bert import IntegerBert
from gpu_workers.models.integer.encoder import IntegerEncoder

_ROUNDS = 2


def _company(name: str, workers: Any) -> Detector:
    def flags() -> str | None:
        try:
            found = company(workers, _ROUNDS)
        except UnfitEncoder as error:
            return str(error)
        return f"{found.bound:.0f} of {found.runs} vectors differ" if found.bound else None

    return Detector(name, flags)


def _kernels_agree() -> bool:
    """Every way to multiply gives the whole numbers of one multiplication after another, at the extremes."""
    generator = torch.Generator().manual_seed(7)
    weight = torch.randint(-128, 128, (1_536, 32), dtype=torch.int8, generator=generator)
    rows = torch.randint(-128, 128, (64, 1_536), dtype=torch.int8, generator=generator)
    weight[:, :2], rows[:2] = -128, torch.tensor([[127], [-128]], dtype=torch.int8)
    weight[:, 2], rows[2] = 127, 127
    weight[-1, 2], rows[2, -1] = 2, 1  # an odd sum above 2^24, which float32 does not hold
    expected = bert.plainly(weight)(rows)
    return all(torch.equal(bert.WAYS[way](weight)(rows), expected) for way in bert.exact_ways())


def _a_word_is_in_one_window() -> bool:
    """Replacing one word of a text changes one window of it, and no other, nor their number."""
    texts = Texts("windows", ("water.", "No!"))
    for _ in range(60):
        size = texts.random.choice((1, 3, 12))
        first, second = (segment.windows(text, size) for text in texts.windows(size))
        if len(first) != len(second) or sum(one != other for one, other in zip(first, second, strict=True)) != 1:
            return False
    return True


INTEGERS = _company("company of sentences, int8", integer_workers)
FLOATS = _company("company of sentences, float32", lambda: floating_workers(torch.float32))
KERNELS = check("kernels give the same whole numbers", _kernels_agree)
ONE_WINDOW = check("a word is in one window", _a_word_is_in_one_window)


def _unit_of_the_batch(real: Any) -> Any:
    """States are rounded in a unit of the largest number of the batch, not of their row."""

    def broken(self: Any, ids: Any, lengths: Sequence[int], kinds: Any = None) -> Any:
        states = real(self, ids, lengths, kinds)
        unit = max(1, int(np.abs(states).max()) // 127)
        return (states // unit * unit).astype(states.dtype)

    return broken


def _padded_to_the_longest(real: Any) -> Any:
    def broken(self: Any, tokens: Any) -> Any:
        longest = max(map(len, tokens), default=0)
        return real(self, [[*ids, *[0] * (longest - len(ids))] for ids in tokens])

    return broken


def _sorted_by_length(real: Any) -> Any:
    """Batches are sorted by length, and the vectors are left in that order."""
    return lambda self, tokens: real(self, sorted(tokens, key=len))


def _centred(real: Any) -> Any:
    def broken(self: Any, tokens: Any) -> Any:
        vectors = real(self, tokens)
        return vectors - vectors.mean(axis=0, keepdims=True) / 64

    return broken


def _mixed_with_a_neighbour(real: Any) -> Any:
    """The states of a sentence have a part of those of another one in the same call."""
    return lambda self, states, mask: real(self, states + states.roll(1, 0) / 64, mask)


def _sums_beyond_float32(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bert, "_FLOAT_INNER_MAX", 1 << 20)


def _overlapping(real: Any) -> Any:
    """Windows begin at every half of a window."""

    def broken(text: str, words: int) -> list[str]:
        found = text.split()
        return [" ".join(found[start : start + words]) for start in range(0, len(found), max(1, words // 2))]

    return broken


def _to_the_end_of_a_sentence(real: Any) -> Any:
    """A window also ends where a sentence does."""

    def broken(text: str, words: int) -> list[str]:
        return [window for sentence in segment.sentences(text) for window in real(sentence, words)]

    return broken


_INTEGER, _FLOATING, _WINDOWS = "integer encoder", "encoder", "windows"
_ALONE = "a vector depends on its sentence alone"

BUGS: tuple[Bug, ...] = (
    Bug(
        "rows in a unit of their batch",
        _INTEGER,
        "a row has a unit of its own",
        swap(IntegerBert, "states", _unit_of_the_batch),
        INTEGERS,
    ),
    Bug(
        "sentences padded to the longest",
        _INTEGER,
        "no sentence is padded",
        swap(IntegerEncoder, "encode_tokens", _padded_to_the_longest),
        INTEGERS,
    ),
    Bug(
        "vectors in the order of their lengths",
        _INTEGER,
        _ALONE,
        swap(IntegerEncoder, "encode_tokens", _sorted_by_length),
        INTEGERS,
    ),
    Bug(
        "sums that float32 does not hold",
        _INTEGER,
        "whole numbers below 2^24 in float32",
        _sums_beyond_float32,
        KERNELS,
    ),
    Bug("vectors from the centre of their batch", _FLOATING, _ALONE, swap(Encoder, "encode_tokens", _centred), FLOATS),
    Bug(
        "states with a part of a neighbour", _FLOATING, _ALONE, swap(Encoder, "_pool", _mixed_with_a_neighbour), FLOATS
    ),
    Bug(
        "windows that overlap", _WINDOWS, "a word is in one window", swap(segment, "windows", _overlapping), ONE_WINDOW
    ),
    Bug(
        "windows that end with sentences",
        _WINDOWS,
        "the number of windows follows from that of words",
        swap(segment, "windows", _to_the_end_of_a_sentence),
        ONE_WINDOW,
    ),
)
