"""Classifiers trained on synthetic rows of UCI Adult and tested on real ones.

    python -m benchmarks.synthesis --data DATA [--epsilon 1] [--delta 1e-5] [--steps 3000] [--frequencies 1000]

As in the PEARL paper (Liew, Takahashi and Ueno 2021, table 3), the majority class is thinned out before anything else:
four of ten rows stay, in training and test. ROC and PRC are those of predicted labels ("hard"), the mean over the
classifiers below. Bounds and categories are the published ones of the data set.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.tree import DecisionTreeClassifier

from core.synthesis.encoding import STEPS, EncodedTable, Outside, encode_rows, unit_vectors
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pearl_release import pearl_release
from core.synthesis.pricing import record_budget
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

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


def adult_schema() -> TableSchema:
    """The published bounds and categories."""
    columns: list[dict[str, Any]] = []
    for name in COLUMNS:
        if name in NUMBERS:
            low, high = NUMBERS[name]
            columns.append({"name": name, "kind": "numeric", "minimum": low, "maximum": high, "integer": True})
        else:
            columns.append({"name": name, "kind": "categorical", "categories": CATEGORIES[name].split()})
    return table_schema({"columns": columns, "label": LABEL})


def adult(data: Path, part: str, schema: TableSchema) -> EncodedTable:
    """`data` or `test`, the majority class thinned out in a fixed random order."""
    draw = np.random.default_rng(0)
    rows = []
    with gzip.open(data / "adult" / f"adult.{part}.csv.gz", "rt", encoding="utf-8") as lines:
        for values in csv.reader(lines, skipinitialspace=True):
            if len(values) != len(COLUMNS) + 1:
                continue
            row: dict[str, Any] = dict(zip(COLUMNS, values, strict=False))
            row |= {name: int(row[name]) for name in NUMBERS}
            row["income"] = values[-1].rstrip(".")
            if row["income"] == ">50K" or draw.random() < KEPT:
                rows.append(row)
    return encode_rows(schema, rows, outside=Outside.CLIP)


def classifiers() -> Iterable[ClassifierMixin]:
    """Most of the paper's ten; its support vector machine and perceptron take the longest and are left out."""
    yield LogisticRegression(max_iter=500)
    yield GaussianNB()
    yield BernoulliNB()
    yield DecisionTreeClassifier(max_depth=None, random_state=0)
    yield LinearDiscriminantAnalysis()
    yield AdaBoostClassifier(random_state=0)
    yield BaggingClassifier(random_state=0)
    yield GradientBoostingClassifier(subsample=0.3, n_estimators=60, random_state=0)


def scores(train: EncodedTable, test: EncodedTable) -> list[tuple[str, float, float]]:
    """(classifier, hard ROC, hard PRC) of each."""
    found = []
    x, x_test = (unit_vectors(table.schema, table.codes) / STEPS for table in (train, test))
    for model in classifiers():
        predicted = model.fit(x, train.labels).predict(x_test)
        name = type(model).__name__
        found.append((name, roc_auc_score(test.labels, predicted), average_precision_score(test.labels, predicted)))
    return found


def report(name: str, table: EncodedTable, test: EncodedTable, seconds: float) -> None:
    """One line a classifier, then the mean."""
    found = scores(table, test)
    for classifier, roc, prc in found:
        print(f"  {classifier:28} {roc:.3f} {prc:.3f}")
    roc, prc = np.mean([row[1:] for row in found], axis=0)
    print(f"| {name} | {roc:.3f} | {prc:.3f} | {seconds:.0f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--steps", type=int, default=TrainingPlan.steps)
    parser.add_argument("--frequencies", type=int, default=1_000)
    parser.add_argument("--bins", type=int, default=16)
    parser.add_argument("--batch", type=int, default=TrainingPlan.batch)
    parser.add_argument("--log-sigma-max", type=float, default=TrainingPlan.log_sigma_max)
    parser.add_argument("--only", choices=("real", "marginals", "pearl"))
    options = parser.parse_args()
    schema = adult_schema()
    train, test = (adult(options.data, part, schema) for part in ("data", "test"))
    budget = record_budget(options.epsilon, options.delta)
    print(f"{len(train)} rows, {len(test)} to test; epsilon {options.epsilon}, delta {options.delta}")
    if options.only in (None, "real"):
        report("real", train, test, 0.0)
    if options.only in (None, "marginals"):
        start = time.monotonic()
        marginals = marginals_release(train, bins=options.bins, budget=budget, rows_are_public=True)
        report("marginals", marginals.sample(len(train)), test, time.monotonic() - start)
    if options.only in (None, "pearl"):
        start = time.monotonic()
        release = pearl_release(train, frequencies=options.frequencies, budget=budget, rows_are_public=True)
        print(f"released in {time.monotonic() - start:.1f} s, mean distance {release.mean_distance:.3f}")
        plan = TrainingPlan(steps=options.steps, batch=options.batch, log_sigma_max=options.log_sigma_max)
        generator = train_generator(release, plan=plan)
        report("pearl", generator.sample(len(train)), test, time.monotonic() - start)


if __name__ == "__main__":
    main()
