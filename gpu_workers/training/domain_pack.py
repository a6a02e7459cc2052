"""Build the `general` domain pack from public text.

    python -m gpu_workers.training.domain_pack --data DATA --cache CACHE --out gpu_workers/packs/general.safetensors

Resumable: finished embedding shards stay in CACHE. Everything else takes a few minutes and is drawn from `--seed`.
The knobs are chosen on held-out public documents that are no candidates, without labels: the setting whose released
vectors are nearest (centred cosine) to the documents' own means. They are constants for every later document.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.domain_pack import DomainPack, DomainPackInfo, Knobs
from core.mechanisms.sentence import sentence_mechanism
from gpu_workers.encoder import Encoder
from gpu_workers.training import public_text, recoder
from gpu_workers.training.public_text import Embedded, show

FloatArray = npt.NDArray[np.float32]

CANDIDATES = 4_096
PREFIXES = (64, 256, 1_024, CANDIDATES)  # numbers of candidates that the knobs choose from
PROJECTIONS = (5, 10, 20, 40)
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
EPSILONS = (1.0, 2.0, 3.0, 6.0, 10.0, 15.0, 25.0, 50.0)
VALIDATION_SHARE = 0.12
VALIDATION_MAX = 1_000
SOURCE = (
    "20 Newsgroups bydate train (Lang 1995), IMDB train (Maas et al. 2011), WikiText-2 valid and test "
    "(Merity et al. 2016)"
)
LICENCE = (
    "20 Newsgroups: none stated; IMDB: research, cite the paper; WikiText-2: CC BY-SA. "
    "The pack holds vectors and weights, no text."
)


def select(corpus: Embedded, kept: npt.NDArray[np.int64]) -> Embedded:
    """The documents numbered `kept`."""
    documents = corpus.documents()
    return Embedded(
        vectors=np.concatenate([documents[i] for i in kept]),
        lengths=corpus.lengths[kept],
        labels=[corpus.labels[i] for i in kept],
    )


def join(parts: list[Embedded]) -> Embedded:
    """Several corpora as one."""
    return Embedded(
        vectors=np.concatenate([part.vectors for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        labels=[label for part in parts for label in part.labels],
    )


def ordered_candidates(means: FloatArray, centre: FloatArray, seed: int) -> npt.NDArray[np.int64]:
    """Numbers of `CANDIDATES` documents, ordered so that every prefix of `PREFIXES` covers the corpus.

    Each level adds the documents nearest to that many k-means centroids; the rest is a random sample.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import pairwise_distances_argmin

    directions = means - centre
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    chosen: list[int] = []
    for level in PREFIXES[:-1]:
        missing = level - len(chosen)
        model = MiniBatchKMeans(level, n_init=3, batch_size=4096, random_state=seed).fit(directions)
        nearest = pairwise_distances_argmin(model.cluster_centers_, directions)
        # The largest clusters first; a document is a candidate once.
        sizes = np.bincount(model.labels_, minlength=level)
        taken = set(chosen)
        fresh = [int(i) for i in dict.fromkeys(nearest[np.argsort(-sizes)]) if int(i) not in taken][:missing]
        rest = np.setdiff1d(np.arange(len(means)), [*chosen, *fresh])
        filler = np.random.default_rng(seed).permutation(rest)[: missing - len(fresh)]
        chosen += [*fresh, *(int(i) for i in filler)]
    rest = np.setdiff1d(np.arange(len(means)), chosen)
    chosen += [int(i) for i in np.random.default_rng(seed).permutation(rest)[: CANDIDATES - len(chosen)]]
    return np.array(chosen, dtype=np.int64)


def similarity(released: FloatArray, truth: FloatArray, centre: FloatArray) -> float:
    """Mean centred cosine between released vectors and the documents' own."""
    a, b = released - centre, truth - centre
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean((a * b).sum(axis=1) / np.maximum(norms, 1e-12)))


