"""The four experiments of Feyisetan and Kasiviswanathan 2021 on the bundled encoder's vectors.

    python -m benchmarks.privemb --data DATA [--cache CACHE] [--trials 3] [--figures docs/reference/vectors]

Every mechanism at the same worst-case epsilon of a vector: metric mechanisms at eps per unit of distance cost up to
2 eps over the unit ball; privunit and codebook are asked for that total. The paper's form is compared by its own claim,
with noise of rate eps / (1 + beta); the account is charged more (docs/reference/benchmarks/vectors.md).
Training and test vectors are private, labels public. The vector pack was made without any of the five data sets.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.kit import CACHE, Cell, Row, Table, arguments, draw
from core.mechanisms.vectors.projection import VectorPack, spec_projection
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.release import Vectors
from core.mechanisms.vectors.spec import METRIC_MECHANISMS, vector_spec
from gpu_workers.models.encoder import Encoder
from gpu_workers.packs import VECTOR_PACK
from training import public_text
from training.public_text import Document, json_lines

_FILES = {
    "MR": (("mr_all",), ()),
    "CR": (("cr_all",), ()),
    "MPQA": (("mpqa_all",), ()),
    "SST-5": (("sst5_train", "sst5_dev"), ("sst5_test",)),
    "TREC-6": (("trec6_train",), ("trec6_test",)),
}
_TEST_SHARE = 0.1


@dataclass(frozen=True)
class Task:
    """One task: unit `vectors` float32 `[n, d]`, `labels` `[n]`; its last `test_rows` rows are the test set, if any."""

    name: str
    vectors: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    test_rows: int

    def split(self, trial: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows to train and to test on: the data set's own, or a tenth drawn for this trial."""
        order = np.random.default_rng(trial).permutation(len(self.labels) - self.test_rows)
        if self.test_rows:
            return order, np.arange(len(order), len(self.labels))
        cut = int(_TEST_SHARE * len(order))
        return order[cut:], order[:cut]


def tasks(data: Path, encoder: Encoder, cache: Path) -> list[Task]:
    """The tasks, encoded into `cache` the first time."""
    found = []
    for name, (train, test) in _FILES.items():
        rows, tested = (
            [row for file in files for row in json_lines(data / "senteval" / f"{file}.jsonl.gz")]
            for files in (train, test)
        )
        documents = [Document([str(row["text"])]) for row in rows + tested]
        embedded = public_text.embed(documents, encoder, cache, f"privemb-{name}")
        labels = np.array([int(row["label"]) for row in rows + tested])
        found.append(Task(name, embedded.vectors, labels, len(tested)))
    return found


WORST_CASES = (2, 4, 10, 20)  # epsilon over the unit ball: metric mechanisms at 1, 2, 5, 10 per unit of distance
M1 = "M1 (laplace)"
M2_STRICT = "M2 strict, Gaussian, m = 55"
BETAS = (0.5, 0.7, 0.9)
_TENANT = "benchmark"


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
        return vector_mechanism(spec, spec_projection(spec, tenant=_TENANT), pack).release(vectors)


def paper(beta: float) -> str:
    """The name of the paper's form at this beta."""
    return f"M2 (privemb), beta {beta}"


METHODS = (
    Method(M1, "laplace", {}),
    *(Method(paper(beta), "privemb", {"strict": False, "beta": beta}) for beta in BETAS),
    Method(M2_STRICT, "privemb", {"projection": "gaussian", "output_dimension": 55}),
    Method("M2 strict, orthonormal, m = 64", "privemb", {}),
    Method("M2 strict, pca", "privemb", {"projection": "pca"}),
    Method("privunit", "privunit", {}),
    Method("privunit, pca", "privunit", {"projection": "pca"}),
    Method("codebook, spherical, m = 64", "codebook", {}),
    Method("codebook, trained (pca)", "codebook", {"projection": "pca"}),
)


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


STYLES = {
    M1: "#5d6d7e o-",
    paper(0.9): "#c0392b o-",
    M2_STRICT: "#d08c1d o-",
    "M2 strict, pca": "#8e6bbf o-",
    "privunit": "#2e8b57 o-",
    "privunit, pca": "#1f5fa8 o-",
    "codebook, trained (pca)": "#e0559a o-",
    "non-private": "black --",
}
MEAN = "mean of the five tasks"
NON_PRIVATE = "non-private"


Release = Callable[[Vectors], Vectors]
Experiment = Callable[[Release, int], Sequence[float]]


def compared(titles: Sequence[str], experiment: Experiment, pack: VectorPack, trials: int) -> dict[str, Table]:
    """A table of each figure of an experiment, which has a release and the number of a trial."""
    tables = {title: Table(title, WORST_CASES, "guarantee", "worst case") for title in titles}

    def put(name: str, about: str, releases: Sequence[Release]) -> None:
        columns = [[experiment(release, trial) for trial in range(trials)] for release in releases]
        for i, table in enumerate(tables.values()):
            cells = [Cell.of([trial[i] for trial in column]) for column in columns]
            table.rows[name] = Row(about, cells * (len(WORST_CASES) // len(cells)))

    put(NON_PRIVATE, "none", [lambda vectors: vectors])
    for method in METHODS:
        put(
            method.name,
            method.guarantee,
            [partial(method.release, worst_case=worst, pack=pack) for worst in WORST_CASES],
        )
    return tables


def experiments(found: list[Task], pack: VectorPack, trials: int) -> Iterator[tuple[str, dict[str, Table]]]:
    """The name of the plot, and the tables, of experiments 1 and 2, 3, and 4."""

    def geometry(release: Release, trial: int) -> Sequence[float]:
        true = pairs(found, trial)
        private = release(true)
        return distance_error(private, true), product_error(private, true)

    def linear(release: Release, trial: int) -> Sequence[float]:
        task = balanced(next(task for task in found if task.name == "MPQA"), trial)
        return linear_model(task, release(task.vectors))

    def classified(release: Release, trial: int) -> Sequence[float]:
        scores = [accuracy(task, release(task.vectors), trial) for task in found]
        return [float(np.mean(scores)), *scores]

    yield "geometry", compared(("distance error", "inner product error"), geometry, pack, trials)
    yield "linear", compared(("accuracy", "AUC"), linear, pack, trials)
    yield "tasks", compared((MEAN, *(task.name for task in found)), classified, pack, trials)


def main() -> None:
    pack = (VECTOR_PACK, "the vector pack")
    chosen = arguments(
        __doc__, needs_data=True, cache=CACHE, pack=pack, trials=3, figures=(Path, "folder for the SVGs")
    )
    encoder = Encoder()
    vectors = VectorPack.load(chosen.pack, encoder_fingerprint=encoder.packs_of)
    for name, tables in experiments(tasks(chosen.data, encoder, chosen.cache), vectors, chosen.trials):
        for table in tables.values():
            table.show()
        if chosen.figures:
            path = chosen.figures / f"{name}.svg"
            draw(tables, path, STYLES, xlabel="worst-case epsilon", log=name == "geometry")


if __name__ == "__main__":
    main()
