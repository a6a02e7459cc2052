"""Time of a release on one core, without the encoder."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import CodeNoise, CodeTable, DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from gpu_workers.domains.spec import Embedded

SENTENCES = 12
RANDOM_ROWS = 5_000  # as many as the paper has candidates
REPEATS = 300
BATCH = 1_000
PAIRS = 5
EPSILONS = (10, 3)


def random_pack(pack: DomainPack, count: int) -> DomainPack:
    """The pack with `count` random candidates, as many random centroids with responses, and all of them used."""
    source = np.random.default_rng(0)

    def rows() -> np.ndarray:
        drawn = source.standard_normal((count, pack.info.dimension)).astype(np.float32)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    places = source.normal(scale=32, size=(count, pack.info.rank)).round().clip(-127, 127).astype(np.int8)
    table = CodeTable(CodeNoise.RESPONSES, rows(), pack.code_tables[0].offset)
    parameters = tuple(
        dataclasses.replace(
            each, codes=count, code_noise=table.noise, decoder=0, cosine_candidates=count, depth_candidates=count
        )
        for each in pack.info.mechanism_parameters
    )
    return dataclasses.replace(
        pack,
        info=dataclasses.replace(pack.info, candidates=count, mechanism_parameters=parameters),
        codebooks={count: places},
        code_tables=(table,) * len(parameters),
        candidates=rows(),
        recoded=rows(),
    )


def choices(mechanism: str, pack: DomainPack, epsilon: int) -> str:
    """How many codes or candidates the mechanism uses at this epsilon."""
    parameters = pack.info.parameters_for(epsilon * NANO)
    codes = f"{parameters.codes} codes, {parameters.code_noise}"
    used = {
        "sentence_codes": codes,
        "clipped_cosine": f"{parameters.cosine_candidates} candidates",
        "deep_candidate": f"{parameters.depth_candidates} candidates",
        "document_selection": f"{pack.info.candidates} candidates",
    }
    return used[mechanism]


def measure(pack: DomainPack, test: Embedded) -> None:
    """Print both tables, on one thread of PyTorch."""
    torch.set_num_threads(1)
    texts = [torch.from_numpy(document) for document in test.documents()]
    twelve = [document[:SENTENCES] for document in texts if len(document) >= SENTENCES]
    print("| mechanism | eps | of | one document of 12 sentences, median ms | p95 ms |\n|" + " --- |" * 5)
    for name in SENTENCE_MECHANISMS:
        for epsilon, used in ((10, pack), (3, pack), (10, random_pack(pack, RANDOM_ROWS))):
            median, high = one_by_one(sentence_mechanism(name, used), twelve, epsilon * NANO)
            print(f"| {name} | {epsilon} | {choices(name, used, epsilon)} | {median:.2f} | {high:.2f} |", flush=True)
    print(f"\n| mechanism | eps | {BATCH} documents one by one, ms | in one call, ms | ratio |\n|" + " --- |" * 5)
    for name in SENTENCE_MECHANISMS:
        mechanism = sentence_mechanism(name, pack)
        for epsilon in EPSILONS:
            alone, together = batched(mechanism, texts[:BATCH], epsilon * NANO)
            print(f"| {name} | {epsilon} | {alone:.0f} | {together:.1f} | {alone / together:.1f} |", flush=True)


def one_by_one(
    mechanism: SentenceMechanism, documents: Sequence[torch.Tensor], epsilon_nano: int
) -> tuple[float, float]:
    """(median, 95th percentile) in ms of a release of one document."""
    times = []
    for i in range(REPEATS):
        start = time.perf_counter()
        mechanism.release([documents[i % len(documents)]], [epsilon_nano])
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]


def batched(mechanism: SentenceMechanism, documents: Sequence[torch.Tensor], epsilon_nano: int) -> tuple[float, float]:
    """(one by one, one call) in ms, the medians of alternating runs."""
    alone, together = [], []
    for _ in range(PAIRS):
        start = time.perf_counter()
        for document in documents:
            mechanism.release([document], [epsilon_nano])
        middle = time.perf_counter()
        mechanism.release(documents, [epsilon_nano] * len(documents))
        alone.append((middle - start) * 1e3)
        together.append((time.perf_counter() - middle) * 1e3)
    return statistics.median(alone), statistics.median(together)
