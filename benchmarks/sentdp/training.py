"""Classifiers trained on private embeddings: macro-F1 of several recipes against the number of private documents.

    python -m benchmarks.sentdp.training --data DATA [--trials 3]

20 Newsgroups (7 topics) and IMDB, documents that no pack was built from, each cut to its first k sentences with log k
uniform between log 1 and log 25 (at most its own number). Every recipe is tested on releases of the same 1,500
documents. Its training set is n private documents, of which it reads one release each and the label, and in some rows
1,500 public documents with labels, which a user may send through the mechanism as often as they like. Mean and standard
deviation over trials, each with fresh noise and a fresh choice of the n documents.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.sentdp.__main__ import CACHE, PACK
from benchmarks.sentdp.baselines import FloatArray
from benchmarks.sentdp.table import Cell, Row, Table
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism
from gpu_workers.models.encoder import Encoder
from training import public_text
from training.public_text import Document

EPSILONS = (3, 10)
SIZES = (200, 1_000, 5_000)
TEST, PUBLIC = 1_500, 1_500
COPIES = 5  # releases of a public document
IN_PACK = 8_000  # the first documents of a training split, of which the general pack was built
LONGEST = 24
KS = (1, 2, 4, 9, 25)  # borders of groups of k

Labels = npt.NDArray[np.str_]


def mixed(documents: list[Document]) -> list[Document]:
    """Cut each document to its first sentences, log k uniform. The cut depends on the place in the list alone."""
    lengths = (LONGEST + 1) ** np.random.default_rng(0).random(len(documents))
    return [Document(each.sentences[: int(k)], each.label) for each, k in zip(documents, lengths, strict=True)]


@dataclass(frozen=True)
class Part:
    """Documents `[k, d]` with their labels."""

    documents: list[FloatArray]
    labels: Labels

    def take(self, chosen: Sequence[int] | npt.NDArray[np.int64]) -> Part:
        return Part([self.documents[int(i)] for i in chosen], self.labels[np.asarray(chosen)])

    def lengths(self) -> npt.NDArray[np.int64]:
        return np.array([len(document) for document in self.documents])

    def means(self) -> FloatArray:
        return np.stack([document.mean(axis=0) for document in self.documents])


@dataclass(frozen=True)
class Corpus:
    title: str
    test: Part
    private: Part
    public: Part


def newsgroups(data: Path) -> list[list[Document]]:
    """Test, private and public documents."""
    later = mixed(public_text.newsgroups(data, "test", TEST + SIZES[-1] + 1, 1))  # one has no group
    earlier = mixed(public_text.newsgroups(data, "train", IN_PACK + PUBLIC, 1))
    return [later[:TEST], later[TEST:], earlier[IN_PACK:]]


def imdb(data: Path) -> list[list[Document]]:
    """Test, private and public documents."""
    train = mixed(public_text.imdb(data, "train", IN_PACK + SIZES[-1] + PUBLIC, 1))
    return [mixed(public_text.imdb(data, "test", TEST, 1)), train[IN_PACK:-PUBLIC], train[-PUBLIC:]]


CORPORA = {"20 Newsgroups": ("20news", newsgroups), "IMDB": ("imdb", imdb)}


def regression(strength: float = 0.01, class_weight: str | None = None) -> Pipeline:
    """Logistic regression on standardised coordinates; `strength` is scikit-learn's C."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500, class_weight=class_weight))


@dataclass(frozen=True)
class Trial:
    """What the recipes of one trial may read. `rows` are releases, `public_copies` `COPIES` releases of each
    public document, side by side. `documents` are clean, for the rows that take them for public."""

    documents: Part
    rows: FloatArray
    public: Part
    public_copies: FloatArray
    test_rows: FloatArray
    test_lengths: npt.NDArray[np.int64]

    def first(self, size: int) -> Trial:
        """The trial with the first `size` documents."""
        return replace(
            self,
            documents=self.documents.take(range(size)),
            rows=self.rows[:size],
        )

    def predicted(self, model: Pipeline, rows: FloatArray, labels: Labels, **fit: FloatArray) -> Labels:
        predicted: Labels = model.fit(rows, labels, **fit).predict(self.test_rows)
        return predicted

    def weighted(self, weights: npt.NDArray[np.float64]) -> Labels:
        scaled = weights / weights.mean()
        return self.predicted(regression(), self.rows, self.documents.labels, logisticregression__sample_weight=scaled)

    def calibrated(self) -> Labels:
        """Regression calibration: every release is replaced by a linear prediction of the clean mean, fitted for each
        group of k on public documents without labels."""
        means, lengths = np.repeat(self.public.means(), COPIES, axis=0), np.repeat(self.public.lengths(), COPIES)
        mine, tests = self.rows.copy(), self.test_rows.copy()
        for low, high in pairwise(KS):
            inside = (lengths >= low) & (lengths < high)
            model = Ridge(0.1).fit(self.public_copies[inside], means[inside])
            for rows, own in ((mine, self.documents.lengths()), (tests, self.test_lengths)):
                chosen = (own >= low) & (own < high)
                if chosen.any():
                    rows[chosen] = model.predict(rows[chosen])
        predicted: Labels = regression().fit(mine, self.documents.labels).predict(tests)
        return predicted

    def whitened(self) -> Labels:
        """Coordinates of the principal axes of public releases, scaled to variance 1, axes of 99 % of the variance."""
        centre = self.public_copies.mean(axis=0)
        _, spread, axes = np.linalg.svd(self.public_copies - centre, full_matrices=False)
        kept = int(np.searchsorted(np.cumsum(spread**2) / (spread**2).sum(), 0.99)) + 1
        to = (axes[:kept] / spread[:kept, None]).T * np.sqrt(len(self.public_copies))
        model = LogisticRegression(C=0.03, max_iter=500)
        predicted: Labels = model.fit((self.rows - centre) @ to, self.documents.labels).predict(
            (self.test_rows - centre) @ to
        )
        return predicted

    def discriminant(self, public: bool = False) -> Labels:
        """Linear discriminant analysis with a shrunk covariance, on releases; if `public`, one of each public document
        too."""
        rows, labels = self.rows, self.documents.labels
        if public:
            rows = np.concatenate([rows, self.public_copies[::COPIES]])
            labels = np.concatenate([labels, self.public.labels])
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        return self.predicted(make_pipeline(StandardScaler(), model), rows, labels)

    def with_public(self, rows: FloatArray, copies: int) -> Labels:
        """Private releases, and public rows of which each document's weigh as much as one private release."""
        labels = np.concatenate([self.documents.labels, np.repeat(self.public.labels, copies)])
        weights = np.concatenate([np.ones(len(self.rows)), np.full(len(rows), 1 / copies)])
        return self.predicted(
            regression(), np.concatenate([self.rows, rows]), labels, logisticregression__sample_weight=weights
        )


