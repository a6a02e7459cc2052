"""Build domain packs from public text; by default the `general` one.

    python -m gpu_workers.domains.build_pack --data DATA --cache CACHE --out gpu_workers/packs/general.safetensors

The build is resumable: finished embedding shards stay in CACHE. The other steps take a few minutes, and their
randomness comes from `--seed`. The parameters are chosen on held-out public documents that are not candidates, without
labels: the setting whose released vectors are nearest to the documents' own means (`codes`: in the space of the codes;
the others: by centred cosine). They are constants for every later document.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import DomainPackInfo, MechanismParameters
from core.mechanisms.sentences.registry import sentence_mechanism
from gpu_workers.domains import codes, public_text, recoder
from gpu_workers.domains.public_text import Embedded, show
from gpu_workers.models.encoder import Encoder

FloatArray = npt.NDArray[np.float32]
Progress = Callable[[str, float], None]

SEED = 20221
CANDIDATES = 4_096
PREFIXES = (64, 256, 1_024, CANDIDATES)  # the numbers of candidates to choose from
PROJECTIONS = (5, 10, 20, 40)
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
EPSILONS = (1.0, 2.0, 3.0, 6.0, 10.0, 15.0, 25.0, 50.0)
VALIDATION_SHARE = 0.12
VALIDATION_MAX = 1_000
SOURCES = {
    "20news-train": "20 Newsgroups bydate train (Lang 1995)",
    "imdb-train": "IMDB train (Maas et al. 2011)",
    "wikitext": "WikiText-2 valid and test (Merity et al. 2016)",
}
LICENCES = {
    "20news-train": "20 Newsgroups: none stated",
    "imdb-train": "IMDB: research, cite the paper",
    "wikitext": "WikiText-2: CC BY-SA",
}


def select(corpus: Embedded, kept: npt.NDArray[np.int64]) -> Embedded:
    """Return the documents with the indices `kept`."""
    documents = corpus.documents()
    return Embedded(
        vectors=np.concatenate([documents[i] for i in kept]),
        lengths=corpus.lengths[kept],
        labels=[corpus.labels[i] for i in kept],
    )


def join(parts: list[Embedded]) -> Embedded:
    """Concatenate several corpora."""
    return Embedded(
        vectors=np.concatenate([part.vectors for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        labels=[label for part in parts for label in part.labels],
    )


def prefixes(documents: int) -> tuple[int, ...]:
    """The numbers of candidates that a corpus of this size allows, ascending."""
    return (*(level for level in PREFIXES if level < documents), min(documents, CANDIDATES))[: len(PREFIXES)]


def ordered_candidates(means: FloatArray, centre: FloatArray, seed: int) -> npt.NDArray[np.int64]:
    """Return indices of at most `CANDIDATES` documents, ordered so that each of their `prefixes` covers the corpus.

    Each level adds the documents nearest to that many k-means centroids. The rest is a random sample.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import pairwise_distances_argmin

    directions = means - centre
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
    chosen: list[int] = []
    *levels, candidates = prefixes(len(means))
    for level in levels:
        missing = level - len(chosen)
        model = MiniBatchKMeans(level, n_init=3, batch_size=4096, random_state=seed).fit(directions)
        nearest = pairwise_distances_argmin(model.cluster_centers_, directions)
        # The largest clusters come first. A document is a candidate only once.
        sizes = np.bincount(model.labels_, minlength=level)
        taken = set(chosen)
        fresh = [int(i) for i in dict.fromkeys(nearest[np.argsort(-sizes)]) if int(i) not in taken][:missing]
        rest = np.setdiff1d(np.arange(len(means)), [*chosen, *fresh])
        filler = np.random.default_rng(seed).permutation(rest)[: missing - len(fresh)]
        chosen += [*fresh, *(int(i) for i in filler)]
    rest = np.setdiff1d(np.arange(len(means)), chosen)
    chosen += [int(i) for i in np.random.default_rng(seed).permutation(rest)[: candidates - len(chosen)]]
    return np.array(chosen, dtype=np.int64)


def similarity(released: FloatArray, truth: FloatArray, centre: FloatArray) -> float:
    """Mean centred cosine between released vectors and the documents' own."""
    a, b = released - centre, truth - centre
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean((a * b).sum(axis=1) / np.maximum(norms, 1e-12)))


def choose_parameters(pack: DomainPack, validation: Embedded, progress: Progress) -> tuple[MechanismParameters, ...]:
    """Choose the pack's parameters on public validation documents: the best threshold, projections and number of
    candidates for each epsilon."""
    levels = prefixes(pack.info.candidates)
    documents = [torch.from_numpy(document) for document in validation.documents()]
    truth = validation.means()
    truth_recoded = recoder.recoded_means(pack.recoder, validation)
    recoded_centre = pack.recoded.mean(axis=0)

    def score(mechanism: str, parameters: MechanismParameters) -> float:
        trial = replace(pack, info=replace(pack.info, mechanism_parameters=(parameters,)))
        epsilon_nano = [round(parameters.epsilon * 10**9)] * len(documents)
        vectors = sentence_mechanism(mechanism, trial).release(documents, epsilon_nano)
        if mechanism == "clipped_cosine":
            return similarity(vectors, truth, pack.centre)
        return similarity(vectors, truth_recoded, recoded_centre)

    table = []
    for done, base in enumerate(pack.info.mechanism_parameters, start=1):
        cosine = [replace(base, threshold=t, cosine_candidates=n) for t in THRESHOLDS for n in levels]
        depth = [replace(base, projections=p, depth_candidates=n) for p in PROJECTIONS for n in levels]
        cosine_scores = [score("clipped_cosine", parameters) for parameters in cosine]
        depth_scores = [score("deep_candidate", parameters) for parameters in depth]
        best, deepest = cosine[int(np.argmax(cosine_scores))], depth[int(np.argmax(depth_scores))]
        table.append(replace(best, projections=deepest.projections, depth_candidates=deepest.depth_candidates))
        progress("choosing-settings", done / len(pack.info.mechanism_parameters))
    return tuple(table)


