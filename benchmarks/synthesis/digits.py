"""PEARL's Table 1 on small images: FID, KID and the accuracy of classifiers, beside DP-MERF.

    python -m benchmarks.synthesis.digits [--epsilons 0.2 1 10 75] [--runs 3]

The 8 x 8 digits of scikit-learn, 64 columns of 0 to 16 and a label of ten classes: 1,297 images to learn from, 500 to
test; delta 1e-5, for replacing one image; n is public. MNIST and Fashion-MNIST, the paper's (Liew, Takahashi and Ueno
2021), are not in the evaluation data, and a convolutional generator is out of scope. The noise of a mean falls with n:
1,297 images at epsilon 1 have 46 times as much as the paper's 60,000; at epsilon 75 they have as much.

`real`: the images themselves. `DP-MERF`: `merf`, whose kernel has the images' width and not the paper's 1. `min-only`
and `minimax`: PEARL's Gaussian frequencies without and with the adversary, from one release, 8 components a class and
at most 150 steps. `pearl`: the frequencies of one and two columns, the default of the gateway. FID and KID compare
hidden features of a network that was trained on the real images, and accuracy is the mean over six kinds of classifiers
that learn from the synthetic images. Each row is the mean over the runs and its standard deviation.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import sqrtm
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from benchmarks.kit import Cell, arguments, head, row
from benchmarks.synthesis.merf import merf
from core.synthesis.columns import STEPS, Outside
from core.synthesis.encoding import EncodedTable, encode_rows, unit_vectors
from core.synthesis.pearl_release import Design, PearlRelease, pearl_release
from core.synthesis.plan import FREQUENCIES_DEFAULT
from core.synthesis.pricing import RecordBudget, record_budget
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.generator import GeneratorShape
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

FloatArray = npt.NDArray[np.float64]
Images = tuple[FloatArray, npt.NDArray[np.int64]]
Made = dict[str, Images]

TRAINED, DELTA = 1_297, 1e-5
SIDE, LEVELS, CLASSES = 8, 16, 10
SHAPE = GeneratorShape(components=8, bins=LEVELS + 1)
STEPS_GAUSSIAN = 150
EPSILON_OF_THE_PAPERS_NOISE = 75.0  # as much noise for an image as epsilon 1 on 60,000 of them
KERNEL_WIDTH = 3.0  # public: about the mean distance of two images of strokes
HIDDEN = 128  # features of an image


def digits_schema() -> TableSchema:
    pixels = [
        {"name": f"p{i}", "kind": "numeric", "minimum": 0, "maximum": LEVELS, "integer": True} for i in range(SIDE**2)
    ]
    label = {"name": "digit", "kind": "categorical", "categories": [str(i) for i in range(CLASSES)]}
    return table_schema({"columns": pixels, "label": label})


def digits() -> tuple[EncodedTable, EncodedTable]:
    """The images to learn from and those to test, chosen by a fixed stream."""
    found, schema = load_digits(), digits_schema()
    order = np.random.default_rng(0).permutation(len(found.target))
    rows = [
        {f"p{i}": int(value) for i, value in enumerate(found.data[place])} | {"digit": str(found.target[place])}
        for place in order
    ]
    return encode_rows(schema, rows[:TRAINED], outside=Outside.REFUSE), encode_rows(
        schema, rows[TRAINED:], outside=Outside.REFUSE
    )


def images(table: EncodedTable) -> Images:
    """The pixels in [0, 1] and the labels."""
    return unit_vectors(table.schema, table.codes) / STEPS, table.labels.astype(np.int64)


def classifiers(seed: int) -> list[ClassifierMixin]:
    return [
        LogisticRegression(max_iter=500),
        GaussianNB(),
        LinearDiscriminantAnalysis(),
        KNeighborsClassifier(),
        RandomForestClassifier(random_state=seed),
        MLPClassifier(random_state=seed, max_iter=300),
    ]


def accuracy(made: Images, test: Images, seed: int) -> float:
    """The mean accuracy of the classifiers on real images."""
    return float(np.mean([model.fit(*made).score(*test) for model in classifiers(seed)]))


class Judge:
    """Hidden features of a network that was trained on the real images."""

    def __init__(self, real: Images, test: Images) -> None:
        network = MLPClassifier((HIDDEN,), random_state=0, max_iter=500).fit(*real)
        self._weights, self._bias = network.coefs_[0], network.intercepts_[0]
        self._real = self._features(test[0])

    def _features(self, pixels: FloatArray) -> FloatArray:
        hidden: FloatArray = np.maximum(pixels @ self._weights + self._bias, 0)
        return hidden

    def fid(self, pixels: FloatArray) -> float:
        """The Frechet distance of two Gaussian laws with the means and covariances of the features."""
        made, real = self._features(pixels), self._real
        first, second = np.cov(made.T), np.cov(real.T)
        root = sqrtm(first @ second)
        return float(((made.mean(0) - real.mean(0)) ** 2).sum() + np.trace(first + second - 2 * np.real(root)))

    def kid(self, pixels: FloatArray) -> float:
        """The unbiased squared distance of mean embeddings in the kernel (x.y / d + 1)^3."""
        made, real = self._features(pixels), self._real

        def kernel(one: FloatArray, other: FloatArray) -> FloatArray:
            value: FloatArray = (one @ other.T / one.shape[1] + 1) ** 3
            return value

        def within(features: FloatArray) -> float:
            full = kernel(features, features)
            return float((full.sum() - np.trace(full)) / (len(full) * (len(full) - 1)))

        return within(made) + within(real) - 2 * float(kernel(made, real).mean())


def pearl(table: EncodedTable, budget: RecordBudget) -> Made:
    frequencies = FREQUENCIES_DEFAULT[Design.LOW_ORDER]
    release = pearl_release(table, frequencies=frequencies, budget=budget, rows_are_public=True)
    return {"pearl": _drawn(release, TrainingPlan(), len(table))}


def gaussian(table: EncodedTable, budget: RecordBudget) -> Made:
    """Without and with the adversary, from one release: its noise is larger than their difference."""
    frequencies = FREQUENCIES_DEFAULT[Design.GAUSSIAN]
    release = pearl_release(table, frequencies=frequencies, budget=budget, rows_are_public=True, design=Design.GAUSSIAN)
    bounds = {"min-only": 0.0, "minimax": TrainingPlan.log_sigma_max}
    plans = {name: TrainingPlan(steps=STEPS_GAUSSIAN, log_sigma_max=bound) for name, bound in bounds.items()}
    return {name: _drawn(release, plan, len(table)) for name, plan in plans.items()}


def _drawn(release: PearlRelease, plan: TrainingPlan, count: int) -> Images:
    return images(train_generator(release, shape=SHAPE, plan=plan).sample(count))


def baseline(table: EncodedTable, budget: RecordBudget) -> Made:
    return {"DP-MERF": images(merf(table, budget, kernel_width=KERNEL_WIDTH))}


METHODS: tuple[Callable[[EncodedTable, RecordBudget], Made], ...] = (baseline, gaussian, pearl)


def compare(options: argparse.Namespace) -> None:
    table, held_out = digits()
    real, test = images(table), images(held_out)
    judge = Judge(real, test)
    head("epsilon", "images", "FID", "KID x 1000", "accuracy")

    def shown(epsilon: str, name: str, made: Sequence[Images]) -> None:
        figures = [
            [judge.fid(each[0]) for each in made],
            [1000 * judge.kid(each[0]) for each in made],
            [accuracy(each, test, seed) for seed, each in enumerate(made)],
        ]
        row(epsilon, name, *map(Cell.of, figures))

    shown("–", "real", [real])
    for epsilon in options.epsilons:
        for method in METHODS:
            runs = [method(table, record_budget(epsilon, DELTA)) for _ in range(options.runs)]
            for name in runs[0]:
                shown(f"{epsilon:g}", name, [run[name] for run in runs])


def main() -> None:
    options = arguments(__doc__, epsilons=[0.2, 1.0, 10.0, EPSILON_OF_THE_PAPERS_NOISE], runs=3)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    compare(options)


if __name__ == "__main__":
    main()