def choose_knobs(pack: DomainPack, validation: Embedded) -> tuple[Knobs, ...]:
    """For each epsilon the best threshold, projections and numbers of candidates on public validation documents."""
    documents = [torch.from_numpy(document) for document in validation.documents()]
    truth = validation.means()
    truth_recoded = recoder.recoded_means(pack.recoder, validation)
    recoded_centre = pack.recoded.mean(axis=0)

    def score(mechanism: str, knobs: Knobs) -> float:
        trial = replace(pack, info=replace(pack.info, knobs=(knobs,)))
        epsilon_nano = [round(knobs.epsilon * 10**9)] * len(documents)
        vectors = sentence_mechanism(mechanism, trial).release(documents, epsilon_nano).vectors
        if mechanism == "clipped_cosine":
            return similarity(vectors, truth, pack.centre)
        return similarity(vectors, truth_recoded, recoded_centre)

    table = []
    for epsilon in EPSILONS:
        base = Knobs(epsilon, 0.3, CANDIDATES, PROJECTIONS[0], CANDIDATES)
        cosine = [replace(base, threshold=t, cosine_candidates=n) for t in THRESHOLDS for n in PREFIXES]
        depth = [replace(base, projections=p, depth_candidates=n) for p in PROJECTIONS for n in PREFIXES]
        cosine_scores = [score("clipped_cosine", knobs) for knobs in cosine]
        depth_scores = [score("deep_candidate", knobs) for knobs in depth]
        best, deepest = cosine[int(np.argmax(cosine_scores))], depth[int(np.argmax(depth_scores))]
        table.append(replace(best, projections=deepest.projections, depth_candidates=deepest.depth_candidates))
        show(f"{table[-1]} similarity {max(cosine_scores):.3f} / {max(depth_scores):.3f}")
        show("")
    return tuple(table)


def build(data: Path, cache: Path, seed: int) -> DomainPack:
    """The pack, from public text under `data`."""
    encoder = Encoder()
    corpus = join(
        [
            public_text.embed(documents, encoder, cache, name)
            for name, documents in (
                ("20news-train", public_text.newsgroups(data, "train", 4_500)),
                ("imdb-train", public_text.imdb(data, "train", 3_500)),
                ("wikitext", public_text.wikitext(data, 1_500)),
            )
        ]
    )
    source = np.random.default_rng(seed)
    order = source.permutation(len(corpus.lengths))
    held = round(VALIDATION_SHARE * len(order))
    validation = select(corpus, order[:held][:VALIDATION_MAX])
    public = select(corpus, order[held:])

    centre = public.vectors.mean(axis=0).astype(np.float16).astype(np.float32)
    layers = recoder.train(public, seed)
    chosen = ordered_candidates(public.means(), centre, seed)
    directions = source.normal(size=(max(PROJECTIONS), encoder.dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    info = DomainPackInfo(
        name="general",
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        candidates=CANDIDATES,
        projections=max(PROJECTIONS),
        source=SOURCE,
        licence=LICENCE,
        knobs=(Knobs(1.0, 0.3, CANDIDATES, max(PROJECTIONS), CANDIDATES),),
    )
    pack = DomainPack(
        info=info,
        candidates=_half(public.means()[chosen]),
        centre=centre,
        recoded=_half(recoder.recoded_means(layers, public)[chosen]),
        projections=_half(directions),
        recoder=layers,
    )
    return replace(pack, info=replace(info, knobs=choose_knobs(pack, validation)))


def _half(array: npt.NDArray[np.floating]) -> FloatArray:
    """What the file will hold: the knobs are chosen on exactly that."""
    return array.astype(np.float16).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the general domain pack.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings, outside the repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=20221)
    arguments = parser.parse_args()
    pack = build(arguments.data, arguments.cache, arguments.seed)
    pack.save(arguments.out)
    DomainPack.load(arguments.out)


if __name__ == "__main__":
    main()
