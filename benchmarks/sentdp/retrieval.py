"""Retrieval with private embeddings: nDCG@10 against epsilon, on four tasks with known relevance.

    python -m benchmarks.sentdp.retrieval --data DATA [--documents 8000]

*duplicates*: a Quora question -> the question that a person marked as its duplicate (k = 1). *answers*: a question of
QNLI -> the sentence of Wikipedia that has its answer (k = 1). *halves*: the first 8 sentences of a message of 20
Newsgroups -> the next 8 of the same message. *topic*: the first 8 sentences -> other messages of the same of 20 groups.

The queries are released and the collection is public; in the last row the queries are public and every document of the
collection is released. The score is the cosine after the mean of all queries is subtracted from the queries, and that
of the collection from its documents. Ties are broken at random. A cell has the mean over queries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.kit import CACHE, arguments, head, row
from benchmarks.sentdp.methods import Documents, FloatArray, means, recoded, released
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from core.mechanisms.vectors.projection import VectorPack
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.spec import vector_spec
from core.text.segment import sentences
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.packs import VECTOR_PACK, pack_paths
from training import public_text
from training.public_text import Document

EPSILONS = (1, 3, 6, 10, 25)
DEPTH = 10
QUERIES = 500
HALF = 8  # sentences
DISTRACTORS = 4_000
IN_PACK = 8_000  # texts of the training split, of which the general pack was built
VECTOR = "/embed/vector, codebook"

BoolArray = npt.NDArray[np.bool_]
Embed = Callable[[list[Document], str], list[FloatArray]]


def ndcg(hits: BoolArray, relevant: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Normalised discounted cumulative gain of each query, gains 0 or 1, discount 1 / log2(rank + 1).

    Shapes: `hits` `[q, depth]`, whether the document at each rank is relevant; `relevant` `[q]`, the number of relevant
    documents in the collection, at least 1.
    """
    discount = 1 / np.log2(np.arange(hits.shape[1]) + 2)
    ideal = np.cumsum(discount)[np.minimum(relevant, hits.shape[1]) - 1]
    return np.asarray(hits @ discount / ideal)


def hits_of(queries: FloatArray, collection: FloatArray, relevant: BoolArray, source: np.random.Generator) -> BoolArray:
    """Whether the document at each of the first ranks is relevant, by centred cosine, ties in random order.

    Shape of the result: `[q, depth]`.
    """
    order = source.permutation(len(collection))
    shuffled = (collection - collection.mean(axis=0))[order]
    lengths = np.linalg.norm(shuffled, axis=1)
    scores = (queries - queries.mean(axis=0)) @ (shuffled / np.maximum(lengths, 1e-9)[:, None]).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    return np.take_along_axis(relevant[:, order], best, axis=1)


@dataclass(frozen=True)
class Task:
    """`relevant` `[q, n]` says which of n documents answers which of q queries. Documents are `[k, d]` arrays."""

    title: str
    queries: list[FloatArray]
    collection: list[FloatArray]
    relevant: BoolArray

    @property
    def is_single(self) -> bool:
        return all(len(document) == 1 for document in (*self.queries, *self.collection))

    def chance(self) -> str:
        """The expectation for a random order."""
        certain = np.ones((len(self.relevant), DEPTH), dtype=np.bool_)
        return f"{(self.relevant.mean(axis=1) * ndcg(certain, self.relevant.sum(axis=1))).mean():.3f}"


def question_task(title: str, name: str, positive: str, data: Path, embed: Embed) -> Task:
    """Pairs of the validation split, neither of whose texts the general pack was built from.

    The second texts of that split and of the training split's first pairs are the collection.
    """
    seen = {" ".join(document.sentences) for document in public_text.pairs(data, name, IN_PACK)}
    dev = list(public_text.json_lines(data / "glue" / f"{name}_dev.jsonl.gz"))
    train = list(public_text.json_lines(data / "glue" / f"{name}_train.jsonl.gz"))[:DISTRACTORS]
    place = {text: i for i, text in enumerate(dict.fromkeys(str(row["text_b"]) for row in dev + train))}
    positives = [(str(row["text_a"]), str(row["text_b"])) for row in dev if row["label"] == positive]
    pairs = [pair for pair in positives if not any(" ".join(sentences(text)) in seen for text in pair)]
    relevant = np.zeros((len(pairs), len(place)), dtype=np.bool_)
    for i, (_, answer) in enumerate(pairs):
        relevant[i, place[answer]] = True
    return Task(
        title,
        embed([Document([query]) for query, _ in pairs], f"{name}-queries"),
        embed([Document([text]) for text in place], f"{name}-collection"),
        relevant,
    )


