"""Audits of the encoders: the vector of a sentence is the same in any company, by whatever worker of one arithmetic.

A mechanism counts on it that a sentence's vector depends on that sentence alone. Sentences are encoded alone, among
companions of other numbers and lengths, in another order, and by another worker that reports the same arithmetic with
another speed: a second encoder that measures itself anew, and for whole numbers another kernel.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from audits.kit import Audit, FloatArray, Found, Scale
from audits.neighbours import FOREIGN, NUMBERS, PLAIN, SENTENCES, SIGNS

from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer.bert import exact_ways
from gpu_workers.models.integer.encoder import IntegerEncoder

ROUNDS = 20
_ROUNDS_FEW = 4  # of numbers of 16 bits, for which few processors have instructions
_SENTENCES = 4  # that are audited in each round
_FEW_WORDS = 20  # a kernel that the processor has no instructions for is 30 times as slow, and gets no more


class UnfitEncoder(RuntimeError):
    """A worker with this encoder would not serve."""


class AnyEncoder(Protocol):
    def encode(self, sentences: Sequence[str]) -> FloatArray: ...

    def self_check(self) -> bool: ...

    @property
    def arithmetic(self) -> str: ...


Workers = Callable[[], Sequence[AnyEncoder]]


@lru_cache(maxsize=2)
def integer_workers() -> tuple[IntegerEncoder, ...]:
    """One for each kernel that is exact on this processor, the fastest first."""
    seconds = exact_ways()
    return tuple(IntegerEncoder(way=way) for way in sorted(seconds, key=lambda name: seconds[name]))


@lru_cache(maxsize=2)
def floating_workers(dtype: torch.dtype) -> tuple[Encoder, ...]:
    """Two that have checked themselves."""
    found = []
    for _ in range(2):
        encoder = Encoder(dtype=dtype)
        if not encoder.self_check():
            raise UnfitEncoder("an encoder does not pass its own check on this machine")
        found.append(encoder)
    return tuple(found)


def sentence(draw: random.Random) -> str:
    """A sentence of 1 to 60 words, or seldom of more than an encoder reads."""
    if draw.random() < 0.2:
        return draw.choice(SENTENCES)
    pieces = (*PLAIN, *FOREIGN, *NUMBERS)
    count = 400 if draw.random() < 0.02 else draw.choice((1, 2, 3, 5, 8, 17, 60))
    return " ".join(draw.choice(pieces) + draw.choice(SIGNS) for _ in range(count))


def companies(draw: random.Random, own: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Batches with the sentences `own` in them, and their places: alone, together, reversed, among many."""
    for place, each in enumerate(own):
        yield [each], [0 if other == place else -1 for other in range(len(own))]
    yield list(own[::-1]), list(range(len(own)))[::-1]
    for count in (1, 7, draw.randrange(8, 32)):
        batch = [sentence(draw) for _ in range(count)]
        places = sorted(draw.randrange(len(batch) + 1) for _ in own)
        for number, place in enumerate(places):
            batch.insert(place + number, own[number])
        yield batch, [place + number for number, place in enumerate(places)]


def company(workers: Workers, rounds: int, seed: int = 0) -> Found:
    """How many vectors differ from those of the same sentences together, by the first worker."""
    draw = random.Random(seed)
    differ = compared = 0
    known = workers()
    if len({each.arithmetic for each in known}) != 1:
        raise RuntimeError("these workers report other arithmetic, and would not serve together")
    for _ in range(rounds):
        own = [sentence(draw) for _ in range(_SENTENCES)]
        expected = known[0].encode(own)
        for batch, places in companies(draw, own):
            few = sum(len(each.split()) for each in batch) <= _FEW_WORDS
            found = draw.choice(known if few else known[:1]).encode(batch)
            for number, place in enumerate(places):
                if place >= 0:
                    compared += 1
                    differ += not np.array_equal(found[place], expected[number])
    return Found(
        float(differ), 0.0, compared, f"sentences of 1 to 400 words, up to 31 companions, {len(known)} workers"
    )


def _rounds(scale: Scale) -> int:
    return ROUNDS if scale.runs >= 1_000_000 else 2


def audits() -> tuple[Audit, ...]:
    claim, adjacency, unit = (
        "one vector",
        "any other sentences of a batch, any worker of one arithmetic",
        "vectors differ",
    )
    rows: list[tuple[str, str, Workers]] = [
        ("company-int8", "encoder, int8", integer_workers),
        ("company-float32", "encoder, float32", lambda: floating_workers(torch.float32)),
        ("company-bfloat16", "encoder, bfloat16", lambda: floating_workers(torch.bfloat16)),
    ]
    found = []
    for name, mechanism, workers in rows:
        few = name == "company-bfloat16"

        def run(scale: Scale, workers: Workers = workers, few: bool = few) -> Found:
            return company(workers, min(_rounds(scale), _ROUNDS_FEW) if few else _rounds(scale))

        found.append(Audit(name, "company", mechanism, claim, adjacency, run, unit=unit))
    return tuple(found)
