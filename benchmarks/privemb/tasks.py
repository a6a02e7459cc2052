"""The five classification tasks of the paper's Table 1, as texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.public_text import json_lines

Rows = npt.NDArray[np.int64]
_FILES = {
    "MR": (("mr_all",), ()),
    "CR": (("cr_all",), ()),
    "MPQA": (("mpqa_all",), ()),
    "SST-5": (("sst5_train", "sst5_dev"), ("sst5_test",)),
    "TREC-6": (("trec6_train",), ("trec6_test",)),
}


@dataclass(frozen=True)
class Task:
    """One task. Its last `test_rows` texts are the data set's own test set, if it has one."""

    name: str
    texts: list[str]
    labels: Rows
    test_rows: int

    def split(self, trial: int, share: float = 0.1) -> tuple[Rows, Rows]:
        """Rows to train and to test on: the data set's own, or this share drawn for the trial."""
        order = np.random.default_rng(trial).permutation(len(self.labels) - self.test_rows)
        if self.test_rows:
            return order, np.arange(len(order), len(self.labels))
        cut = int(share * len(order))
        return order[cut:], order[:cut]

    def folds(self, count: int) -> Iterator[tuple[Rows, Rows]]:
        """The data set's own split, or `count` folds."""
        if self.test_rows:
            yield self.split(0)
            return
        parts = np.array_split(np.random.default_rng(0).permutation(len(self.labels)), count)
        for i, part in enumerate(parts):
            yield np.concatenate(parts[:i] + parts[i + 1 :]), part


def tasks(data: Path) -> list[Task]:
    found = []
    for name, files in _FILES.items():
        train, test = (
            [row for file in group for row in json_lines(data / "senteval" / f"{file}.jsonl.gz")] for group in files
        )
        labels = np.array([int(row["label"]) for row in train + test])
        found.append(Task(name, [str(row["text"]) for row in train + test], labels, len(test)))
    return found
