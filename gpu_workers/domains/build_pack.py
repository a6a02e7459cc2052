"""Build a domain pack from the sentence vectors of public documents.

The parameters of `clipped_cosine` and `deep_candidate` are chosen on held-out public documents that are not candidates,
without labels: the setting whose released vectors are nearest to the documents' own means, by centred cosine. They are
constants for every later document. The randomness of all steps comes from one seed.

The recoder is a map of sentence embeddings whose means separate public topics (Meehan et al. 2022, section 4.3). It is
trained on public documents only, without labels. The targets are k-means clusters of the documents' mean embeddings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from core.mechanisms.sentences.deep_candidate import Recoder
from core.mechanisms.sentences.domain_pack import (
    RECODER_LAYERS,
    CodeArray,
    CodeTable,
    DomainPack,
    DomainPackInfo,
    InvalidPack,
    Layers,
    MechanismParameters,
)
from core.mechanisms.sentences.registry import sentence_mechanism
from core.mechanisms.space import Space
from core.mechanisms.torch_threads import at_most
from gpu_workers.domains import codes, learned_codes
from gpu_workers.domains.learned_codes import LabelTask
from gpu_workers.domains.spec import STEPS_MAX, Embedded, half, mean_by_document
from gpu_workers.packs import pack_paths

FloatArray = npt.NDArray[np.float32]

CLUSTERS = 50
_DOCUMENTS_A_CLUSTER = 10
_EPOCHS = 12
_DOCUMENTS_A_BATCH = 128


def network(dimension: int) -> torch.nn.Sequential:
    """Four layers d -> d with ReLU between them."""
    layers: list[torch.nn.Module] = []
    for i in range(RECODER_LAYERS):
        layers.append(torch.nn.Linear(dimension, dimension))
        if i + 1 < RECODER_LAYERS:
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def train_recoder(corpus: Embedded, seed: int, *, on_update: Callable[[float], None]) -> Layers:
    """Train H and a linear L by cross-entropy of L(mean_i H(s_i)) against the clusters. Returns H's layers.

    `on_update` is called with the finished share.
    """
    from sklearn.cluster import KMeans

    torch.manual_seed(seed)
    order_source = np.random.default_rng(seed)
    means = corpus.means()
    clusters = min(CLUSTERS, max(2, len(means) // _DOCUMENTS_A_CLUSTER))
    targets = torch.from_numpy(KMeans(clusters, n_init=3, random_state=seed).fit_predict(means).astype(np.int64))
    documents = [torch.from_numpy(document) for document in corpus.documents()]
    recoder = network(means.shape[1])
    head = torch.nn.Linear(means.shape[1], clusters)
    steps = -(-len(documents) // _DOCUMENTS_A_BATCH) * _EPOCHS
    optimiser = torch.optim.AdamW([*recoder.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-3, total_steps=steps)
    for epoch in range(_EPOCHS):
        order = order_source.permutation(len(documents))
        for start in range(0, len(order), _DOCUMENTS_A_BATCH):
            chosen = order[start : start + _DOCUMENTS_A_BATCH]
            lengths = torch.tensor([len(documents[i]) for i in chosen])
            ids = torch.repeat_interleave(torch.arange(len(chosen)), lengths)
            coded = recoder(torch.cat([documents[i] for i in chosen]))
            mean = torch.zeros(len(chosen), means.shape[1]).index_add(0, ids, coded) / lengths[:, None]
            loss = torch.nn.functional.cross_entropy(head(mean), targets[chosen])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
        on_update((epoch + 1) / _EPOCHS)
    linears = [layer for layer in recoder if isinstance(layer, torch.nn.Linear)]
    # The pack stores float16: train on, and recode with, the stored numbers.
    return tuple((half(layer.weight.detach().numpy()), half(layer.bias.detach().numpy())) for layer in linears)


def recoded_means(layers: Layers, corpus: Embedded) -> FloatArray:
    """Mean recoded embedding of each document, `[n, d]`."""
    recode = Recoder(layers, torch.device("cpu"))
    return mean_by_document(recode(torch.from_numpy(corpus.vectors)).numpy(), corpus.lengths)


Progress = Callable[[str, float], None]

SEED = 20221
CANDIDATES = 4_096
PREFIXES = (64, 256, 1_024, CANDIDATES)  # the numbers of candidates to choose from
PROJECTIONS = (5, 10, 20, 40)
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
VALIDATION_SHARE = 0.12
VALIDATION_MAX = 1_000  # documents
VALIDATION_CORPUS_MAX = 150


def select(corpus: Embedded, kept: npt.NDArray[np.int64]) -> Embedded:
    """Return the documents with the indices `kept`."""
    documents = corpus.documents()
    return Embedded(
        vectors=np.concatenate([documents[i] for i in kept]),
        lengths=corpus.lengths[kept],
        labels=[corpus.labels[i] for i in kept],
    )


def join(corpora: list[Embedded]) -> Embedded:
    """Concatenate several corpora."""
    return Embedded(
        vectors=np.concatenate([corpus.vectors for corpus in corpora]),
        lengths=np.concatenate([corpus.lengths for corpus in corpora]),
        labels=[label for corpus in corpora for label in corpus.labels],
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
    truth_recoded = recoded_means(pack.recoder, validation)
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


def split(corpora: list[Embedded], draw: np.random.Generator) -> tuple[list[Embedded], Embedded]:
    """Split into the documents to fit on, one corpus after another, and held-out documents of all corpora to choose
    on."""
    kept, held = [], []
    rows_max = min(VALIDATION_MAX // len(corpora), VALIDATION_CORPUS_MAX)
    for corpus in corpora:
        order = draw.permutation(len(corpus.lengths))
        count = max(1, round(VALIDATION_SHARE * len(order)))
        held.append(select(corpus, order[:count][:rows_max]))
        kept.append(select(corpus, order[count:]))
    return kept, join(held)


def label_tasks(corpora: Sequence[Embedded], weights: Mapping[int, Sequence[float]]) -> list[LabelTask]:
    """Return a task for each aspect of the labels of the corpora in `weights`. A label has its aspects between "/".

    Documents with an empty aspect are left out of its task.
    """
    tasks = []
    for number, aspects in weights.items():
        labels = [label.split("/") for label in corpora[number].labels]
        for place, weight in enumerate(aspects):
            own = [label[place] for label in labels]
            names = sorted(set(own) - {""})
            classes = [names.index(name) if name else -1 for name in own]
            tasks.append(LabelTask(number, np.array(classes, dtype=np.int64), weight))
    return tasks


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread for torch, BLAS and OpenMP: a pack consists of thousands of small products, and threads would wait
    for each other.

    On two cores, 260 documents took 8.3 s with one thread and 10.0 s with two sleeping threads; 3,000 took 127 s and
    133 s.
    """
    with at_most(1), threadpool_limits(1):
        yield


