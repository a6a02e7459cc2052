"""Classifiers trained on synthetic rows of UCI Adult and tested on real ones, and how far their columns are from real.

    python -m benchmarks.synthesis --data DATA [--runs 5] [--epsilons 1] [--delta 1e-5] [--only ROW ...] [--parity]

As in the PEARL paper (Liew, Takahashi and Ueno 2021, tables 2 and 3, figures 4, 7 and 8). "Hard": ROC and PRC (average
precision) of predicted labels, as the paper's figures are; "score": of scores. A figure is the mean over the
classifiers, its deviation that of the runs' means. `gaussian`: three trainings on one release, so that its noise does
not hide their difference: without the adversary, and with its standard deviations within a factor of exp(.2), which is
shipped, and of e. `real, unscaled`: integer codes and unscaled numbers, as the code of DP-MERF has them.

`--dev` never looks at the test rows: it trains on 70 % of the training rows and tests on the rest.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from benchmarks.kit import Cell, Row, Table, arguments, draw, head, row
from benchmarks.synthesis.adult import NOT_DRAWN, PAPER, adult, adult_schema, scores, unit, unscaled
from benchmarks.synthesis.merf import merf
from core.synthesis.aim_release import aim_release
from core.synthesis.encoding import EncodedTable
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pearl_release import Design, pearl_release
from core.synthesis.plan import BINS_DEFAULT, FREQUENCIES_DEFAULT
from core.synthesis.pricing import RecordBudget, record_budget
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.generator import GeneratorShape
from gpu_workers.synthesis.reconstruction import TrainingPlan, train_generator
from gpu_workers.synthesis.report import column_shares

REAL, UNSCALED = "real", "real, unscaled"
SHAPE_GAUSSIAN, STEPS_GAUSSIAN = GeneratorShape(components=64), 500
BOUNDS = {"min-only": 0.0, "minimax, factor 1.2": TrainingPlan.log_sigma_max, "minimax, factor 2.7": 1.0}
Method = Callable[[EncodedTable], dict[str, EncodedTable]]
DRAWN = {REAL: "black o", "DP-MERF": "tab:red x", "gaussian min-only": "tab:blue s", "pearl": "tab:green ^"}


def methods(budget: RecordBudget) -> dict[str, Method]:
    """Rows of training in, as many to train on out, by the name of each row of the table."""

    def pearl(table: EncodedTable, design: Design) -> dict[str, EncodedTable]:
        frequencies = FREQUENCIES_DEFAULT[design]
        release = pearl_release(table, frequencies=frequencies, budget=budget, rows_are_public=True, design=design)
        if design is Design.LOW_ORDER:
            return {"pearl": train_generator(release).sample(len(table))}
        plans = {name: TrainingPlan(steps=STEPS_GAUSSIAN, log_sigma_max=bound) for name, bound in BOUNDS.items()}
        trained = {name: train_generator(release, shape=SHAPE_GAUSSIAN, plan=plan) for name, plan in plans.items()}
        return {f"gaussian {name}": generator.sample(len(table)) for name, generator in trained.items()}

    def marginals(table: EncodedTable) -> dict[str, EncodedTable]:
        release = marginals_release(table, bins=BINS_DEFAULT, budget=budget, rows_are_public=True)
        return {"marginals": release.sample(len(table))}

    return {
        REAL: lambda table: {REAL: table},
        UNSCALED: lambda table: {UNSCALED: table},
        "DP-MERF": lambda table: {"DP-MERF": merf(table, budget, kernel_width=1)},
        "gaussian": lambda table: pearl(table, Design.GAUSSIAN),
        "pearl": lambda table: pearl(table, Design.LOW_ORDER),
        "marginals": marginals,
        "aim": lambda table: {"aim": aim_release(table, budget=budget, rows_are_public=True).sample(len(table))},
    }


def compare(epsilon: float, train: EncodedTable, test: EncodedTable, options: argparse.Namespace) -> None:
    """The table of utility, of each classifier, and of each column."""
    print(f"\n{len(train)} rows, {len(test)} to test; epsilon {epsilon:g}, delta {options.delta:g}")
    head("rows", "hard ROC", "hard PRC", "score ROC", "score PRC", "of real", "seconds")
    found: dict[str, list[np.ndarray]] = {}
    made: dict[str, list[EncodedTable]] = {}
    for group, method in methods(record_budget(epsilon, options.delta)).items():
        if group not in options.only:
            continue
        mine: dict[str, list[EncodedTable]] = {}
        start = time.monotonic()
        for _ in range(1 if group in (REAL, UNSCALED) else options.runs):
            for name, rows in method(train).items():
                mine.setdefault(name, []).append(rows)
        seconds = (time.monotonic() - start) / options.runs
        for name, runs in mine.items():
            vectors = unscaled if name == UNSCALED else unit
            found[name] = [scores(rows, test, run, vectors) for run, rows in enumerate(runs)]
            means = np.array(found[name]).mean(axis=1)
            kept = means.mean(axis=0) / np.mean(found[REAL], axis=(0, 1)) if REAL in found else [np.nan] * 2
            cells = (Cell.of(each) for each in means.T.tolist())
            row(name, *cells, f"{kept[0]:.3f} / {kept[1]:.3f}", f"{seconds:.0f}")
        made |= mine
    if epsilon == options.epsilons[0]:
        each_classifier(found)
        distances(train, made, options.figures)


def each_classifier(found: dict[str, list[np.ndarray]]) -> None:
    print("\nhard ROC / PRC, mean of the runs")
    head("classifier", *found, "paper: real", "DP-MERF", "PEARL")
    means = [np.mean(runs, axis=0) for runs in found.values()]
    for i, (name, paper) in enumerate(PAPER.items()):
        row(name, *(f"{each[i, 0]:.3f} / {each[i, 1]:.3f}" for each in means), *paper)


def shares(table: EncodedTable, j: int) -> np.ndarray:
    found, _ = column_shares(table, j, groups=np.zeros(len(table), dtype=np.int64), groups_count=1)
    mine: np.ndarray = found[0]
    return mine


def distances(real: EncodedTable, made: dict[str, list[EncodedTable]], figures: Path | None) -> None:
    """Total variation distance of each column's histogram from that of the real rows, and one such histogram."""
    made = {name: runs for name, runs in made.items() if name != UNSCALED}
    print("\ntotal variation distance of each column, mean of the runs; * is not drawn in the paper")
    head("column", *made)
    far: dict[str, list[float]] = {}
    for j, column in enumerate(real.schema.columns):
        for name, runs in made.items():
            away = [np.abs(shares(rows, j) - shares(real, j)).sum() / 2 for rows in runs]
            far.setdefault(name, []).append(float(np.mean(away)))
        row(column.name + "*" * (column.name in NOT_DRAWN), *(f"{each[-1]:.3f}" for each in far.values()))
    drawn = [column.name not in NOT_DRAWN for column in real.schema.columns]
    row("mean of the paper's 11", *(f"{np.mean(np.array(each)[drawn]):.3f}" for each in far.values()))
    if figures is None:
        return
    j = [column.name for column in real.schema.columns].index("marital-status")
    table = Table("rows", range(len(shares(real, j))))
    for name, runs in made.items():
        table.rows[name] = Row(
            "", [Cell.of(share) for share in np.array([shares(rows, j) for rows in runs]).T.tolist()]
        )
    path = figures / "adult-marital-status.svg"
    draw({"marital-status": table}, path, DRAWN, xlabel="category", ylabel="share of rows", log=True)