def message_tasks(data: Path, count: int, embed: Embed) -> Iterator[Task]:
    """Messages of at least 16 sentences among the first `count` of the test split of 20 Newsgroups."""
    documents = public_text.newsgroups(data, "test", count, 2, 40, groups=True)
    vectors = embed(documents, "20news-test")
    kept = [i for i, rows in enumerate(vectors) if len(rows) >= 2 * HALF]
    groups = np.array([documents[i].label for i in kept])
    asked = min(QUERIES, len(kept) // 3)
    queries = [vectors[i][:HALF] for i in kept[:asked]]
    rest = [vectors[i][HALF : 2 * HALF] for i in kept]
    yield Task("halves", queries, rest, np.eye(asked, len(kept), dtype=np.bool_))
    yield Task("topic", queries, rest[asked:], groups[:asked, None] == groups[None, asked:])


@dataclass(frozen=True)
class Method:
    """`public` gives clean vectors of the space in which `release` answers."""

    name: str
    release: Callable[[Documents, float], FloatArray]
    public: Callable[[Documents], FloatArray] = means


def releasing(mechanism: SentenceMechanism) -> Callable[[Documents, float], FloatArray]:
    return lambda documents, epsilon: released(mechanism, documents, epsilon)[0]


def methods(pack: DomainPack, vectors: VectorPack) -> Iterator[Method]:
    """The sentence mechanisms, and the trained codebook of single vectors."""
    for name in SENTENCE_MECHANISMS:
        own = sentence_mechanism(name, pack)
        space = means if own.space == "encoder" else recoded(pack)
        yield Method(name, releasing(own), space)

    def codebook(documents: Documents, epsilon: float) -> FloatArray:
        spec = vector_spec(mechanism="codebook", dimension=documents[0].shape[1], epsilon=epsilon, projection="pca")
        return vector_mechanism(spec, None, vectors).release(np.concatenate(documents))

    yield Method(VECTOR, codebook)


@dataclass
class Scores:
    """Scores releases on a task, and keeps the largest standard error."""

    task: Task
    source: np.random.Generator
    error: float = 0.0

    def cell(self, asked: FloatArray, found: FloatArray) -> str:
        """nDCG@10 of query vectors and vectors of the collection, in one space."""
        hits = hits_of(asked, found, self.task.relevant, self.source)
        each = ndcg(hits, self.task.relevant.sum(axis=1))
        self.error = max(self.error, float(each.std() / np.sqrt(len(each))))
        return f"{each.mean():.3f}"


def show(task: Task, rows: list[Method], source: np.random.Generator) -> None:
    print(f"\n{len(task.queries)} queries, {len(task.collection)} documents\n")
    head(f"{task.title}: nDCG@10", "private", *(f"eps {epsilon}" for epsilon in EPSILONS))
    scores = Scores(task, source)
    for each in rows:
        if each.name != VECTOR or task.is_single:
            found = each.public(task.collection)
            row(each.name, "queries", *(scores.cell(each.release(task.queries, eps), found) for eps in EPSILONS))
    asked = rows[0].public(task.queries)
    cells = (scores.cell(asked, rows[0].release(task.collection, eps)) for eps in EPSILONS)
    row(rows[0].name, "documents", *cells)
    clean = scores.cell(means(task.queries), means(task.collection))
    row("non-private", "nothing", *[clean] * len(EPSILONS))
    row("random order", "everything", *[task.chance()] * len(EPSILONS))
    print(f"\nLargest standard error: {scores.error:.3f}", flush=True)


def main() -> None:
    pack, vectors = (pack_paths(None)["general"], "the domain pack"), (VECTOR_PACK, "the vector pack")
    chosen = arguments(__doc__, needs_data=True, cache=CACHE, pack=pack, vector_pack=vectors, documents=8_000)
    encoder = IntegerEncoder()
    own = DomainPack.load(chosen.pack, encoder_fingerprint=encoder.packs_of)
    rows = list(methods(own, VectorPack.load(chosen.vector_pack, encoder_fingerprint=encoder.packs_of)))

    def embed(documents: list[Document], name: str) -> list[FloatArray]:
        return public_text.embed(documents, encoder, chosen.cache, name).documents()

    source = np.random.default_rng(0)
    show(question_task("duplicates", "qqp", "1", chosen.data, embed), rows, source)
    show(question_task("answers", "qnli", "entailment", chosen.data, embed), rows, source)
    for task in message_tasks(chosen.data, chosen.documents, embed):
        show(task, rows, source)


if __name__ == "__main__":
    main()
