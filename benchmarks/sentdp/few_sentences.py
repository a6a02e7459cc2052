"""Macro-F1 of releases of documents of 1 to 6 sentences, for all mechanisms that protect one sentence.

    python -m benchmarks.sentdp.few_sentences --data DATA [--trials 3]

The first k sentences of test documents of 20 Newsgroups (7 topics) and IMDB (sentiment), and for k = 1 also the
questions of TREC (6 types) and sentences of customer reviews (sentiment). No text of them was used for a pack. The
score is the mean over 5 folds of a logistic regression that is trained and tested on released vectors. The `general`
pack. At k = 1 the trained codebook of `/embed/vector` has the same guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.sentdp.baselines import FloatArray
from benchmarks.sentdp.retrieval import VECTOR, means, prepared
from benchmarks.sentdp.table import Cell, Row, Table
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS
from gpu_workers.domains.spec import Embedded
from training import public_text
from training.public_text import Document

EPSILONS = (1, 3, 6, 10)
LENGTHS = (1, 2, 3, 4, 6)
DOCUMENTS = 1_200
FOLDS = 5


@dataclass(frozen=True)
class Source:
    read: Callable[[Path], list[Document]]
    lengths: tuple[int, ...] = LENGTHS


SOURCES = {
    "20 Newsgroups": Source(partial(public_text.newsgroups, split="test", limit=2_500, least=1)),
    "IMDB": Source(partial(public_text.imdb, split="test", limit=2_000, least=1)),
    "TREC": Source(partial(public_text.labelled_sentences, path="senteval/trec6_test.jsonl.gz", limit=500), (1,)),
    "customer reviews": Source(
        partial(public_text.labelled_sentences, path="senteval/cr_all.jsonl.gz", limit=2_000), (1,)
    ),
}


def score(vectors: FloatArray, labels: list[str]) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, C=0.01))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return float(cross_val_score(model, vectors, labels, cv=folds, scoring="f1_macro").mean())


def first_sentences(corpus: Embedded, k: int, at_most: int = 0) -> tuple[list[FloatArray], list[str]]:
    """Return the first documents of at least k sentences, cut to k (or to `at_most`), and the documents' labels."""
    documents = corpus.documents()
    chosen = [i for i, document in enumerate(documents) if len(document) >= k][:DOCUMENTS]
    return [documents[i][: at_most or k] for i in chosen], [corpus.labels[i] for i in chosen]


def main() -> None:
    chosen, encoder, all_rows = prepared(__doc__, trials=3)
    one = {name for name, row in SENTENCE_MECHANISMS.items() if row.protects == "sentence"}
    rows = [row for row in all_rows if row.name in one | {VECTOR}]
    for title, source in SOURCES.items():
        corpus = public_text.embed(source.read(chosen.data), encoder, chosen.cache, f"few-{title.replace(' ', '-')}")
        for k in source.lengths:
            documents, labels = first_sentences(corpus, k)
            table = Table(f"{title}, k {k}", EPSILONS, [f"eps {epsilon}" for epsilon in EPSILONS], about="documents")
            for row in rows:
                if row.name == VECTOR and k > 1:
                    continue
                cells = [
                    Cell.of([score(row.release(documents, epsilon), labels) for _ in range(chosen.trials)])
                    for epsilon in EPSILONS
                ]
                table.rows[row.name] = Row(str(len(labels)), cells)
            clean = Cell.of([score(means(documents), labels)], random=False)
            table.rows["non-private"] = Row(str(len(labels)), [clean] * len(EPSILONS))
            print(f"\n{table.markdown()}", flush=True)


if __name__ == "__main__":
    main()
