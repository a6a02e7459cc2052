"""Build the routes among domain packs from public text (`core.mechanisms.sentences.routes`).

    python -m training.build_routes --data DATA --cache CACHE --out gpu_workers/packs/routes.safetensors

Space and centroids are a classifier of public sentences by pack. They start as the discriminant directions of the packs
(shared covariance within), the principal directions, and the k-means centroids of each pack. They are then trained
together: a sentence's pack is predicted by the softmax of the distances to all centroids. Every pack counts the same,
and so does every corpus of a pack. At last both are rounded to the integers of the mechanism.

A share of the documents is held out, for the figures that the command prints. The build is resumable: finished
embedding shards stay in CACHE. Its randomness comes from `--seed`.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import CodeArray
from core.mechanisms.sentences.routes import Routes, RoutesInfo
from core.mechanisms.sentences.routing import Router
from core.mechanisms.space import CODE_MAX
from gpu_workers.domains.build_pack import SEED, select
from gpu_workers.domains.codes import integer_space
from gpu_workers.domains.spec import Embedded
from gpu_workers.models.encoder import Encoder
from training import public_text
from training.public_text import show
from training.shipped_packs import CORPORA, GENERAL, PACKS, declared

PACK_CORPORA = PACKS | {GENERAL: ("wikitext", "qnli", "bbc")}  # whose sentences name a pack
DEFAULT_PERCENT = 15
EVIDENCE_MIN = 8
HELD_SHARE = 0.1
AXES = 32
CENTROIDS_A_PACK = 16
STEPS = 3_000
LENGTHS = (1, 2, 4, 8, 16)
SHARES = (0.25, 0.5, 0.75, 1.0)
_BATCH = 512
_RATE = 0.02
_START_SCALE = 3.0  # of the starting axes: the softmax of the distances is then neither flat nor hard
_START_ROWS = 20_000
_RIDGE = 1e-4
_DOCUMENTS_MIN = 8  # for a figure
_REACH = 4.0  # standard deviations of the widest axis that the grid holds

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Classifier:
    """y = (s - centre) @ axes, and real centroids `[packs * CENTROIDS_A_PACK, r]`, those of one pack after another."""

    axes: Doubles
    centre: Doubles
    centroids: Doubles


def build_routes(
    packs: Mapping[str, Sequence[Embedded]],
    *,
    encoder: str,
    encoder_fingerprint: str,
    source: str,
    licence: str,
    default: str = GENERAL,
    default_percent: int = DEFAULT_PERCENT,
    evidence_min: int = EVIDENCE_MIN,
    seed: int = SEED,
    steps: int = STEPS,
) -> Routes:
    """Build routes to the packs and the default one. `packs` maps a name to the public corpora of that pack. A default
    pack without corpora gets no centroids, only the further votes."""
    draw = np.random.default_rng(seed)
    found = _trained(_start(packs, draw), packs, steps, seed)
    rows = np.concatenate([_sample(parts, draw, _START_ROWS) for parts in packs.values()])
    widest = ((rows - found.centre) @ found.axes).std(axis=0).max()
    step = CODE_MAX / (_REACH * float(widest))
    centroids: CodeArray = np.clip(np.round(step * found.centroids), -CODE_MAX, CODE_MAX).astype(np.int8)
    return Routes(
        info=RoutesInfo(
            encoder=encoder,
            encoder_fingerprint=encoder_fingerprint,
            dimension=len(found.axes),
            rank=found.axes.shape[1],
            centroids=len(centroids),
            packs=(*packs, *({default} - set(packs))),
            default=default,
            default_percent=default_percent,
            evidence_min=evidence_min,
            source=source,
            licence=licence,
        ),
        space=integer_space(found.axes, found.centre, step),
        centroids=centroids,
        owners=np.repeat(np.arange(len(packs)), CENTROIDS_A_PACK),
    )


def _sample(parts: Sequence[Embedded], draw: np.random.Generator, rows: int) -> Doubles:
    """Return `rows` sentence vectors, drawn with repetition, as many of each corpus: `[rows, d]`."""
    share = rows // len(parts)
    return np.concatenate([part.vectors[draw.integers(len(part.vectors), size=share)] for part in parts]).astype(float)


def _start(packs: Mapping[str, Sequence[Embedded]], draw: np.random.Generator) -> _Classifier:
    """Discriminant and principal directions, and k-means centroids of each pack."""
    from scipy.linalg import eigh
    from sklearn.cluster import KMeans

    samples = [_sample(parts, draw, _START_ROWS) for parts in packs.values()]
    centre = np.mean([sample.mean(axis=0) for sample in samples], axis=0)
    within = np.mean([np.cov(sample.T, bias=True) for sample in samples], axis=0)
    away = np.stack([sample.mean(axis=0) - centre for sample in samples])
    noise = within + _RIDGE * np.trace(within) / len(within) * np.eye(len(within))
    between = away.T @ away / len(away)
    apart = eigh(between, noise)[1][:, ::-1][:, : len(packs) - 1]
    principal = np.linalg.eigh(within + between)[1][:, ::-1][:, : max(0, min(AXES, len(within)) - apart.shape[1])]
    axes = np.concatenate([apart / np.linalg.norm(apart, axis=0), principal], axis=1) * _START_SCALE
    centroids = [
        KMeans(CENTROIDS_A_PACK, n_init=1, max_iter=30, random_state=0).fit((sample - centre) @ axes).cluster_centers_
        for sample in samples
    ]
    return _Classifier(axes, centre, np.concatenate(centroids))


def _trained(start: _Classifier, packs: Mapping[str, Sequence[Embedded]], steps: int, seed: int) -> _Classifier:
    """Return the classifier trained by cross-entropy on balanced batches of sentences."""
    draw = np.random.default_rng(seed)
    axes = torch.tensor(start.axes, dtype=torch.float32, requires_grad=True)
    centroids = torch.tensor(start.centroids, dtype=torch.float32, requires_grad=True)
    optimiser = torch.optim.Adam([axes, centroids], lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, steps))
    for _ in range(steps):
        rows = [_sample(parts, draw, _BATCH // len(packs)) for parts in packs.values()]
        owners = torch.repeat_interleave(torch.arange(len(packs)), torch.tensor([len(own) for own in rows]))
        places = torch.tensor(np.concatenate(rows) - start.centre, dtype=torch.float32) @ axes
        nearness = 2 * places @ centroids.T - centroids.square().sum(dim=1)
        votes = nearness.reshape(len(places), len(packs), CENTROIDS_A_PACK).logsumexp(dim=2)
        loss = torch.nn.functional.cross_entropy(votes, owners)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return _Classifier(axes.detach().double().numpy(), start.centre, centroids.detach().double().numpy())


def held_out(part: Embedded, seed: int) -> tuple[Embedded, Embedded]:
    """Return the documents to build from, and the held-out ones."""
    order = np.random.default_rng(seed).permutation(len(part.lengths))
    count = max(1, round(HELD_SHARE * len(order)))
    return select(part, order[count:]), select(part, order[:count])


def sentence_accuracy(router: Router, part: Embedded, pack: str) -> float:
    """Return the share of sentences whose route is `pack`."""
    routes = router.sentence_routes([torch.from_numpy(part.vectors)])
    return float((routes == router.routes.info.packs.index(pack)).mean())


def majority_accuracy(router: Router, part: Embedded, pack: str) -> float:
    """Return the share of documents of which `pack` has the most votes, the first of equal ones."""
    votes = router.votes([torch.from_numpy(document) for document in part.documents()])
    return float((votes.argmax(axis=1) == router.routes.info.packs.index(pack)).mean())


def choices(router: Router, part: Embedded, length: int, share: float) -> npt.NDArray[np.float64] | None:
    """Return the share of each pack among private choices for the first `length` sentences of each long enough
    document, `[packs]`. None if there are few such documents."""
    documents = [torch.from_numpy(document[:length]) for document in part.documents() if len(document) >= length]
    if len(documents) < _DOCUMENTS_MIN:
        return None
    chosen = router.choose(documents, [round(share * NANO)] * len(documents))
    return np.bincount(chosen, minlength=len(router.routes.info.packs)) / len(documents)


def report(router: Router, held: Mapping[str, tuple[str, Embedded]]) -> str:
    """Return the figures of held-out documents as a table. `held` maps a corpus to its pack and documents."""
    info = router.routes.info
    default = info.packs.index(info.default)
    lines = ["corpus: sentences right, documents right by majority"]
    for corpus, (pack, part) in held.items():
        right, majority = sentence_accuracy(router, part, pack), majority_accuracy(router, part, pack)
        lines.append(f"{corpus}: {right:.3f}, {majority:.3f}")
    lines.append(f"private choice by sentences k and share: right pack / {info.default}")
    for length in LENGTHS:
        for share in SHARES:
            figures = []
            for corpus, (pack, part) in held.items():
                shares = choices(router, part, length, share)
                if shares is not None:
                    figures.append(f"{corpus} {shares[info.packs.index(pack)]:.2f}/{shares[default]:.2f}")
            if figures:
                lines.append(f"k={length} share={share}: {', '.join(figures)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the routes among domain packs.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings, outside the repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--default-percent", type=int, default=DEFAULT_PERCENT)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    encoder = Encoder()
    kept: dict[str, list[Embedded]] = {pack: [] for pack in PACK_CORPORA}
    held: dict[str, tuple[str, Embedded]] = {}
    for pack, corpora in PACK_CORPORA.items():
        for corpus in corpora:
            whole = public_text.embed(CORPORA[corpus].read(arguments.data), encoder, arguments.cache, corpus)
            part, held_part = held_out(whole, arguments.seed)
            kept[pack].append(part)
            held[corpus] = pack, held_part
    used = [corpus for corpora in PACK_CORPORA.values() for corpus in corpora]
    routes = build_routes(
        kept, **declared(used, encoder), default_percent=arguments.default_percent, seed=arguments.seed
    )
    routes.save(arguments.out)
    show(report(Router(Routes.load(arguments.out)), held) + "\n")


if __name__ == "__main__":
    main()
