"""Audits of the four mechanisms that release a document's vector, on documents and packs found by search.

The guarantee is for every public pack, so the pack is searched with the documents. A document has sentences from a pool
of extremes: candidates, their opposites, duplicates, zero, vectors far outside the unit ball, and what is not finite.
Every batch holds other documents beside the one that is audited.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from audits.kit import Audit, Case, FloatArray, Found, Scale, audit, by_law
from pack_kit import make_pack, parameters_row, with_short_tables

from core.amounts import NANO
from core.mechanisms.sentences.clipped_cosine import ClippedCosine, clip_level
from core.mechanisms.sentences.deep_candidate import SENSITIVITY, DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection, subset_size
from core.mechanisms.sentences.domain_pack import LENGTH_FEATURES, CodeNoise, CodeTable, DomainPack, Layers
from core.mechanisms.sentences.registry import protection
from core.mechanisms.sentences.release import CandidateMechanism
from core.mechanisms.sentences.sentence_codes import SentenceCodes, features

DIMENSION = 8
EPSILON = 2.0
_SHOWN = 4  # the first axis on which a decoder shows its histogram
_DECODER_LEVEL, _DECODER_SCALE = 20.0, 16.0
_SHORT_SENTENCES = 2
_LENGTHS = (1, 1, 2, 2, 3, 4, 17)
_CLUSTERS = (1, 1, 1, 2, 5, 20, 60)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)

Generator = np.random.Generator


def exponential_law(scores: FloatArray, epsilon: float, sensitivity: float) -> FloatArray:
    weights = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
    return np.asarray(weights / weights.sum())


def permute_and_flip_law(scores: FloatArray, epsilon: float, sensitivity: float) -> FloatArray:
    """Index i comes out if its coin falls on heads and no earlier one's does; `t` is its uniform place in the order."""
    coins = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
    t = (_NODES + 1) / 2
    factors = 1 - coins[:, None] * t
    logs = np.log(np.maximum(factors, 1e-300))
    others = np.exp(logs.sum(axis=0) - logs)
    law = coins * (others * (_WEIGHTS / 2)).sum(axis=1)
    return np.asarray(law / law.sum())


def pool(rng: Generator, points: FloatArray, *, positive: bool = False) -> FloatArray:
    """Sentences that are extreme for these candidates, float32 `[n, d]`."""
    d = points.shape[1]
    if positive:
        line = diagonal(d) * np.arange(0, 12)[:, None] / 8
        return np.concatenate([line, points, rng.normal(size=(1, d)), np.full((1, d), np.nan)]).astype(np.float32)
    random = rng.normal(size=(3, d))
    odd = np.stack([np.zeros(d), np.full(d, 1e30), np.full(d, np.nan), np.eye(d)[0] * 1e-30])
    halves = (points[:1] + points[-1:]) / 2
    return np.concatenate([points, -points, 0.5 * points, 1.5 * points, halves, random, odd]).astype(np.float32)


def neighbours(rng: Generator, sentences: FloatArray) -> tuple[FloatArray, FloatArray, str]:
    """Two documents that differ in one sentence; the others are of any kind, often copies of one of the two."""
    k = int(rng.choice(_LENGTHS))
    first = sentences[rng.integers(len(sentences), size=k)].copy()
    second = first.copy()
    place = int(rng.integers(k))
    first[place], second[place] = sentences[rng.integers(len(sentences), size=2)]
    alike = k > 1 and rng.random() < 0.5
    if alike:
        others = np.arange(k) != place
        first[others] = second[others] = (first, second)[int(rng.integers(2))][place]
    return first, second, f"{k} sentence{'s' * (k > 1)}{', duplicates' * alike}, sentence {place + 1} replaced"


def diagonal(d: int) -> FloatArray:
    """A direction that several projections see alike."""
    return np.asarray(np.where(np.arange(d) < 3, 1.0, 0.0))


def clusters(rng: Generator, d: int = DIMENSION, *, positive: bool = False) -> FloatArray:
    """Candidates in two or three places, of which one may hold many."""
    places = np.concatenate([np.eye(d)[:2], -np.eye(d)[:2], rng.normal(size=(2, d))])
    if positive:  # a recoder of layers with ReLU leaves the positive part
        places = diagonal(d) * rng.choice([0.25, 0.5, 0.75, 1.0, 1.25], size=(4, 1))
    chosen = places[rng.permutation(len(places))[: rng.integers(2, 4)]]
    return np.asarray(np.repeat(chosen, rng.choice(_CLUSTERS, size=len(chosen)), axis=0), dtype=np.float32)


