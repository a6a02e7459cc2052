"""Classifiers trained on synthetic rows of UCI Adult and tested on real ones.

    python -m benchmarks.synthesis --data DATA [--runs 5] [--epsilon 1] [--delta 1e-5] [--only ROW ...]

As in the PEARL paper (Liew, Takahashi and Ueno 2021, tables 2 and 3), the majority class is thinned out before anything
else: four of ten rows stay, in training and test. The ten classifiers are the paper's kinds, all of scikit-learn, with
its defaults where no argument is shown. "Hard": ROC and PRC (average precision) of predicted labels, as the paper's
figures are; "score": of scores. A figure is the mean over the classifiers, its deviation that of the runs' means.

`--dev` never looks at the test rows: it trains on 70 % of the training rows and tests on the rest.
"""

import argparse
import csv
import gzip
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from benchmarks.kit import arguments, head, row
from core.synthesis.aim_release import aim_release
from core.synthesis.columns import STEPS, Outside
from core.synthesis.encoding import EncodedTable, encode_rows, unit_vectors
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pearl_release import Design, pearl_release
from core.synthesis.pricing import RecordBudget, record_budget
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

FREQUENCIES, BINS = 5_000, 16
FREQUENCIES_PAPER = 1_000
KEPT = 0.4  # of the majority class
NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces ?",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?",
}
COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
LABEL = {"name": "income", "kind": "categorical", "categories": ["<=50K", ">50K"]}
Method = Callable[[EncodedTable], EncodedTable]


def adult_schema() -> TableSchema:
    """UCI Adult as a declared table, with its published bounds and categories."""
    columns: list[dict[str, Any]] = []
    for name in COLUMNS:
        if name in NUMBERS:
            low, high = NUMBERS[name]
            columns.append({"name": name, "kind": "numeric", "minimum": low, "maximum": high, "integer": True})
        else:
            columns.append({"name": name, "kind": "categorical", "categories": CATEGORIES[name].split()})
    return table_schema({"columns": columns, "label": LABEL})


def adult(data: Path, parts: Iterable[str], schema: TableSchema, *, kept: float = KEPT) -> EncodedTable:
    """The rows of `data`, `test` or both; of the majority class the share `kept`, chosen by a fixed stream."""
    draw = np.random.default_rng(0)
    rows = []
    for part in parts:
        with gzip.open(data / "adult" / f"adult.{part}.csv.gz", "rt", encoding="utf-8") as lines:
            for values in csv.reader(lines, skipinitialspace=True):
                if len(values) != len(COLUMNS) + 1:
                    continue
                row: dict[str, Any] = dict(zip(COLUMNS, values, strict=False))
                row |= {name: int(row[name]) for name in NUMBERS}
                row["income"] = values[-1].rstrip(".")
                if row["income"] == ">50K" or draw.random() < kept:
                    rows.append(row)
    return encode_rows(schema, rows, outside=Outside.CLIP)


def classifiers(seed: int) -> Iterable[ClassifierMixin]:
    """The paper's ten."""
    yield LogisticRegression(max_iter=500)
    yield GaussianNB()
    yield BernoulliNB()
    yield LinearSVC()
    yield DecisionTreeClassifier(random_state=seed)
    yield LinearDiscriminantAnalysis()
    yield AdaBoostClassifier(random_state=seed)
    yield BaggingClassifier(random_state=seed)
    yield GradientBoostingClassifier(random_state=seed)
    yield MLPClassifier(early_stopping=True, random_state=seed)


def scores(train: EncodedTable, test: EncodedTable, seed: int) -> np.ndarray:
    """Hard ROC, hard PRC, score ROC, score PRC of each classifier, `[10, 4]`."""
    found = []
    x, x_test = (unit_vectors(table.schema, table.codes) / STEPS for table in (train, test))
    for model in classifiers(seed):
        model.fit(x, train.labels)
        probable = hasattr(model, "predict_proba")
        score = model.predict_proba(x_test)[:, 1] if probable else model.decision_function(x_test)
        answers = (model.predict(x_test), score)
        measures = (roc_auc_score, average_precision_score)
        found.append([measure(test.labels, answer) for answer in answers for measure in measures])
    return np.array(found)


