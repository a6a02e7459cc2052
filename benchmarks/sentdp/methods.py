"""The rows of the comparison: a name, what it guarantees, the classifier's training features and a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.sentdp import baselines
from benchmarks.sentdp.baselines import Box, FloatArray
from core.amounts import NANO
from core.mechanisms.domain_pack import DomainPack
from core.mechanisms.recoder import Recoder
from core.mechanisms.sentence import sentence_mechanism
from gpu_workers.training import recoder
from gpu_workers.training.public_text import Embedded

Documents = Sequence[FloatArray]


@dataclass(frozen=True)
class Method:
    """`space` names the clean training features; `release` maps documents and epsilon to vectors of that space."""

    name: str
    protects: str
    space: str
    release: Callable[[Documents, float], FloatArray]
    private: bool = True  # False: the answer is the same at every epsilon
    random: bool = True  # False: one trial says all


class Classifiers:
    """Logistic regressions on clean features of the training split, one a space."""

    def __init__(self, pack: DomainPack, train: Embedded) -> None:
        self.box = Box.around(train.means())
        clipped = Embedded(self.box.clip(train.vectors), train.lengths, train.labels)
        features = {
            "encoder": train.means(),
            "recoded": recoder.recoded_means(pack.recoder, train),
            "truncated": clipped.means(),
        }
        self._models = {space: self._fit(rows, train.labels) for space, rows in features.items()}

    @staticmethod
    def _fit(rows: FloatArray, labels: list[str]):
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01)).fit(rows, labels)

    def score(self, space: str, vectors: FloatArray, labels: Sequence[str]) -> float:
        """Macro-F1."""
        return float(f1_score(labels, self._models[space].predict(vectors), average="macro"))


def shipped(name: str, pack: DomainPack) -> Method:
    """A mechanism of the gateway, through its own class."""
    mechanism = sentence_mechanism(name, pack)

    def release(documents: Documents, epsilon: float) -> FloatArray:
        rows = [torch.from_numpy(document) for document in documents]
        return mechanism.release(rows, [round(epsilon * NANO)] * len(rows)).vectors

    return Method(name, "one sentence", mechanism.space, release)


def methods(pack: DomainPack, box: Box, seed: int = 0) -> list[Method]:
    """Every row that needs embeddings alone."""
    source = np.random.default_rng(seed)
    recode = Recoder(pack.recoder, torch.device("cpu"))

    def recoded_means(documents: Documents, _: float) -> FloatArray:
        return np.stack([recode(torch.from_numpy(document)).numpy().mean(axis=0) for document in documents])

    def guess(outputs: FloatArray) -> Callable[[Documents, float], FloatArray]:
        return lambda documents, _: outputs[source.integers(0, len(outputs), len(documents))]

    return [
        shipped("clipped_cosine", pack),
        shipped("deep_candidate", pack),
        Method(
            "truncation",
            "one sentence",
            "truncated",
            lambda documents, epsilon: baselines.truncation(documents, epsilon, box, source),
        ),
        Method(
            "mean_laplace",
            "one sentence",
            "encoder",
            lambda documents, epsilon: baselines.mean_laplace(documents, epsilon, source),
        ),
        Method(
            "document selection",
            "whole document (stronger)",
            "encoder",
            lambda documents, epsilon: baselines.document_selection(
                documents, epsilon, pack.candidates, pack.centre, source
            ),
        ),
        Method(
            "non-private, encoder space",
            "nothing",
            "encoder",
            lambda documents, _: np.stack([document.mean(axis=0) for document in documents]),
            private=False,
            random=False,
        ),
        Method("non-private, recoded space", "nothing", "recoded", recoded_means, private=False, random=False),
        Method("random candidate, encoder space", "everything", "encoder", guess(pack.candidates), private=False),
        Method("random candidate, recoded space", "everything", "recoded", guess(pack.recoded), private=False),
    ]
