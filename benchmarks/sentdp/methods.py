"""The rows of the comparison: a name, what it guarantees, the classifier's training features and a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.sentdp import baselines
from benchmarks.sentdp.baselines import Box, FloatArray
from core.amounts import NANO
from core.mechanisms.sentences.deep_candidate import DeepCandidate, Recoder
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, Protection, protection, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from gpu_workers.domains import build_pack
from gpu_workers.domains.spec import Embedded

Documents = Sequence[FloatArray]
OWN, GENERAL, LABELLED = "own pack", "general pack", "own pack with labels"
NON_PRIVATE = "non-private"


@dataclass(frozen=True)
class Method:
    """`space` names the clean training features; `release` maps documents and epsilon to vectors of that space."""

    name: str
    protects: str
    space: str
    release: Callable[[Documents, float], FloatArray]
    private: bool = True  # False: the answer is the same at every epsilon
    random: bool = True  # False: one trial says all


def classifier(rows: FloatArray, labels: list[str]) -> Pipeline:
    """A logistic regression fitted to the rows, one a document."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01)).fit(rows, labels)


def macro_f1(model: Pipeline, vectors: FloatArray, labels: Sequence[str]) -> float:
    return float(f1_score(labels, model.predict(vectors), average="macro"))


class Classifiers:
    """Logistic regressions on clean features of the training split, one a space."""

    def __init__(self, packs: Mapping[str, DomainPack], train: Embedded) -> None:
        self.box = Box.around(train.means())
        clipped = Embedded(self.box.clip(train.vectors), train.lengths, train.labels)
        features = {"encoder": train.means(), "truncated": clipped.means()}
        for title, pack in packs.items():
            features[f"recoded, {title}"] = build_pack.recoded_means(pack.recoder, train)
        self._models = {space: classifier(rows, train.labels) for space, rows in features.items()}

    def score(self, space: str, vectors: FloatArray, labels: Sequence[str]) -> float:
        return macro_f1(self._models[space], vectors, labels)


class PrintedDepth(DeepCandidate):
    """`deep_candidate` with the maximum that the paper's appendix prints: the best direction counts, not the worst.

    Same sensitivity, same guarantee: a minimum moves by no more than its arguments do.
    """

    @staticmethod
    def _over_directions(unbalance: torch.Tensor) -> torch.Tensor:
        return unbalance.amin(dim=0)


def shipped(name: str, title: str, pack: DomainPack) -> Method:
    """A mechanism of the gateway over the pack called `title`, through its own class."""
    return _of_mechanism(sentence_mechanism(name, pack), name, title, protection(name))


def _of_mechanism(mechanism: SentenceMechanism, name: str, title: str, protected: Protection) -> Method:
    def release(documents: Documents, epsilon: float) -> FloatArray:
        rows = [torch.from_numpy(document) for document in documents]
        return mechanism.release(rows, [round(epsilon * NANO)] * len(rows))

    space = mechanism.space if mechanism.space == "encoder" else f"{mechanism.space}, {title}"
    protects = "one sentence" if protected.unit == "sentence" else "whole document (stronger)"
    return Method(f"{name}, {title}", protects, space, release)


def of_pack(title: str, pack: DomainPack, source: np.random.Generator) -> list[Method]:
    """The rows that depend on a pack."""
    recode = Recoder(pack.recoder, torch.device("cpu"))

    def recoded_means(documents: Documents, _: float) -> FloatArray:
        return np.stack([recode(torch.from_numpy(document)).numpy().mean(axis=0) for document in documents])

    def guessed(documents: Documents, _: float) -> FloatArray:
        guesses: FloatArray = pack.candidates[source.integers(0, len(pack.candidates), len(documents))]
        return guesses

    space = f"recoded, {title}"
    return [
        *(shipped(name, title, pack) for name in SENTENCE_MECHANISMS),
        _of_mechanism(PrintedDepth(pack), "deep_candidate as printed", title, protection("deep_candidate")),
        Method(f"non-private, recoded, {title}", "nothing", space, recoded_means, private=False, random=False),
        Method(f"random candidate, {title}", "everything", "encoder", guessed, private=False),
    ]


def methods(packs: Mapping[str, DomainPack], labelled: DomainPack, box: Box, seed: int = 0) -> list[Method]:
    """Every row that needs embeddings alone. `labelled` is an own pack with labels, for `sentence_codes` alone."""
    source = np.random.default_rng(seed)

    def truncated(documents: Documents, epsilon: float) -> FloatArray:
        return baselines.truncation(documents, epsilon, box, source)

    def noisy(documents: Documents, epsilon: float) -> FloatArray:
        return baselines.mean_laplace(documents, epsilon, source)

    def means(documents: Documents, _: float) -> FloatArray:
        return np.stack([document.mean(axis=0) for document in documents])

    return [
        shipped("sentence_codes", LABELLED, labelled),
        *(method for title, pack in packs.items() for method in of_pack(title, pack, source)),
        Method("truncation", "one sentence", "truncated", truncated),
        Method("mean_laplace", "one sentence", "encoder", noisy),
        Method(NON_PRIVATE, "nothing", "encoder", means, private=False, random=False),
    ]
