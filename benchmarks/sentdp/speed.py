"""Time of a selection on one core, without the encoder."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.domain_pack import DomainPack
from core.mechanisms.pricing import SENTENCE_MECHANISMS
from core.mechanisms.release import SentenceMechanism
from core.mechanisms.sentence import sentence_mechanism
from gpu_workers.training.public_text import Embedded

SENTENCES = 12
RANDOM_CANDIDATES = 5_000  # as many as the paper has
REPEATS = 300
BATCH = 1_000
PAIRS = 3
EPSILON = 10 * NANO


def random_pack(pack: DomainPack, count: int) -> DomainPack:
    """The pack with `count` random candidates, all of them used."""
    source = np.random.default_rng(0)

    def rows() -> np.ndarray:
        drawn = source.standard_normal((count, pack.info.dimension)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    knobs = tuple(dataclasses.replace(k, cosine_candidates=count, depth_candidates=count) for k in pack.info.knobs)
    info = dataclasses.replace(pack.info, candidates=count, knobs=knobs)
    return dataclasses.replace(pack, info=info, candidates=rows(), recoded=rows())


def measure(pack: DomainPack, test: Embedded) -> None:
    """Print both tables, on one thread of PyTorch."""
    torch.set_num_threads(1)
    texts = [torch.from_numpy(document) for document in test.documents()]
    twelve = [document[:SENTENCES] for document in texts if len(document) >= SENTENCES]
    print("| mechanism | candidates | one document of 12 sentences, median ms | p95 ms |\n|" + " --- |" * 4)
    for name in SENTENCE_MECHANISMS:
        for used in (pack, random_pack(pack, RANDOM_CANDIDATES)):
            median, high = one_by_one(sentence_mechanism(name, used), twelve)
            print(f"| {name} | {used.info.candidates} | {median:.2f} | {high:.2f} |", flush=True)
    print(f"\n| mechanism | {BATCH} documents one by one, s | in one call, s | ratio |\n|" + " --- |" * 4)
    for name in SENTENCE_MECHANISMS:
        mechanism = sentence_mechanism(name, pack)
        alone, together = batched(mechanism, texts[:BATCH])
        print(f"| {name} | {alone:.2f} | {together:.2f} | {alone / together:.2f} |", flush=True)


def one_by_one(mechanism: SentenceMechanism, documents: Sequence[torch.Tensor]) -> tuple[float, float]:
    """(median, 95th percentile) in ms of a release of one document."""
    times = []
    for i in range(REPEATS):
        start = time.perf_counter()
        mechanism.release([documents[i % len(documents)]], [EPSILON])
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def batched(mechanism: SentenceMechanism, documents: Sequence[torch.Tensor]) -> tuple[float, float]:
    """(one by one, one call) in seconds, the medians of alternating runs."""
    alone, together = [], []
    for _ in range(PAIRS):
        start = time.perf_counter()
        for document in documents:
            mechanism.release([document], [EPSILON])
        middle = time.perf_counter()
        mechanism.release(documents, [EPSILON] * len(documents))
        alone.append(middle - start)
        together.append(time.perf_counter() - middle)
    return statistics.median(alone), statistics.median(together)
