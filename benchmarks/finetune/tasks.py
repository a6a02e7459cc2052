"""GLUE tasks as splits: a random part of the training rows, and the development rows as the public split."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.finetune.inputs import Split

TASKS = ("sst2", "qqp", "mnli", "qnli")


@dataclass(frozen=True)
class GlueTask:
    """`labels` as the data names them."""

    labels: tuple[str, ...]
    pairs: bool
    private: Split
    public: Split


def glue(data: Path, task: str, *, rows: int | None, seed: int) -> GlueTask:
    """`rows`: as many training rows, chosen by the seed; all of them by default."""
    train, dev = (_read(data / "glue" / f"{task}_{part}.jsonl.gz") for part in ("train", "dev"))
    names = tuple(sorted(set(train.labels)))
    order = np.random.default_rng(seed).permutation(len(train.texts))[:rows]
    chosen = Split([train.texts[i] for i in order], [train.labels[i] for i in order])
    return GlueTask(names, len(train.texts[0]) == 2, chosen, dev)


def _read(path: Path) -> Split:
    with gzip.open(path, "rt") as stream:
        rows = [json.loads(line) for line in stream]
    fields = ("text",) if "text" in rows[0] else ("text_a", "text_b")
    return Split([tuple(row[field] for field in fields) for row in rows], [str(row["label"]) for row in rows])
