"""Trainings of classifiers on GLUE subsets with the bundled encoder, whose accuracies are kept in a cache."""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit import Cell
from core.finetune.inputs import Split
from core.finetune.plan import PrivacyPlan
from training.public_text import json_lines

PIECES_MAX = 40
TASKS = ("sst2", "qqp", "mnli", "qnli")


@dataclass(frozen=True)
class GlueTask:
    """A random part of the training rows, and the development rows as the public split. `labels` as the data names
    them."""

    labels: tuple[str, ...]
    pairs: bool
    private: Split
    public: Split


def glue(data: Path, task: str, *, rows: int | None, seed: int) -> GlueTask:
    """`rows`: as many training rows, chosen by the seed; all of them by default."""
    splits = []
    for part in ("train", "dev"):
        read = list(json_lines(data / "glue" / f"{task}_{part}.jsonl.gz"))
        fields = ("text",) if "text" in read[0] else ("text_a", "text_b")
        texts = [tuple(row[name] for name in fields) for row in read]
        splits.append(Split(texts, [str(row["label"]) for row in read]))
    train, dev = splits
    order = np.random.default_rng(seed).permutation(len(train.texts))[:rows]
    chosen = Split([train.texts[i] for i in order], [train.labels[i] for i in order])
    return GlueTask(tuple(sorted(set(train.labels))), len(train.texts[0]) == 2, chosen, dev)


# File and rare label of each table with uneven classes: questions for a number, positive reviews, positive phrases.
UNEVEN = {
    "trec": ("senteval/trec6_train.jsonl.gz", "5"),
    "cr": ("senteval/cr_all.jsonl.gz", "1"),
    "sst2": ("glue/sst2_train.jsonl.gz", "1"),
}
UNEVEN_ROWS, UNEVEN_RARE, UNEVEN_PUBLIC = 1_000, 50, 400


def uneven(data: Path, task: str, *, seed: int) -> tuple[Split, Split]:
    """Private rows of which one in twenty has the label `rare`, and a balanced public split, chosen by the seed."""
    file, rare = UNEVEN[task]
    rows = list(json_lines(data / file))
    order = np.random.default_rng(seed).permutation(len(rows))
    found: dict[str, list[tuple[str, ...]]] = {"other": [], "rare": []}
    for i in order:
        found["rare" if str(rows[i]["label"]) == rare else "other"].append((rows[i]["text"],))

    def split(rare_part: slice, other_part: slice) -> Split:
        parts = {"rare": found["rare"][rare_part], "other": found["other"][other_part]}
        texts = [text for part in parts.values() for text in part]
        return Split(texts, [label for label, part in parts.items() for _ in part])

    others, half = UNEVEN_ROWS - UNEVEN_RARE, UNEVEN_PUBLIC // 2
    return (
        split(slice(UNEVEN_RARE), slice(others)),
        split(slice(UNEVEN_RARE, UNEVEN_RARE + half), slice(others, others + half)),
    )


class NoCheckpoint:
    def read(self) -> None:
        return None

    def write(self, state: bytes) -> None:
        pass


@dataclass(frozen=True)
class Run:
    """One training. `file`: where its accuracy is kept. `free`: further arguments of the training loop."""

    file: Path
    plan: PrivacyPlan
    task: str
    method: str
    seed: int
    free: Mapping[str, Any] = field(default_factory=dict)


def trained(data: Path, run: Run) -> str:
    """Train and keep the accuracy on the development rows, measured once, at the end; a line to show."""
    import torch

    from gpu_workers.finetune.classifier import Classifier, Rows, load_base, measure
    from gpu_workers.finetune.gradients import Method, prepare
    from gpu_workers.finetune.training import PrivateTraining

    if run.file.exists():
        return f"{run.file.stem}: kept"
    torch.set_num_threads(1)
    device = torch.device("cpu")
    glued = glue(data, run.task, rows=run.plan.rows, seed=run.seed)
    torch.manual_seed(run.seed)  # of the adapters' start; batches and noise have no seed
    base = load_base(None, device=device, pieces_max=PIECES_MAX)
    model = Classifier(base, labels=len(glued.labels), pairs=glued.pairs)
    private, public = (
        Rows(base, split.texts, [glued.labels.index(label) for label in split.labels], device=device)
        for split in (glued.private, glued.public)
    )
    begun = time.process_time()
    training = PrivateTraining(model, prepare(model, Method(run.method)), run.plan, NoCheckpoint(), **run.free)
    training.run(private, None, lambda _: None)
    seconds = time.process_time() - begun
    accuracy = measure(model, public).accuracy
    run.file.parent.mkdir(parents=True, exist_ok=True)
    run.file.write_text(json.dumps({"accuracy": accuracy, "seconds": seconds}))
    return f"{run.file.stem}: {accuracy:.4f} in {seconds:.0f} s of processor"


def train(data: Path, runs: Sequence[Run], processes: int) -> None:
    """Make all runs, seed by seed, so that a run that is cut short has compared what it has."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(trained, data, run) for run in sorted(runs, key=lambda run: run.seed)]:
            print(future.result(), flush=True)


def accuracy(runs: Sequence[Run]) -> str:
    """Mean and standard deviation of the runs of a cell that were made, and their number."""
    found = [json.loads(run.file.read_text())["accuracy"] for run in runs if run.file.exists()]
    return f"{Cell.of(found)} ({len(found)})" if found else "–"


def head_accuracies(
    task: GlueTask, plans: Mapping[str, PrivacyPlan], runs: int, free: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[float]]:
    """Accuracies of `head` on the public rows, `runs` for each plan. The encoder reads the rows once. `free`: further
    arguments of the training loop, by plan."""
    import torch

    from gpu_workers.finetune.classifier import Classifier, FrozenRows, Rows, load_base, measure
    from gpu_workers.finetune.gradients import Method, prepare
    from gpu_workers.finetune.training import BATCH_PIECES, PrivateTraining

    torch.set_num_threads(1)
    device = torch.device("cpu")
    base = load_base(None, device=device, pieces_max=PIECES_MAX)
    model = Classifier(base, labels=len(task.labels), pairs=task.pairs)
    private, public = (
        FrozenRows(
            model,
            Rows(base, split.texts, [task.labels.index(label) for label in split.labels], device=device),
            pieces_max=BATCH_PIECES,
        )
        for split in (task.private, task.public)
    )
    found: dict[str, list[float]] = {name: [] for name in plans}
    for _, (name, plan) in product(range(runs), plans.items()):
        model = Classifier(base, labels=len(task.labels), pairs=task.pairs)
        training = PrivateTraining(model, prepare(model, Method.HEAD), plan, NoCheckpoint(), **free.get(name, {}))
        training.run(private, None, lambda _: None)
        found[name].append(measure(model, public).accuracy)
    return found
