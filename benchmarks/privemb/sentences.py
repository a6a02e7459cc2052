"""Test accuracy on private vectors of sentences, by mechanism and worst-case epsilon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.kit import Cell, Row, Table, draw
from benchmarks.privemb.tasks import Task, tasks
from core.mechanisms.vectors.projection import VectorPack, spec_projection
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.release import Vectors
from core.mechanisms.vectors.spec import METRIC_MECHANISMS, vector_spec
from gpu_workers.models.encoder import Encoder
from training import public_text
from training.public_text import Document

WORST_CASES = (2, 4, 10, 20)  # epsilon over the unit ball: metric mechanisms at 1, 2, 5, 10 per unit of distance
_RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0)
_VALIDATION_SHARE = 0.15
_MEAN = "mean of the five tasks"
_STYLES = {
    "M1 (laplace)": "#5d6d7e o-",
    "M2 (privemb), beta 0.9": "#c0392b o-",
    "M2 strict, Gaussian, m = 55": "#d08c1d o-",
    "M2 strict, pca": "#8e6bbf o-",
    "privunit": "#2e8b57 o-",
    "privunit, pca": "#1f5fa8 o-",
    "codebook, trained (pca)": "#e0559a o-",
    "non-private": "black --",
}


@dataclass(frozen=True)
class Method:
    """One row: a mechanism and its parameters."""

    name: str
    mechanism: str
    options: dict[str, Any]

    @property
    def guarantee(self) -> str:
        """What the row's epsilon means."""
        if self.mechanism not in METRIC_MECHANISMS:
            return "pure DP"
        return "metric DP, if the data's width is small" if "beta" in self.options else "metric DP"

    def release(self, vectors: Vectors, *, worst_case: float, pack: VectorPack) -> Vectors:
        """Released vectors at this worst-case epsilon over vectors of length 1 (by the paper's own claim, where the
        paper's form promises less)."""
        epsilon = worst_case / 2 if self.mechanism in METRIC_MECHANISMS else worst_case
        spec = vector_spec(mechanism=self.mechanism, dimension=vectors.shape[1], epsilon=epsilon, **self.options)
        return vector_mechanism(spec, spec_projection(spec, tenant="benchmark"), pack).release(vectors)


METHODS = (
    Method("M1 (laplace)", "laplace", {}),
    Method("M2 (privemb), beta 0.9", "privemb", {"strict": False, "beta": 0.9}),
    Method("M2 strict, Gaussian, m = 55", "privemb", {"projection": "gaussian", "output_dimension": 55}),
    Method("M2 strict, orthonormal, m = 64", "privemb", {}),
    Method("M2 strict, pca", "privemb", {"projection": "pca"}),
    Method("privunit", "privunit", {}),
    Method("privunit, pca", "privunit", {"projection": "pca"}),
    Method("codebook, spherical, m = 64", "codebook", {}),
    Method("codebook, trained (pca)", "codebook", {"projection": "pca"}),
)


def measure(data: Path, cache: Path, pack: Path, trials: int, figures: Path | None) -> None:
    """Print a table of their mean and of each task, and draw them into `figures`."""
    encoder = Encoder()
    vectors = VectorPack.load(pack, encoder_fingerprint=encoder.packs_of)
    found = tasks(data)
    encoded = [
        public_text.embed([Document([text]) for text in task.texts], encoder, cache, f"privemb-{task.name}").vectors
        for task in found
    ]
    titles = (_MEAN, *(task.name for task in found))
    tables = {title: Table(title, WORST_CASES, "guarantee", "worst case") for title in titles}

    def cells(release: Callable[[Vectors], Vectors]) -> list[Cell]:
        """The accuracy, over the trials, of the mean and of each task."""
        scores = [
            [accuracy(task, release(rows), trial) for task, rows in zip(found, encoded, strict=True)]
            for trial in range(trials)
        ]
        return [Cell.of(column) for column in zip(*([float(np.mean(own)), *own] for own in scores), strict=True)]

    columns = {"non-private": ("none", [cells(lambda vectors: vectors)] * len(WORST_CASES))}
    for method in METHODS:
        by_epsilon = [cells(partial(method.release, worst_case=worst, pack=vectors)) for worst in WORST_CASES]
        columns[method.name] = (method.guarantee, by_epsilon)
    for i, table in enumerate(tables.values()):
        table.rows = {name: Row(about, [each[i] for each in results]) for name, (about, results) in columns.items()}
        table.show()
    if figures:
        draw(tables, figures / "tasks.svg", _STYLES, xlabel="worst-case epsilon")


def accuracy(task: Task, private: Vectors, trial: int) -> float:
    """Test accuracy of a linear classifier (least squares on one-hot labels, ridge chosen on a share of the training
    rows), trained and tested on private vectors."""
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
