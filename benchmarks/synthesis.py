"""Classifiers trained on synthetic rows of UCI Adult and tested on real ones; time and memory of a whole table.

    python -m benchmarks.synthesis --data DATA [--runs 5] [--epsilon 1] [--delta 1e-5] [--only ROW ...]
    python -m benchmarks.synthesis --data DATA --speed

As in the PEARL paper (Liew, Takahashi and Ueno 2021, tables 2 and 3), the majority class is thinned out before anything
else: four of ten rows stay, in training and test. The ten classifiers are the paper's kinds, all of scikit-learn, with
its defaults where no argument is shown. "Hard": ROC and PRC (average precision) of predicted labels, as the paper's
figures are; "score": of scores. A figure is the mean over the classifiers, its deviation that of the runs' means.

`--dev` never looks at the test rows: it trains on 70 % of the training rows and tests on the rest.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

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

from benchmarks import synthesis_mst
from benchmarks.adult import adult, adult_schema
from benchmarks.synthesis_paper import FREQUENCIES_PAPER, STEPS_PAPER, class_sizes, sums_by_loops, trained
from core.synthesis.encoding import STEPS, EncodedTable, unit_vectors
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pearl_release import Design, pearl_release
from core.synthesis.pricing import RecordBudget, record_budget
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator

FREQUENCIES = 5_000
BINS = 16
Method = Callable[[EncodedTable], EncodedTable]


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

    def paper(table: EncodedTable) -> EncodedTable:
        release = pearl_release(
            table, frequencies=FREQUENCIES_PAPER, budget=budget, rows_are_public=True, design=Design.GAUSSIAN
        )
        return trained(release, steps=options.paper_steps).sample(len(table), class_sizes(release))

    def pearl(design: Design, frequencies: int) -> Method:
        def made(table: EncodedTable) -> EncodedTable:
            release = pearl_release(table, frequencies=frequencies, budget=budget, rows_are_public=True, design=design)
            return train_generator(release, plan=TrainingPlan(steps=options.steps)).sample(len(table))

        return made

    def mst(table: EncodedTable) -> EncodedTable:
        return synthesis_mst.mst(
            table, epsilon=options.epsilon, delta=options.delta, bins=options.bins, count=len(table)
        )

    return {
        "real": lambda table: table,
        "marginals": marginals,
        "mst": mst,
        "paper": paper,
        "pearl-gaussian": pearl(Design.GAUSSIAN, FREQUENCIES_PAPER),
        "pearl": pearl(Design.LOW_ORDER, options.frequencies),
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
    print("| rows | hard ROC | hard PRC | score ROC | score PRC | seconds |\n| --- | --- | --- | --- | --- | --- |")
    every = []
    for name, method in methods(record_budget(options.epsilon, options.delta), options).items():
        if options.only and name not in options.only:
            continue
        if name == "mst" and not synthesis_mst.installed():
            print(f"| {name} | {synthesis_mst.WHY_NOT} |")
            continue
        found, seconds = [], []
        for run in range(options.runs):
            start = time.monotonic()
            made = method(train)
            seconds.append(time.monotonic() - start)
            found.append(scores(made, test, run))
        each = np.array(found)
        means, spread = each.mean(axis=(0, 1)), each.mean(axis=1).std(axis=0)
        cells = " | ".join(f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(means, spread, strict=True))
        print(f"| {name} | {cells} | {np.median(seconds):.0f} |", flush=True)
        every.append((name, each[:, :, 0].mean(axis=0), each[:, :, 1].mean(axis=0)))
    print("\nhard ROC / PRC of each classifier, mean of the runs")
    for i, model in enumerate(classifiers(0)):
        line = " | ".join(f"{name} {roc[i]:.3f} / {prc[i]:.3f}" for name, roc, prc in every)
        print(f"| {type(model).__name__} | {line} |")


def speed(options: argparse.Namespace) -> None:
    """All rows of Adult, as many out; beside the paper's way by plain loops, of which a part is timed."""
    schema = adult_schema()
    table = adult(options.data, ["data", "test"], schema, kept=1.0)
    budget = record_budget(options.epsilon, options.delta)
    marks = [time.monotonic()]
    release = pearl_release(table, frequencies=options.frequencies, budget=budget, rows_are_public=True)
    marks.append(time.monotonic())
    generator = train_generator(release, plan=TrainingPlan(steps=options.steps))
    marks.append(time.monotonic())
    generator.sample(len(table))
    marks.append(time.monotonic())
    parts, trained_steps = np.diff(marks), generator.curve[-1][0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(table)} rows in and out: release {parts[0]:.1f} s, training of {trained_steps} steps {parts[1]:.1f} s,"
    )
    print(f"  sampling {parts[2]:.1f} s; together {parts.sum():.1f} s, peak memory {peak:.0f} MiB")
    gaussian = pearl_release(
        table, frequencies=FREQUENCIES_PAPER, budget=budget, rows_are_public=True, design=Design.GAUSSIAN
    )
    some, steps = 2_000, 5
    start = time.monotonic()
    sums_by_loops(EncodedTable(schema, table.codes[:some], table.labels[:some]), gaussian.frequencies)
    loop_release = (time.monotonic() - start) * len(table) / some
    loop_training = per_step(lambda count: trained(gaussian, steps=count, loops=True), steps) * trained_steps
    matrix_training = per_step(lambda count: trained(gaussian, steps=count), 10 * steps) * trained_steps
    ratio = (loop_release + loop_training) / parts.sum()
    print(f"plain loops, {FREQUENCIES_PAPER} frequencies: release {loop_release:.1f} s, {trained_steps} steps")
    print(f"  {loop_training:.1f} s ({steps} timed); together {ratio:.1f} times as long as ours")
    print(f"the same steps by matrices: {matrix_training:.1f} s")


def per_step(train: Callable[[int], object], steps: int) -> float:
    """Seconds a step, after a warm-up."""
    train(1)
    start = time.monotonic()
    train(steps)
    return (time.monotonic() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=TrainingPlan.steps)
    parser.add_argument("--paper-steps", type=int, default=STEPS_PAPER)
    parser.add_argument("--frequencies", type=int, default=FREQUENCIES)
    parser.add_argument("--bins", type=int, default=BINS)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    (speed if options.speed else compare)(options)


if __name__ == "__main__":
    main()
