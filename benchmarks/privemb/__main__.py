"""The four experiments of Feyisetan and Kasiviswanathan 2021 on the bundled encoder's vectors.

    python -m benchmarks.privemb --data DATA [--cache CACHE] [--trials 3] [--figures docs/reference/vectors]

Every mechanism at the same worst-case epsilon of a vector: metric mechanisms at eps per unit of distance cost up to
2 eps over the unit ball; privunit and codebook are asked for that total. The paper's form is compared by its own claim,
with noise of rate eps / (1 + beta); the account is charged more (docs/reference/benchmarks/vectors.md).
Training and test vectors are private, labels public. The vector pack was made without any of the five data sets.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.privemb import experiments, figures
from benchmarks.privemb.corpus import Task, tasks
from benchmarks.privemb.methods import METHODS, WORST_CASES, Method
from benchmarks.sentdp.table import Cell, Row, Table
from core.mechanisms.vectors.projection import VectorPack
from core.mechanisms.vectors.release import Vectors
from gpu_workers.models.encoder import Encoder
from gpu_workers.packs import VECTOR_PACK

CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-embeddings"
MEAN = "mean of the five tasks"
NON_PRIVATE = "non-private"


class Comparison:
    """The tables over one set of tasks."""

    def __init__(self, found: list[Task], pack: VectorPack, trials: int) -> None:
        self._tasks, self._pack, self._trials = found, pack, trials

    def geometry(self) -> dict[str, Table]:
        """Experiments 1 and 2."""
        tables = {"distance error": self._table("distance error"), "inner product error": self._table("product error")}
        for method in METHODS:
            cells: list[list[Cell]] = [[], []]
            for worst_case in WORST_CASES:
                found = []
                for trial in range(self._trials):
                    true = experiments.pairs(self._tasks, trial)
                    private = self._release(method, true, worst_case)
                    found.append((experiments.distance_error(private, true), experiments.product_error(private, true)))
                for place, values in zip(cells, zip(*found, strict=True), strict=True):
                    place.append(Cell.of(values))
            for table, place in zip(tables.values(), cells, strict=True):
                table.rows[method.name] = Row(method.guarantee, place)
        return tables

    def linear(self) -> dict[str, Table]:
        """Experiment 3."""
        tables = {"accuracy": self._table("accuracy"), "AUC": self._table("AUC")}
        (source,) = (task for task in self._tasks if task.name == "MPQA")
        drawn = [experiments.balanced(source, trial) for trial in range(self._trials)]
        self._put(tables, NON_PRIVATE, "none", [[experiments.linear_model(task, task.vectors) for task in drawn]])
        for method in METHODS:
            found = [
                [experiments.linear_model(task, self._release(method, task.vectors, worst)) for task in drawn]
                for worst in WORST_CASES
            ]
            self._put(tables, method.name, method.guarantee, found)
        return tables

    def classification(self) -> dict[str, Table]:
        """Experiment 4: a table a task, and of their mean."""
        tables = {name: self._table(name) for name in (MEAN, *(task.name for task in self._tasks))}

        def trials(release: partial[Vectors] | None) -> list[list[float]]:
            results = []
            for trial in range(self._trials):
                private = [task.vectors if release is None else release(vectors=task.vectors) for task in self._tasks]
                scores = [experiments.accuracy(t, p, trial) for t, p in zip(self._tasks, private, strict=True)]
                results.append([float(np.mean(scores)), *scores])
            return results

        self._put(tables, NON_PRIVATE, "none", [trials(None)])
        for method in METHODS:
            found = [trials(partial(self._release, method, worst_case=worst)) for worst in WORST_CASES]
            self._put(tables, method.name, method.guarantee, found)
        return tables

    def _release(self, method: Method, vectors: Vectors, worst_case: float) -> Vectors:
        return method.release(vectors, worst_case=worst_case, pack=self._pack)

    def _table(self, title: str) -> Table:
        return Table(title, WORST_CASES, [f"worst case {worst}" for worst in WORST_CASES], "guarantee")

    def _put(self, tables: dict[str, Table], name: str, about: str, found: Sequence[Sequence[Sequence[float]]]) -> None:
        """`found`: a column, a trial, a table. One column stands for all: nothing depends on epsilon."""
        for i, table in enumerate(tables.values()):
            cells = [Cell.of([trial[i] for trial in column]) for column in found]
            table.rows[name] = Row(about, cells * (len(WORST_CASES) // len(cells)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pack", type=Path, default=VECTOR_PACK)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--figures", type=Path, help="folder for the SVGs")
    chosen = parser.parse_args()
    encoder = Encoder()
    pack = VectorPack.load(chosen.pack, encoder_fingerprint=encoder.packs_of)
    comparison = Comparison(tasks(chosen.data, encoder, chosen.cache), pack, chosen.trials)
    geometry, linear, classified = comparison.geometry(), comparison.linear(), comparison.classification()
    for table in (*geometry.values(), *linear.values(), *classified.values()):
        print(f"\n{table.markdown()}", flush=True)
    if chosen.figures:
        figures.draw(classified, chosen.figures / "tasks.svg")
        figures.draw(geometry, chosen.figures / "geometry.svg", log=True)
        figures.draw(linear, chosen.figures / "linear.svg")


if __name__ == "__main__":
    main()