def companions(rng: Generator, sentences: FloatArray) -> list[torch.Tensor]:
    """Other documents of the same batch."""
    return [torch.from_numpy(sentences[rng.integers(len(sentences), size=k)]) for k in rng.integers(1, 6, size=3)]


def selecting(
    mechanism: CandidateMechanism | DocumentSelection,
    documents: tuple[FloatArray, FloatArray],
    others: list[torch.Tensor],
    laws: tuple[FloatArray, FloatArray],
    facts: str,
    epsilon: float = EPSILON,
) -> Case:
    """A case of a mechanism that chooses a candidate, from the two laws of its choice."""
    ratio, law = by_law(*laws)
    nano = round(epsilon * NANO)

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(documents[side])
        indices = mechanism.select([*others, *[document] * runs], [nano] * (len(others) + runs))
        return np.asarray(ratio[indices[len(others) :]])

    return Case(f"{facts}, {len(mechanism.pack.candidates)} candidates", epsilon, draw, law)


def candidate_cases(kind: type[CandidateMechanism], seed: int, epsilon: float = EPSILON) -> Iterator[Case]:
    """Cases of `clipped_cosine` or `deep_candidate`: random packs, thresholds and projections."""
    rng = np.random.default_rng(seed)
    while True:
        cosine = kind is ClippedCosine
        points = clusters(rng, positive=not cosine)
        threshold = float(rng.choice([1.0, 0.5, 0.1]))
        axes = np.eye(DIMENSION)[: 1 if cosine else int(rng.choice([1, 3]))]
        parameters = parameters_row(1.0, threshold, len(points), len(axes), len(points))
        pack = make_pack(points, projections=axes, parameters=(parameters,))
        mechanism = kind(pack)
        sentences = pool(rng, points, positive=not cosine)
        first, second, facts = neighbours(rng, sentences)
        both = [torch.from_numpy(first), torch.from_numpy(second)]
        scores = [row.astype(np.float64) for row in mechanism.scores(both, [round(epsilon * NANO)] * 2)]
        level = clip_level(threshold, DIMENSION) if cosine else SENSITIVITY
        law = permute_and_flip_law if cosine else exponential_law
        laws = law(scores[0], epsilon, level), law(scores[1], epsilon, level)
        yield selecting(mechanism, (first, second), companions(rng, sentences), laws, facts, epsilon)


def selection_cases(seed: int, epsilon: float = EPSILON) -> Iterator[Case]:
    """Cases of `document_selection`: any two documents, also of unequal length."""
    rng = np.random.default_rng(seed)
    while True:
        points = clusters(rng)
        mechanism = DocumentSelection(make_pack(points))
        sentences = pool(rng, points)
        lengths = rng.choice(_LENGTHS, size=2)
        first, second = (sentences[rng.integers(len(sentences), size=k)] for k in lengths)
        members = subset_size(len(points), round(epsilon * NANO))
        subsets = mechanism.subsets([torch.from_numpy(first), torch.from_numpy(second)], members)
        laws = np.ones((2, len(points)))
        for law, subset in zip(laws, subsets, strict=True):
            law[subset] = np.exp(epsilon)
            law /= law.sum()
        facts = f"documents of {lengths[0]} and {lengths[1]} sentences"
        yield selecting(mechanism, (first, second), companions(rng, sentences), (laws[0], laws[1]), facts, epsilon)


def code_pack(noise: CodeNoise, centroids: FloatArray, *, decoded: bool = False, short: bool = False) -> DomainPack:
    """A pack whose codes mean axes, so that a release shows the whole noisy histogram.

    With `decoded` it has a decoder, which shows the histogram that it was given on the axes after the first four. With
    `short` it has a table for documents of at most two sentences.
    """
    size, d = centroids.shape
    row = parameters_row(0.5, 1.0, 1, 1, 1, codes=size, code_noise=noise)
    pack = make_pack(centroids, parameters=(row,))
    decoder = showing_decoder(size, d) if decoded else ()
    table = CodeTable(noise, np.eye(size, d, dtype=np.float32), np.zeros(d, dtype=np.float32), decoder)
    shown = replace(pack, code_tables=(table,))
    if not short:
        return shown
    shown = with_short_tables(shown, sentences=_SHORT_SENTENCES, codes=size)
    return replace(shown, code_tables=(replace(table, short=replace(table, noise=CodeNoise.RESPONSES)),))