def split(parts: list[Embedded], draw: np.random.Generator) -> tuple[list[Embedded], Embedded]:
    """Split into the documents to fit on, one corpus after another, and held-out documents of all corpora to choose
    on."""
    kept, held = [], []
    rows_max = VALIDATION_MAX // len(parts)
    for part in parts:
        order = draw.permutation(len(part.lengths))
        count = max(1, round(VALIDATION_SHARE * len(order)))
        held.append(select(part, order[:count][:rows_max]))
        kept.append(select(part, order[count:]))
    return kept, join(held)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread for torch, BLAS and OpenMP: a pack consists of thousands of small products, and threads would wait
    for each other.

    On two cores, 260 documents took 8.3 s with one thread and 10.0 s with two sleeping threads; 3,000 took 127 s and
    133 s.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@_one_thread()
def build_pack(
    parts: list[Embedded],
    *,
    name: str,
    source: str,
    licence: str,
    encoder: str,
    encoder_fingerprint: str,
    seed: int,
    progress: Progress,
) -> DomainPack:
    """Build the pack of one or several public corpora. A few dozen documents are enough; smaller corpora get fewer
    candidates and smaller codebooks.

    `parts` hold unit vectors of one dimension. `progress` is called with a stage and the finished share of this call.
    """
    draw = np.random.default_rng(seed)
    kept, validation = split(parts, draw)
    public = join(kept)

    progress("fitting-codes", 0.0)
    shape = codes.geometry(kept)
    fitter = codes.Fitter(shape, public, validation, seed)
    fitted = []
    for done, epsilon in enumerate(EPSILONS, start=1):
        fitted.append(fitter.best(round(epsilon * NANO)))
        progress("fitting-codes", 0.35 * done / len(EPSILONS))

    layers = recoder.train(public, seed, on_update=lambda share: progress("training-recoder", 0.35 + 0.25 * share))
    progress("choosing-candidates", 0.6)
    centre = public.vectors.mean(axis=0).astype(np.float16).astype(np.float32)
    chosen = ordered_candidates(public.means(), centre, seed)
    dimension = public.vectors.shape[1]
    directions = draw.normal(size=(max(PROJECTIONS), dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    info = DomainPackInfo(
        name=name,
        encoder=encoder,
        encoder_fingerprint=encoder_fingerprint,
        dimension=dimension,
        rank=shape.space.rank,
        candidates=len(chosen),
        projections=max(PROJECTIONS),
        source=source,
        licence=licence,
        mechanism_parameters=tuple(
            MechanismParameters(
                epsilon=epsilon,
                codes=best.table.size,
                code_noise=best.table.noise,
                threshold=THRESHOLDS[0],
                cosine_candidates=len(chosen),
                projections=PROJECTIONS[0],
                depth_candidates=len(chosen),
            )
            for epsilon, best in zip(EPSILONS, fitted, strict=True)
        ),
    )
    pack = DomainPack(
        info=info,
        space=shape.space,
        codebooks={size: fitter.codebooks[size] for size in info.codebook_sizes},
        code_tables=tuple(best.table for best in fitted),
        candidates=_half(public.means()[chosen]),
        centre=centre,
        recoded=_half(recoder.recoded_means(layers, public)[chosen]),
        projections=_half(directions),
        recoder=layers,
    )
    parameters = choose_parameters(pack, validation, lambda stage, share: progress(stage, 0.6 + 0.4 * share))
    return replace(pack, info=replace(info, mechanism_parameters=parameters))


CORPORA = {
    "20news-train": partial(public_text.newsgroups, split="train", limit=8_000),
    "imdb-train": partial(public_text.imdb, split="train", limit=8_000),
    "wikitext": partial(public_text.wikitext, limit=1_500),
}


def build(data: Path, cache: Path, seed: int, *, name: str, corpora: tuple[str, ...]) -> DomainPack:
    """Build the pack of public corpora under `data`. All of them together make the `general` pack."""
    encoder = Encoder()
    documents = {corpus: CORPORA[corpus](data) for corpus in corpora}
    return build_pack(
        [public_text.embed(rows, encoder, cache, corpus) for corpus, rows in documents.items()],
        name=name,
        source="; ".join(SOURCES[corpus] for corpus in corpora),
        licence="; ".join(LICENCES[corpus] for corpus in corpora) + ". The pack holds vectors and weights, no text.",
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        seed=seed,
        progress=lambda stage, share: show(f"{stage} {share:.0%}"),
    )


def _half(array: npt.NDArray[np.floating]) -> FloatArray:
    """Round to the precision of the file: the parameters are chosen on exactly the stored numbers."""
    return array.astype(np.float16).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the general domain pack.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings, outside the repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="general")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    corpora = tuple(arguments.corpora)
    pack = build(arguments.data, arguments.cache, arguments.seed, name=arguments.name, corpora=corpora)
    pack.save(arguments.out)
    DomainPack.load(arguments.out)


if __name__ == "__main__":
    main()