@_one_thread()
def build_pack(
    corpora: list[Embedded],
    *,
    name: str,
    source: str,
    licence: str,
    encoder: str,
    encoder_fingerprint: str,
    seed: int,
    progress: Progress,
    aspect_weights: Mapping[int, Sequence[float]] = MappingProxyType({}),
    rows: Mapping[float, codes.CodesRow] = MappingProxyType(codes.DOMAIN_ROWS),
    steps: int = STEPS_MAX,
    known: Space | None = None,
) -> DomainPack:
    """Build the pack of one or several public corpora. A few dozen documents are enough; smaller corpora get fewer
    candidates and smaller codebooks.

    `corpora` hold unit vectors of one dimension. `aspect_weights` has the weight of each aspect of its labels
    (`label_tasks`); other labels are not used. `rows` are those of `codes`. `steps` is the length of each training of
    the codes. `known` is the space of another pack of the same encoder, which helps where the documents are few.
    `progress` is called with a stage and the finished share of this call.
    """
    draw = np.random.default_rng(seed)
    kept, validation = split(corpora, draw)
    public = join([corpus for corpus in kept if corpus.lengths.mean() > 1.5])

    tasks = label_tasks(kept, aspect_weights)
    shape = codes.geometry(kept, tasks)
    if known is not None:
        shape = shape.blended(known, kept)
    books, tables = codes.learned_tables(
        shape,
        kept,
        tasks,
        seed,
        rows=rows,
        steps=steps,
        on_update=lambda share: progress("learning-codes", 0.5 * share),
    )
    layers = train_recoder(public, seed, on_update=lambda share: progress("training-recoder", 0.5 + 0.1 * share))
    progress("choosing-candidates", 0.6)
    facts = {
        "name": name,
        "source": source,
        "licence": licence,
        "encoder": encoder,
        "encoder_fingerprint": encoder_fingerprint,
    }
    pack = _with_candidates(public, shape.space, books, tables, layers, draw, seed, facts)
    parameters = choose_parameters(pack, validation, lambda stage, share: progress(stage, 0.6 + 0.4 * share))
    return replace(pack, info=replace(pack.info, mechanism_parameters=parameters))


def _with_candidates(
    public: Embedded,
    space: Space,
    books: Mapping[int, CodeArray],
    tables: Mapping[float, CodeTable],
    layers: Layers,
    draw: np.random.Generator,
    seed: int,
    facts: Mapping[str, str],
) -> DomainPack:
    """Return the pack of these codes, with the candidates and projections of `deep_candidate` and `clipped_cosine`.

    Their parameters are the first of those to choose from. `facts` are the strings of the pack's `info`.
    """
    means = public.means()
    centre = half(public.vectors.mean(axis=0))
    chosen = ordered_candidates(means, centre, seed)
    dimension = public.vectors.shape[1]
    directions = draw.normal(size=(max(PROJECTIONS), dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    info = DomainPackInfo(
        **facts,
        dimension=dimension,
        rank=space.rank,
        candidates=len(chosen),
        projections=max(PROJECTIONS),
        mechanism_parameters=tuple(_first_parameters(*row, len(chosen)) for row in tables.items()),
    )
    return DomainPack(
        info=info,
        space=space,
        codebooks=books,
        code_tables=tuple(tables.values()),
        candidates=half(means[chosen]),
        centre=centre,
        recoded=half(recoded_means(layers, public)[chosen]),
        projections=half(directions),
        recoder=layers,
    )


def _first_parameters(epsilon: float, table: CodeTable, candidates: int) -> MechanismParameters:
    return MechanismParameters(
        epsilon=epsilon,
        codes=table.size,
        code_noise=table.noise,
        threshold=THRESHOLDS[0],
        cosine_candidates=candidates,
        projections=PROJECTIONS[0],
        depth_candidates=candidates,
        decoder=learned_codes.HIDDEN if table.decoder else 0,
        short_sentences=codes.SHORT_SENTENCES if table.short else 0,
        short_codes=table.short.size if table.short else 0,
    )


def known_space(encoder_fingerprint: str) -> Space | None:
    """Return the space of the shipped `general` pack, or None if it is missing or was made for another encoder."""
    path = pack_paths().get("general")
    try:
        return None if path is None else DomainPack.load(path, encoder_fingerprint=encoder_fingerprint).space
    except InvalidPack:
        return None
