"""Audits of the private choice of a pack, and of the whole release that follows it.

Routes and packs are searched with the documents, as in `audits.sentences`. The choice is audited for documents of
several sentences (permute-and-flip over votes) and of one (randomised response). An attacker of the whole release sees
the chosen pack and, since codes mean axes, the noisy histogram.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from audits.kit import Audit, Case, FloatArray, Found, Scale, audit, by_law
from audits.sentences import DIMENSION, EPSILON, code_pack, companions, neighbours, permute_and_flip_law, pool
from pack_kit import make_routes

from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import CodeNoise
from core.mechanisms.sentences.registry import protection, routing_share
from core.mechanisms.sentences.routing import RoutedCodes, Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes

_WORST = (1, 2, 3, 17)  # sentences of the documents that are looked at before the search
_E = np.eye(DIMENSION, dtype=np.float32)

Documents = tuple[FloatArray, FloatArray]
Generator = np.random.Generator


def _router(points: FloatArray, packs: int, *, default_percent: int = 0, evidence_min: int = 0) -> Router:
    names = tuple(f"pack-{number}" for number in range(packs))
    owners = [number % packs for number in range(len(points))]
    return Router(make_routes(points, owners, names, default_percent=default_percent, evidence_min=evidence_min))


def choice_law(router: Router, document: FloatArray, epsilon: float) -> FloatArray:
    """The law of the choice for one document, from its votes."""
    info = router.routes.info
    votes = router.votes([torch.from_numpy(document)])[0].astype(np.float64)
    if len(document) == 1:
        law = np.where(votes > 0, np.exp(epsilon), 1.0)
        return np.asarray(law / law.sum())
    votes[info.packs.index(info.default)] += len(document) * info.default_percent // 100
    return permute_and_flip_law(votes, epsilon, 1)


def choice_case(
    router: Router, documents: Documents, others: list[torch.Tensor], facts: str, epsilon: float = EPSILON
) -> Case:
    ratio, law = by_law(choice_law(router, documents[0], epsilon), choice_law(router, documents[1], epsilon))
    nano = round(epsilon * NANO)

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(documents[side])
        chosen = router.choose([*others, *[document] * runs], [nano] * (len(others) + runs))
        return np.asarray(ratio[chosen[len(others) :]])

    return Case(f"{facts}, {len(router.routes.info.packs)} packs", epsilon, draw, law)


def worst_documents(sentences: int) -> Documents:
    """All votes for the first pack, and one of them for the second."""
    first = np.repeat(_E[:1], sentences, axis=0)
    second = first.copy()
    second[0] = _E[1]
    return first, second


def choice_cases(seed: int, epsilon: float = EPSILON, *, single: bool = False) -> Iterator[Case]:
    """Cases of the choice, both ways: for documents of one sentence, or of several."""
    rng = np.random.default_rng(seed)
    for packs in (2, 5):
        for k in _WORST:
            if (k == 1) is single:
                router, pair = _router(_E[:packs], packs), worst_documents(k)
                for documents in (pair, pair[::-1]):
                    yield choice_case(router, documents, [], f"{k} sentences of one route, one replaced", epsilon)
    while True:
        packs = int(rng.choice([2, 3, 5]))
        points = rng.normal(size=(packs * int(rng.integers(1, 4)), DIMENSION)).astype(np.float32)
        router = _router(points, packs, default_percent=int(rng.choice([0, 30, 100])))
        sentences = pool(rng, points)
        first, second, facts = neighbours(rng, sentences)
        votes = [router.votes([torch.from_numpy(each)])[0] for each in (first, second)]
        if (len(first) == 1) is not single or (votes[0] == votes[1]).all():
            continue
        yield choice_case(router, (first, second), companions(rng, sentences), facts, epsilon)


def routed_case(
    routed: RoutedCodes,
    mechanism_of: dict[str, SentenceCodes],
    router: Router,
    documents: Documents,
    others: list[torch.Tensor],
    facts: str,
    epsilon: float = EPSILON,
) -> Case:
    """The statistic is the log likelihood ratio of the choice, if there is one, and of the histogram that follows."""
    nano = round(epsilon * NANO)
    info = router.routes.info
    share_nano = routing_share(nano) if len(documents[0]) * routing_share(nano) >= info.evidence_min * NANO else 0
    both = [torch.from_numpy(each) for each in documents]
    packs = info.packs
    ratio = np.zeros(len(packs))
    if share_nano:
        ratio, _ = by_law(*(choice_law(router, each, share_nano / NANO) for each in documents))
    size = len(mechanism_of[packs[0]].pack.code_tables[0].vectors)
    histograms = {
        name: [np.bincount(mechanism.codes([each], size), minlength=size) for each in both]
        for name, mechanism in mechanism_of.items()
    }

    def evidence(name: str, noisy: FloatArray) -> FloatArray:
        first, second = histograms[name]
        release, own_nano = mechanism_of[name].table_for(nano - share_nano, sentences=len(documents[0]))
        if release.table.noise is CodeNoise.RESPONSES:
            return np.asarray(own_nano / NANO * (noisy @ np.sign(first - second)))
        far, near = (np.abs(noisy - histogram).sum(axis=1) for histogram in (second, first))
        return np.asarray(own_nano / NANO / 2 * (far - near))

    def draw(side: int, runs: int) -> FloatArray:
        released, chosen = routed.release([*others, *[both[side]] * runs], [nano] * (len(others) + runs))
        noisy = np.rint(released[len(others) :, :size] * len(both[side]))
        names = np.array(chosen[len(others) :])
        statistic = np.zeros(runs)
        for j, name in enumerate(packs):
            own = names == name
            statistic[own] = ratio[j] + evidence(name, noisy[own])
        return np.round(statistic, 9)

    return Case(f"{facts}, {len(packs)} packs of {size} codes", epsilon, draw)


def _routed(
    rng: Generator, points: FloatArray, packs: int, *, evidence_min: int, short: bool
) -> tuple[RoutedCodes, dict[str, SentenceCodes], Router]:
    """Routes between packs whose centroids are the same points; each has one of the two kinds of noise, and with
    `short` a table for short documents."""
    router = _router(points, packs, evidence_min=evidence_min)
    noises = [*CodeNoise, *rng.choice(list(CodeNoise), size=packs)][:packs]
    mechanisms = {
        name: SentenceCodes(code_pack(CodeNoise(noise), points, short=short))
        for name, noise in zip(router.routes.info.packs, noises, strict=True)
    }
    return RoutedCodes(router, mechanisms), mechanisms, router


def routed_cases(seed: int, epsilon: float = EPSILON, *, evidence_min: int = 0, short: bool = False) -> Iterator[Case]:
    """Cases of the whole release, both ways.

    With `evidence_min`, documents of few sentences have no choice. With `short`, they have a table of their own, which
    takes more codes.
    """
    rng = np.random.default_rng(seed)
    for k in _WORST:
        routed, mechanisms, router = _routed(rng, _E[: 6 if short else 2], 2, evidence_min=evidence_min, short=short)
        pair = worst_documents(k)
        for documents in (pair, pair[::-1]):
            facts = f"{k} sentences of one route, one replaced"
            yield routed_case(routed, mechanisms, router, documents, [], facts, epsilon)
    while True:
        packs = int(rng.choice([2, 3]))
        codes = int(rng.choice([6, 7, 8] if short else [3, 5, 8]))
        points = rng.normal(size=(codes, DIMENSION)).astype(np.float32)
        routed, mechanisms, router = _routed(rng, points, packs, evidence_min=evidence_min, short=short)
        sentences = pool(rng, points)
        first, second, facts = neighbours(rng, sentences)
        votes = [router.votes([torch.from_numpy(each)])[0] for each in (first, second)]
        if (votes[0] == votes[1]).all():
            continue  # only the release can differ: `audits.sentences`
        yield routed_case(routed, mechanisms, router, (first, second), companions(rng, sentences), facts, epsilon)


def _runs(cases: Callable[[], Iterator[Case]], pairs: int) -> Callable[[Scale], Found]:
    return lambda scale: audit(cases(), scale.at_most(1_000_000, pairs), batch=20_000)


def audits() -> tuple[Audit, ...]:
    one = protection("sentence_codes").adjacency
    rows = [
        ("routing, votes", _runs(lambda: choice_cases(18), 2_000)),
        ("routing, one sentence", _runs(lambda: choice_cases(19, single=True), 500)),
        ("sentence_codes, routed", _runs(lambda: routed_cases(20), 400)),
        ("sentence_codes, routed or not by length", _runs(lambda: routed_cases(21, evidence_min=1), 400)),
        ("sentence_codes, routed, short", _runs(lambda: routed_cases(22, short=True), 400)),
    ]
    return tuple(
        Audit(name.replace(", ", "-").replace(" ", "-").replace("_", "-"), "sentences", name, "pure", one, run, bar=0.6)
        for name, run in rows
    )
