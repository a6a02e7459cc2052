"""The five tasks of the paper's Table 1 as sentence vectors of the bundled encoder."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpu_workers.models.encoder import Encoder
from training import public_text
from training.public_text import Document

_FILES = {
    "MR": (("mr_all",), ()),
    "CR": (("cr_all",), ()),
    "MPQA": (("mpqa_all",), ()),
    "SST-5": (("sst5_train", "sst5_dev"), ("sst5_test",)),
    "TREC-6": (("trec6_train",), ("trec6_test",)),
}
_TEST_SHARE = 0.1


@dataclass(frozen=True)
class Task:
    """One task: unit `vectors` float32 `[n, d]`, `labels` `[n]`; its last `test_rows` rows are the test set, if any."""

    name: str
    vectors: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    test_rows: int

    def split(self, trial: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows to train and to test on: the data set's own, or a tenth drawn for this trial."""
        order = np.random.default_rng(trial).permutation(len(self.labels) - self.test_rows)
        if self.test_rows:
            return order, np.arange(len(order), len(self.labels))
        cut = int(_TEST_SHARE * len(order))
        return order[cut:], order[:cut]


def tasks(data: Path, encoder: Encoder, cache: Path) -> list[Task]:
    """The tasks, encoded into `cache` the first time."""
    found = []
    for name, (train, test) in _FILES.items():
        rows = [row for file in train for row in _rows(data, file)]
        tested = [row for file in test for row in _rows(data, file)]
        documents = [Document([text]) for text, _ in rows + tested]
        embedded = public_text.embed(documents, encoder, cache, f"privemb-{name}")
        labels = np.array([label for _, label in rows + tested])
        found.append(Task(name, embedded.vectors, labels, len(tested)))
    return found


def _rows(data: Path, file: str) -> list[tuple[str, int]]:
    with gzip.open(data / "senteval" / f"{file}.jsonl.gz", "rt", encoding="utf-8") as stream:
        return [(str(row["text"]), int(row["label"])) for row in map(json.loads, stream)]