def recipes() -> dict[str, tuple[str, Callable[[Trial], Labels]]]:
    """Each recipe's name, what it reads, and how it predicts the labels of the test releases."""
    private, public, both = "releases", "as if the n were public", "releases, 1,500 public"

    def plain(strength: float) -> Callable[[Trial], Labels]:
        return lambda trial: trial.predicted(regression(strength), trial.rows, trial.documents.labels)

    def balanced(trial: Trial) -> Labels:
        return trial.predicted(regression(class_weight="balanced"), trial.rows, trial.documents.labels)

    return {
        "logistic regression, C 0.01": (private, plain(0.01)),
        "C 0.001": (private, plain(0.001)),
        "C 0.1": (private, plain(0.1)),
        "classes of equal weight": (private, balanced),
        "weights sqrt(k)": (private, lambda trial: trial.weighted(np.sqrt(trial.documents.lengths()))),
        "weights k": (private, lambda trial: trial.weighted(trial.documents.lengths().astype(np.float64))),
        "whitened by public releases": (private, Trial.whitened),
        "calibrated by k": (private, Trial.calibrated),
        "linear discriminant, shrunk covariance": (private, Trial.discriminant),
        "clean means": (
            public,
            lambda trial: trial.predicted(regression(), trial.documents.means(), trial.documents.labels),
        ),
        "with clean public means": (both, lambda trial: trial.with_public(trial.public.means(), 1)),
        f"with {COPIES} releases of each public document": (
            both,
            lambda trial: trial.with_public(trial.public_copies, COPIES),
        ),
        "linear discriminant, with one release of each": (both, lambda trial: trial.discriminant(public=True)),
    }


class Comparison:
    """The recipes on one corpus."""

    def __init__(self, corpus: Corpus, pack: DomainPack) -> None:
        self._corpus = corpus
        self._mechanism = sentence_mechanism("sentence_codes", pack)

    def release(self, documents: list[FloatArray], epsilon: int) -> FloatArray:
        return self._mechanism.release(
            [torch.from_numpy(rows) for rows in documents], [epsilon * NANO] * len(documents)
        )

    def table(self, epsilon: int, trials: int) -> Table:
        title = f"{self._corpus.title}, eps {epsilon}"
        table = Table(title, SIZES, [f"n {size}" for size in SIZES], about="training data")
        rows = recipes()
        scores: dict[str, list[list[float]]] = {name: [[] for _ in SIZES] for name in (*rows, "non-private")}
        for seed in range(trials):
            largest = self._trial(epsilon, seed)
            for place, size in enumerate(SIZES):
                trial = largest.first(size)
                for name, (_, recipe) in rows.items():
                    scores[name][place].append(self._score(recipe(trial)))
                clean = regression().fit(trial.documents.means(), trial.documents.labels)
                scores["non-private"][place].append(self._score(clean.predict(self._corpus.test.means())))
        for name, results in scores.items():
            about = rows[name][0] if name in rows else "clean, tested on clean"
            table.rows[name] = Row(about, [Cell.of(each) for each in results])
        return table

    def _trial(self, epsilon: int, seed: int) -> Trial:
        corpus = self._corpus
        documents = corpus.private.take(
            np.random.default_rng(seed).permutation(len(corpus.private.labels))[: SIZES[-1]]
        )
        return Trial(
            documents=documents,
            rows=self.release(documents.documents, epsilon),
            public=corpus.public,
            public_copies=self.release([each for each in corpus.public.documents for _ in range(COPIES)], epsilon),
            test_rows=self.release(corpus.test.documents, epsilon),
            test_lengths=corpus.test.lengths(),
        )

    def _score(self, predicted: Labels) -> float:
        return float(f1_score(self._corpus.test.labels, predicted, average="macro"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pack", type=Path, default=PACK, help="the domain pack")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--epsilons", nargs="+", type=int, default=EPSILONS)
    parser.add_argument("--trials", type=int, default=3)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    encoder = Encoder()
    pack = DomainPack.load(chosen.pack, encoder_fingerprint=encoder.packs_of)
    for title in chosen.corpora:
        name, read = CORPORA[title]
        parts = []
        for documents in read(chosen.data):
            embedded = public_text.embed(documents, encoder, chosen.cache, f"{name}-mixed")
            part = Part(embedded.documents(), np.array(embedded.labels))
            parts.append(part.take([i for i, label in enumerate(embedded.labels) if embedded.labels.count(label) > 1]))
        comparison = Comparison(Corpus(title, *parts), pack)
        for epsilon in chosen.epsilons:
            print(f"\n{comparison.table(epsilon, chosen.trials).markdown()}", flush=True)


if __name__ == "__main__":
    main()
