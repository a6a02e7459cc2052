"""Accuracy on GLUE subsets with the bundled encoder, by how the noise was chosen, by method, over seeds.

`no noise` clips as the others do. `estimate` trains at the multiplier that the order-1 estimate gives for the target:
over budget, by what its certified epsilon says; the gateway does not offer it. Finished runs are kept in `--cache`.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.finetune.multipliers import calibrations
from benchmarks.finetune.tasks import glue
from core.accounting.pld import certified_epsilon
from core.finetune.plan import PrivacyPlan, plan_training, steps_of

EPSILON, DELTA = 8.0, 1e-5
PIECES_MAX = 40
CALIBRATIONS = ("no noise", "rdp", "certified", "estimate")
_NO_NOISE = 1e-6


@dataclass(frozen=True)
class Size:
    """Of every run."""

    rows: int
    batch: int
    epochs: float

    def plan(self) -> PrivacyPlan:
        steps = steps_of(rows=self.rows, batch=self.batch, epochs=self.epochs)
        return plan_training(epsilon=EPSILON, delta=DELTA, rows=self.rows, batch=self.batch, steps=steps)


class _NoCheckpoint:
    def read(self) -> None:
        return None

    def write(self, state: bytes) -> None:
        pass


def noises(plan: PrivacyPlan) -> dict[str, float]:
    found = calibrations(EPSILON, DELTA, sampling_rate=plan.sampling_rate, steps=plan.steps)
    return {"no noise": _NO_NOISE, "rdp": found.rdp, "certified": plan.noise_multiplier, "estimate": found.estimate}


def run(data: Path, cache: Path, size: Size, task: str, method: str, calibration: str, seed: int) -> str:
    """Train once and keep the accuracy; a line to show."""
    import torch

    from gpu_workers.finetune.methods import Method
    from gpu_workers.finetune.tuning import Task, fine_tune

    file = _file(cache, size, task, method, calibration, seed)
    if file.exists():
        return f"{file.stem}: kept"
    torch.set_num_threads(1)
    plan = size.plan()
    found = glue(data, task, rows=size.rows, seed=seed)
    torch.manual_seed(seed)  # of the adapters' start; batches and noise have no seed
    begun = time.process_time()
    made = fine_tune(
        found.private,
        found.public,
        Task(found.labels, found.pairs, Method(method), pieces_max=PIECES_MAX),
        replace(plan, noise_multiplier=noises(plan)[calibration]),
        base_path=None,
        device=torch.device("cpu"),
        checkpoint=_NoCheckpoint(),
        tell=lambda _: None,
    )
    seconds = time.process_time() - begun
    assert made.metrics is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"accuracy": made.metrics.accuracy, "seconds": seconds}))
    return f"{file.stem}: {made.metrics.accuracy:.4f} in {seconds:.0f} s of processor"


def _file(cache: Path, size: Size, task: str, method: str, calibration: str, seed: int) -> Path:
    name = f"{task}-{method}-{calibration.replace(' ', '-')}-{size.rows}-{size.batch}-{size.epochs:g}-{seed}.json"
    return cache / name


def train(
    data: Path, cache: Path, size: Size, *, tasks: list[str], methods: list[str], seeds: int, processes: int
) -> None:
    """All runs, seed by seed, so that a run that is cut short has compared what it has."""
    wanted = list(product(range(seeds), tasks, methods, CALIBRATIONS))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        pending = [
            pool.submit(run, data, cache, size, task, method, calibration, seed)
            for seed, task, method, calibration in wanted
        ]
        for future in pending:
            print(future.result(), flush=True)


def show(cache: Path, size: Size, *, tasks: list[str], methods: list[str], seeds: int) -> None:
    plan = size.plan()
    chosen = noises(plan)
    print(f"{size.rows} rows, batch {size.batch}, {plan.steps} steps, epsilon {EPSILON:g}, delta {DELTA:g}")
    print("| noise by | multiplier | certified epsilon | " + " | ".join(f"{t}, {m}" for t in tasks for m in methods))
    print("|" + " --- |" * (3 + len(tasks) * len(methods)))
    for calibration in CALIBRATIONS:
        noise = chosen[calibration]
        event = replace(plan, noise_multiplier=noise).event() if calibration != "no noise" else None
        cost = "–" if event is None else f"{certified_epsilon(((event, plan.steps),), DELTA):.2f}"
        cells = [_cell(cache, size, task, method, calibration, seeds) for task in tasks for method in methods]
        print(f"| {calibration} | {0 if event is None else noise:.4f} | {cost} | " + " | ".join(cells) + " |")


def _cell(cache: Path, size: Size, task: str, method: str, calibration: str, seeds: int) -> str:
    """Mean and standard deviation over the seeds that were run."""
    files = [_file(cache, size, task, method, calibration, seed) for seed in range(seeds)]
    found = [json.loads(file.read_text())["accuracy"] for file in files if file.exists()]
    if not found:
        return "–"
    spread = f" ± {np.std(found, ddof=1):.3f}" if len(found) > 1 else ""
    return f"{np.mean(found):.3f}{spread} ({len(found)})"