def showing_decoder(size: int, dimension: int) -> Layers:
    """Three layers that return H/k on the axes after the first four. GELU is the identity far above zero."""
    shares = features(torch.eye(size), torch.ones(size))[:, :size].numpy()  # the features of one sentence's code
    first = np.zeros((size, 2 * size + LENGTH_FEATURES), dtype=np.float32)
    first[:, :size] = np.eye(size) / shares[0, 0] / _DECODER_SCALE
    last = np.zeros((dimension, size), dtype=np.float32)
    last[_SHOWN : _SHOWN + size] = np.eye(size) * _DECODER_SCALE
    high = np.full(size, _DECODER_LEVEL, dtype=np.float32)
    return ((first, high), (np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32)), (last, -last @ high))


def code_cases(
    noise: CodeNoise, seed: int, epsilon: float = EPSILON, *, decoded: bool = False, short: bool = False
) -> Iterator[Case]:
    """Cases of `sentence_codes`. The statistic is the change of the histogram's likelihood."""
    sizes = [2, 3, 4] if decoded else [6, 7, 8] if short else [2, 3, 5, 8]
    rng = np.random.default_rng(seed)
    while True:
        size = int(rng.choice(sizes))
        centroids = rng.normal(size=(size, DIMENSION)).astype(np.float32)
        mechanism = SentenceCodes(code_pack(noise, centroids, decoded=decoded, short=short))
        sentences = pool(rng, centroids)
        first, second, facts = neighbours(rng, sentences)
        codes = [mechanism.codes([torch.from_numpy(each)], size) for each in (first, second)]
        histograms = [np.bincount(each, minlength=size) for each in codes]
        if (histograms[0] == histograms[1]).all():
            continue  # nothing moved
        yield code_case(mechanism, (first, second), companions(rng, sentences), histograms, epsilon, facts)


def code_case(
    mechanism: SentenceCodes,
    documents: tuple[FloatArray, FloatArray],
    others: list[torch.Tensor],
    histograms: list[np.ndarray],
    epsilon: float,
    facts: str,
) -> Case:
    size, nano = len(histograms[0]), round(epsilon * NANO)
    table = mechanism.pack.code_tables[0]
    is_short = table.short is not None and len(documents[0]) <= _SHORT_SENTENCES
    responds = is_short or table.noise is CodeNoise.RESPONSES
    shown = (0, _SHOWN) if table.decoder else (0,)

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(documents[side])
        released = mechanism.release([*others, *[document] * runs], [nano] * (len(others) + runs))[len(others) :]
        return np.sum([evidence(released[:, start : start + size] * len(document)) for start in shown], axis=0)

    def evidence(histogram: FloatArray) -> FloatArray:
        noisy = np.rint(histogram)
        if responds:
            return np.asarray(noisy @ np.sign(histograms[0] - histograms[1]))
        far, near = (np.abs(noisy - histogram).sum(axis=1) for histogram in (histograms[1], histograms[0]))
        return np.asarray(far - near)

    return Case(f"{facts}, {size} codes", epsilon, draw)


def _runs(cases: Callable[[], Iterator[Case]], runs: int, pairs: int) -> Callable[[Scale], Found]:
    return lambda scale: audit(cases(), scale.at_most(runs, pairs), batch=20_000)


def audits() -> tuple[Audit, ...]:
    one = protection("sentence_codes").adjacency
    whole = protection("document_selection").adjacency
    million = 1_000_000
    rows = [
        ("sentence_codes, responses", one, _runs(lambda: code_cases(CodeNoise.RESPONSES, 11), million, 400)),
        ("sentence_codes, counts", one, _runs(lambda: code_cases(CodeNoise.COUNTS, 12), million, 400)),
        ("sentence_codes, decoded", one, _runs(lambda: code_cases(CodeNoise.COUNTS, 17, decoded=True), million, 400)),
        ("sentence_codes, short", one, _runs(lambda: code_cases(CodeNoise.COUNTS, 18, short=True), million, 400)),
        ("clipped_cosine", one, _runs(lambda: candidate_cases(ClippedCosine, 13), million, 2_000)),
        ("deep_candidate", one, _runs(lambda: candidate_cases(DeepCandidate, 14), 300_000, 2_000)),
        ("document_selection", whole, _runs(lambda: selection_cases(15), million, 2_000)),
    ]
    return tuple(
        Audit(name.replace(", ", "-").replace("_", "-"), "sentences", name, "pure", adjacency, run, bar=0.6)
        for name, adjacency, run in rows
    )
