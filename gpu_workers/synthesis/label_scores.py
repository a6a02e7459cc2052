"""How well the columns predict the label: a few fast classifiers, trained on some rows and tested on others.

No guarantee of its own: on synthetic rows it is post-processing. The classifiers are from scikit-learn and small enough
that all of them together take a second or two on one core, whatever the schema.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from core.mechanisms.vectors.release import noise_generator
from core.synthesis.columns import STEPS
from core.synthesis.encoding import EncodedTable, unit_vectors
from core.synthesis.schema import TableSchema

FloatArray = npt.NDArray[np.float64]

ROWS_MIN: Final = 20  # for training, and for testing
_ROWS_MAX = 4_000
_CELLS_MAX = 500_000  # rows times coordinates
_TRAINED_SHARE = 0.7
_TREES = 100  # of boosting, over all classes
_ROUNDS_MIN = 5


@dataclass(frozen=True, eq=False)
class LabelScores:
    """`values` `[classifiers, 2]`, by the `measures` of the schema."""

    classifiers: tuple[str, ...]
    trained_rows: int
    tested_rows: int
    values: FloatArray


def split(table: EncodedTable) -> tuple[EncodedTable, EncodedTable]:
    """Shuffle the rows and split them: seven tenths for training, the rest for testing."""
    mixed = _part(table, noise_generator().permutation(len(table)))
    cut = round(_TRAINED_SHARE * len(table))
    return _part(mixed, slice(cut)), _part(mixed, slice(cut, None))


def measures(schema: TableSchema) -> tuple[str, str]:
    """The measures: of scores if the label has two classes, of predictions if it has more."""
    return ("ROC AUC", "Average precision") if schema.classes == 2 else ("Accuracy", "Macro-F1")


def label_scores(training: EncodedTable, test: EncodedTable) -> LabelScores | None:
    """Train each classifier on `training` and test it on `test`. Both are in random order.

    None if the label or the rows do not suffice: a part has fewer than `ROWS_MIN` rows or only one class, or no column
    of the training varies.
    """
    most = max(ROWS_MIN, min(_ROWS_MAX, _CELLS_MAX // test.schema.width))
    training, test = _part(training, slice(most)), _part(test, slice(most))
    if not (_enough(test) and _enough(training) and _varies(training)):
        return None
    values = np.array(_scores(training, test))
    return LabelScores(tuple(_classifiers(test.schema.classes)), len(training), len(test), values)


def _classifiers(classes: int) -> dict[str, Any]:
    rounds = max(_ROUNDS_MIN, _TREES // classes)
    return {
        "Always the commonest class": DummyClassifier(strategy="prior"),
        "Logistic regression": LogisticRegression(max_iter=100),
        "Decision tree": DecisionTreeClassifier(max_depth=8, random_state=0),
        "Gaussian naive Bayes": GaussianNB(),
        "Gradient boosting": GradientBoostingClassifier(
            n_estimators=rounds, subsample=0.5, max_features="sqrt", random_state=0
        ),
    }


def _scores(training: EncodedTable, test: EncodedTable) -> list[tuple[float, float]]:
    x, x_test = (unit_vectors(table.schema, table.codes) / STEPS for table in (training, test))
    found = []
    for model in _classifiers(test.schema.classes).values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x, training.labels)
        if test.schema.classes == 2:
            score = model.predict_proba(x_test)[:, 1]
            found.append((roc_auc_score(test.labels, score), average_precision_score(test.labels, score)))
        else:
            said = model.predict(x_test)
            f1 = f1_score(test.labels, said, average="macro", zero_division=0.0)
            found.append((accuracy_score(test.labels, said), f1))
    return found


def _enough(table: EncodedTable) -> bool:
    return len(table) >= ROWS_MIN and len(np.unique(table.labels)) > 1


def _varies(table: EncodedTable) -> bool:
    return bool((table.codes != table.codes[0]).any())


def _part(table: EncodedTable, rows: slice | npt.NDArray[np.int64]) -> EncodedTable:
    return EncodedTable(table.schema, table.codes[rows], table.labels[rows])