def methods(budget: RecordBudget, options: argparse.Namespace) -> dict[str, Method]:
    """Each row of the table: rows of training in, as many to train on out."""

    def marginals(table: EncodedTable) -> EncodedTable:
        return marginals_release(table, bins=options.bins, budget=budget, rows_are_public=True).sample(len(table))

    def aim(table: EncodedTable) -> EncodedTable:
        return aim_release(table, budget=budget, rows_are_public=True).sample(len(table))

    def pearl(design: Design, frequencies: int) -> Method:
        def made(table: EncodedTable) -> EncodedTable:
            release = pearl_release(table, frequencies=frequencies, budget=budget, rows_are_public=True, design=design)
            return train_generator(release, plan=TrainingPlan(steps=options.steps)).sample(len(table))

        return made

    return {
        "real": lambda table: table,
        "marginals": marginals,
        "pearl-gaussian": pearl(Design.GAUSSIAN, FREQUENCIES_PAPER),
        "pearl": pearl(Design.LOW_ORDER, options.frequencies),
        "aim": aim,
    }


def compare(options: argparse.Namespace) -> None:
    """The table of utility."""
    schema = adult_schema()
    train, test = adult(options.data, ["data"], schema), adult(options.data, ["test"], schema)
    if options.dev:
        order = np.random.default_rng(7).permutation(len(train))
        cut = len(train) * 7 // 10
        parts = (order[:cut], order[cut:])
        train, test = (EncodedTable(schema, train.codes[part], train.labels[part]) for part in parts)
    print(f"{len(train)} rows, {len(test)} to test; epsilon {options.epsilon}, delta {options.delta}")
    head("rows", "hard ROC", "hard PRC", "score ROC", "score PRC", "seconds")
    every = []
    for name, method in methods(record_budget(options.epsilon, options.delta), options).items():
        if name not in options.only:
            continue
        found, seconds = [], []
        for run in range(options.runs):
            start = time.monotonic()
            made = method(train)
            seconds.append(time.monotonic() - start)
            found.append(scores(made, test, run))
        each = np.array(found)
        means, spread = each.mean(axis=(0, 1)), each.mean(axis=1).std(axis=0)
        cells = (f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(means, spread, strict=True))
        row(name, *cells, f"{np.median(seconds):.0f}")
        every.append((name, each[:, :, 0].mean(axis=0), each[:, :, 1].mean(axis=0)))
    print("\nhard ROC / PRC of each classifier, mean of the runs")
    for i, model in enumerate(classifiers(0)):
        row(type(model).__name__, *(f"{name} {roc[i]:.3f} / {prc[i]:.3f}" for name, roc, prc in every))


def parity(rows: int, draw: np.random.Generator) -> EncodedTable:
    """Six columns of two values; the label is the exclusive or of three. Any three of these four are independent."""
    columns = [{"name": f"c{i}", "kind": "categorical", "categories": ["0", "1"]} for i in range(6)]
    label = {"name": "odd", "kind": "categorical", "categories": ["no", "yes"]}
    codes = draw.integers(0, 2, (rows, 6)).astype(np.int16)
    return EncodedTable(table_schema({"columns": columns, "label": label}), codes, codes[:, :3].sum(axis=1) % 2)


def compare_parity(options: argparse.Namespace) -> None:
    """The accuracy on other real rows of a tree that was trained on synthetic rows."""
    draw = np.random.default_rng(0)
    train, test = parity(20_000, draw), parity(20_000, draw)
    print("\nexclusive or of three columns: accuracy of a decision tree")
    for name, method in methods(record_budget(options.epsilon, options.delta), options).items():
        if name in options.only:
            made = method(train)
            tree = DecisionTreeClassifier(random_state=0).fit(made.codes, made.labels)
            row(name, f"{tree.score(test.codes, test.labels):.3f}")


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        epsilon=1.0,
        delta=1e-5,
        runs=5,
        steps=TrainingPlan.steps,
        frequencies=FREQUENCIES,
        bins=BINS,
        only=(["real", "marginals", "pearl-gaussian", "pearl", "aim"], "rows"),
        dev=False,
    )
    warnings.simplefilter("ignore")
    compare(options)
    compare_parity(options)


if __name__ == "__main__":
    main()
