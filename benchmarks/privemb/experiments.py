"""The paper's four experiments (Feyisetan and Kasiviswanathan 2021, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.privemb.corpus import Task
from core.mechanisms.vectors.release import Vectors

_POINTS = 100
_WORDS = 1_899  # of each class, as in the paper
_RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0)
_VALIDATION_SHARE = 0.15


def pairs(tasks: Sequence[Task], trial: int) -> Vectors:
    """100 vectors of the tasks and 100 others, one after the other: the pairs of experiments 1 and 2."""
    vectors = np.concatenate([task.vectors for task in tasks])
    return vectors[np.random.default_rng(trial).permutation(len(vectors))[: 2 * _POINTS]]


def distance_error(private: Vectors, true: Vectors) -> float:
    """Experiment 1: the mean of | |v_i - v_j| - |x_i - x_j| | over the 100 x 100 pairs."""
    return float(np.abs(_distances(private) - _distances(true)).mean())


def product_error(private: Vectors, true: Vectors) -> float:
    """Experiment 2: the mean of | <v_i, v_j> - <x_i, x_j> | over the same pairs."""
    return float(np.abs(_products(private) - _products(true)).mean())


def balanced(task: Task, trial: int) -> Task:
    """Experiment 3's data: 1,899 short phrases of each class of MPQA, for the paper's word list is not to be had."""
    draw = np.random.default_rng(trial)
    rows = np.concatenate([draw.permutation(np.flatnonzero(task.labels == label))[:_WORDS] for label in (0, 1)])
    rows = draw.permutation(rows)
    return Task(task.name, task.vectors[rows], task.labels[rows], len(rows) // 5)


def linear_model(task: Task, private: Vectors) -> tuple[float, float]:
    """Experiment 3: (accuracy, AUC) of a linear SVM, trained and tested on private vectors."""
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    cut = len(private) - task.test_rows
    model = make_pipeline(StandardScaler(), LinearSVC(C=0.01, dual=False))
    model.fit(private[:cut], task.labels[:cut])
    scores = model.decision_function(private[cut:])
    truth = task.labels[cut:]
    return float(((scores > 0) == (truth == 1)).mean()), float(roc_auc_score(truth, scores))


def accuracy(task: Task, private: Vectors, trial: int) -> float:
    """Experiment 4: test accuracy of a linear classifier (least squares on one-hot labels, ridge chosen on a share of
    the training rows), trained and tested on private vectors."""
    train, test = task.split(trial)
    cut = int(_VALIDATION_SHARE * len(train))
    values = private.astype(np.float64)
    targets = np.eye(int(task.labels.max()) + 1)[task.labels]
    on_held = [
        (_right(scores, task.labels[train[:cut]]), ridge)
        for ridge, scores in _fit(values[train[cut:]], targets[train[cut:]], values[train[:cut]], _RIDGES)
    ]
    ((_, scores),) = _fit(values[train], targets[train], values[test], (max(on_held)[1],))
    return _right(scores, task.labels[test])


def _fit(
    inputs: npt.NDArray[np.float64],
    targets: npt.NDArray[np.float64],
    queries: npt.NDArray[np.float64],
    ridges: Sequence[float],
) -> list[tuple[float, npt.NDArray[np.float64]]]:
    """The scores of `queries` by each ridge, in units of the mean variance of the inputs."""
    middle, goal = inputs.mean(axis=0), targets.mean(axis=0)
    moved = inputs - middle
    spread, turn = np.linalg.eigh(moved.T @ moved)
    cross = turn.T @ (moved.T @ (targets - goal))
    turned = (queries - middle) @ turn
    unit = max(float(spread.mean()), 1e-12)
    return [(ridge, turned @ (cross / (spread + ridge * unit)[:, None]) + goal) for ridge in ridges]


def _right(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> float:
    return float((scores.argmax(axis=1) == labels).mean())


def _products(vectors: Vectors) -> npt.NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return np.asarray(wide[:_POINTS] @ wide[_POINTS:].T)


def _distances(vectors: Vectors) -> npt.NDArray[np.float64]:
    squares = np.square(vectors.astype(np.float64)).sum(axis=1)
    squared = squares[:_POINTS, None] + squares[None, _POINTS:] - 2 * _products(vectors)
    return np.asarray(np.sqrt(np.maximum(squared, 0)))
