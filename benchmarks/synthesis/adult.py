"""UCI Adult, and the ten classifiers of the PEARL paper (Liew, Takahashi and Ueno 2021, tables 2 and 3).

The majority class is thinned out before anything else, as in the code of DP-MERF, to which the paper refers: four of
ten rows stay, in training and test. The classifiers are the paper's kinds, all of scikit-learn, with its defaults where
no argument is shown.
"""

import csv
import gzip
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

from core.synthesis.columns import STEPS, NumericColumn, Outside
from core.synthesis.encoding import EncodedTable, encode_rows, unit_vectors
from core.synthesis.schema import TableSchema, table_schema

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
# not in the paper's histograms (figures 4, 7 and 8)
NOT_DRAWN = ("education-num", "hours-per-week", "native-country")
# ROC / PRC of real rows, DP-MERF and PEARL in the paper's table 3
PAPER = {
    "LogisticRegression": (".788 / .681", ".661 / .542", ".752 / .641"),
    "GaussianNB": (".629 / .511", ".587 / .491", ".661 / .537"),
    "BernoulliNB": (".769 / .651", ".588 / .488", ".763 / .644"),
    "LinearSVC": (".781 / .671", ".568 / .489", ".752 / .640"),
    "DecisionTreeClassifier": (".759 / .646", ".696 / .576", ".675 / .582"),
    "LinearDiscriminantAnalysis": (".782 / .670", ".634 / .541", ".755 / .640"),
    "AdaBoostClassifier": (".789 / .682", ".642 / .546", ".709 / .628"),
    "BaggingClassifier": (".772 / .667", ".659 / .538", ".687 / .601"),
    "GradientBoostingClassifier": (".800 / .695", ".706 / .586", ".709 / .635"),
    "MLPClassifier": (".776 / .660", ".667 / .558", ".744 / .635"),
}
Vectors = Callable[[EncodedTable], np.ndarray]


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


def unit(table: EncodedTable) -> np.ndarray:
    """Categories as indicators, numbers scaled to [0, 1], as the PEARL paper has them."""
    return unit_vectors(table.schema, table.codes) / STEPS


def unscaled(table: EncodedTable) -> np.ndarray:
    """Categories as whole numbers, and numbers as they are, as the code of DP-MERF has them."""
    columns = zip(table.schema.columns, table.codes.T, strict=True)
    return np.column_stack([e.decode(codes) if isinstance(e, NumericColumn) else codes for e, codes in columns])


def scores(train: EncodedTable, test: EncodedTable, seed: int, vectors: Vectors = unit) -> np.ndarray:
    """Hard ROC, hard PRC, score ROC, score PRC of each classifier, `[10, 4]`."""
    found = []
    x, x_test = vectors(train), vectors(test)
    for model in classifiers(seed):
        model.fit(x, train.labels)
        probable = hasattr(model, "predict_proba")
        score = model.predict_proba(x_test)[:, 1] if probable else model.decision_function(x_test)
        answers = (model.predict(x_test), score)
        measures = (roc_auc_score, average_precision_score)
        found.append([measure(test.labels, answer) for answer in answers for measure in measures])
    return np.array(found)
