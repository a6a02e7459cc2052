"""What released vectors are still good for: classification, retrieval and nearest neighbours.

Each measurement is repeated with fresh noise and another split. An interval is that of Student's t over the
repetitions, for 95 %, corrected for splits that share rows (Nadeau and Bengio 2003): it covers the noise and the split,
and not which texts the caller chose.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student
from sklearn.cluster import KMeans
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import f1_score

from gpu_workers.evaluation.corpus import Encoded, FloatArray, scaled
from gpu_workers.evaluation.spec import EmbeddingMethod

Labels = npt.NDArray[np.int64]

HELD_OUT = 0.3
_OVERLAP = HELD_OUT / (1 - HELD_OUT)
QUERIES_MAX = 1_000
NEAREST = 10
CLUSTER_TEXTS, CLUSTERS_MAX = 50, 20
_RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions, and its interval for 95 %."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], *, overlap: float = 0.0) -> "Estimate":
        """`overlap`: of splits that share rows, the held-out rows over the others."""
        mean, count = float(np.mean(values)), len(values)
        spread = math.sqrt((1 / count + overlap) * np.var(values, ddof=1)) if count > 1 else 0.0
        half = float(student.ppf(0.975, count - 1)) * spread if count > 1 else 0.0
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Utility:
    """One row of the report. `epsilon`: None without noise. `accuracy`, `macro_f1`: of a linear classifier that is
    trained and tested on released vectors. `recall`: of the ten nearest texts by clean vectors, the share among the ten
    nearest by released ones. `neighbour`: how often the nearest text has the same label."""

    epsilon: float | None
    accuracy: Estimate
    macro_f1: Estimate
    recall: Estimate
    neighbour: Estimate


@dataclass(frozen=True)
class MethodUtility:
    """One method. `smallest_accuracy`, `smallest_recall`: the smallest epsilon of the grid from which on the mean stays
    within the tolerance of that without noise, None if none does."""

    name: str
    rows: tuple[Utility, ...]
    smallest_accuracy: float | None
    smallest_recall: float | None


def label_numbers(labels: Sequence[str]) -> Labels:
    """Number the labels."""
    return np.unique(np.array(labels), return_inverse=True)[1].astype(np.int64)


def clusters(clean: FloatArray) -> Labels:
    """Number the texts by k-means clusters of their clean vectors, of about CLUSTER_TEXTS texts each, from 2 to
    CLUSTERS_MAX, in place of labels."""
    count = max(2, min(CLUSTERS_MAX, len(clean) // CLUSTER_TEXTS))
    found: Labels = KMeans(count, n_init=4, random_state=0).fit_predict(clean).astype(np.int64)
    return found


def measure(
    encoded: Encoded,
    methods: Sequence[EmbeddingMethod],
    labels: Labels,
    *,
    epsilons: Sequence[float],
    repetitions: int,
    tolerance: float,
    shown: Callable[[float], None],
) -> list[MethodUtility]:
    """Measure every method at every epsilon and without noise. `shown` is called with the share that is done. Raises
    JobFailed."""
    found = []
    total, done = len(methods) * (len(epsilons) + 1) * repetitions, 0
    for method in methods:
        source = encoded.source(method, lambda _: None)
        clean, rows = source.clean, []
        for place in range(-1, len(epsilons)):
            scores = []
            for repetition in range(repetitions):
                released = clean if place < 0 else encoded.released(method, place, source)
                scores.append(scored(released, clean, labels, seed=repetition))
                done += 1
                shown(done / total)
            estimates = [Estimate.of(column, overlap=_OVERLAP) for column in zip(*scores, strict=True)]
            rows.append(Utility(None if place < 0 else epsilons[place], *estimates))
        accuracy = _smallest(rows, [row.accuracy.mean for row in rows], tolerance)
        recall = _smallest(rows, [row.recall.mean for row in rows], tolerance)
        found.append(MethodUtility(method.name, tuple(rows), accuracy, recall))
    return found


def _smallest(rows: Sequence[Utility], means: Sequence[float], tolerance: float) -> float | None:
    """The first row is without noise."""
    smallest = None
    for row, mean in reversed(list(zip(rows[1:], means[1:], strict=True))):
        if mean < (1 - tolerance) * means[0]:
            break
        smallest = row.epsilon
    return smallest


def split(count: int, seed: int) -> tuple[Labels, Labels]:
    """Return the rows to train on and those that are held out."""
    order = np.random.default_rng(seed).permutation(count)
    held = int(HELD_OUT * count)
    return order[held:], order[:held]


def scored(released: FloatArray, clean: FloatArray, labels: Labels, *, seed: int) -> tuple[float, float, float, float]:
    """Return accuracy, macro-F1, recall and the share of nearest neighbours with the same label, of one split."""
    train, held = split(len(labels), seed)
    accuracy, macro = classified(released, labels, train, held)
    queries = held[:QUERIES_MAX]
    near, wanted = nearest(released, queries, NEAREST), nearest(clean, queries, NEAREST)
    recall = np.mean([len({*row} & {*other}) / NEAREST for row, other in zip(near, wanted, strict=True)])
    return accuracy, macro, float(recall), float(np.mean(labels[near[:, 0]] == labels[queries]))


def classified(vectors: FloatArray, labels: Labels, train: Labels, held: Labels) -> tuple[float, float]:
    """Return accuracy and macro-F1 of a linear classifier on the held-out rows. Its ridge is chosen on the others."""
    if len(np.unique(labels[train])) < 2:  # all are right, as all have one label
        guesses = np.full(len(held), labels[train][0])
    else:
        scale = np.sqrt(np.mean(np.square(vectors[train])) * vectors.shape[1]) or 1.0
        rows = vectors / scale
        guesses = RidgeClassifierCV(_RIDGES).fit(rows[train], labels[train]).predict(rows[held])
    return float(np.mean(guesses == labels[held])), float(f1_score(labels[held], guesses, average="macro"))


def accuracy(vectors: FloatArray, labels: Labels, splits: Sequence[tuple[Labels, Labels]]) -> Estimate:
    """Return the accuracy of a linear classifier over these splits."""
    return Estimate.of([classified(vectors, labels, *each)[0] for each in splits], overlap=_OVERLAP)


def nearest(vectors: FloatArray, queries: Labels, count: int) -> Labels:
    """Return the rows with the largest cosine to each query row, without itself, the nearest first, int64 `[q,
    count]`."""
    rows = scaled(vectors)
    cosines = rows[queries] @ rows.T
    cosines[np.arange(len(queries)), queries] = -np.inf
    some = np.argpartition(-cosines, count, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(cosines, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)