def parity(rows: int, draw: np.random.Generator) -> EncodedTable:
    """Six columns of two values; the label is the exclusive or of three. Any three of these four are independent."""
    columns = [{"name": f"c{i}", "kind": "categorical", "categories": ["0", "1"]} for i in range(6)]
    label = {"name": "odd", "kind": "categorical", "categories": ["no", "yes"]}
    codes = draw.integers(0, 2, (rows, 6)).astype(np.int16)
    return EncodedTable(table_schema({"columns": columns, "label": label}), codes, codes[:, :3].sum(axis=1) % 2)


def compare_parity(options: argparse.Namespace) -> None:
    """The accuracy on other real rows of a tree that was trained on synthetic rows."""
    random = np.random.default_rng(0)
    train, test = parity(20_000, random), parity(20_000, random)
    print("\nexclusive or of three columns: accuracy of a decision tree")
    for group, method in methods(record_budget(options.epsilons[0], options.delta)).items():
        for name, made in method(train).items() if group in options.only else ():
            tree = DecisionTreeClassifier(random_state=0).fit(made.codes, made.labels)
            row(name, f"{tree.score(test.codes, test.labels):.3f}")


def tables(schema: TableSchema, options: argparse.Namespace) -> tuple[EncodedTable, EncodedTable]:
    train, test = adult(options.data, ["data"], schema), adult(options.data, ["test"], schema)
    if not options.dev:
        return train, test
    order = np.random.default_rng(7).permutation(len(train))
    cut = len(train) * 7 // 10
    first, second = (EncodedTable(schema, train.codes[o], train.labels[o]) for o in (order[:cut], order[cut:]))
    return first, second


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        epsilons=[1.0],
        delta=1e-5,
        runs=5,
        only=(list(methods(record_budget(1, 1e-5))), "rows"),
        figures=Path,
        parity=False,
        dev=False,
    )
    warnings.simplefilter("ignore")
    train, test = tables(adult_schema(), options)
    for epsilon in options.epsilons:
        compare(epsilon, train, test, options)
    if options.parity:
        compare_parity(options)


if __name__ == "__main__":
    main()
