"""Accuracy on GLUE subsets with the bundled encoder, by how the noise was chosen, by method, over seeds.

`non-private` is the same loop without clipping and without noise, at rates of its own. `estimate` trains at the
multiplier that the order-1 estimate gives for the target: over budget, by what its certified epsilon says; the gateway
does not offer it. Finished runs are kept in `--cache`.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.finetune.multipliers import calibrations
from benchmarks.finetune.tasks import glue
from core.accounting.pld import certified_epsilon
from core.finetune.inputs import Hyperparameters
from core.finetune.plan import PrivacyPlan, plan_training

EPSILON, DELTA = 8.0, 1e-5
PIECES_MAX = 40
NON_PRIVATE = "non-private"
CALIBRATIONS = (NON_PRIVATE, "rdp", "certified", "estimate")
_NEVER_CLIPPED, _NO_NOISE = 1e4, 1e-12
_RATES_WITHOUT_NOISE = {"lora": 2e-3, "rgp": 1e-4}  # the shipped ones are made for noise, and too high without it
_HEAD_RATE_WITHOUT_NOISE = 2e-3


@dataclass(frozen=True)
class Size:
    """Of every run."""

    rows: int
    batch: int
    steps: int

    def plan(self) -> PrivacyPlan:
        return plan_training(epsilon=EPSILON, delta=DELTA, rows=self.rows, batch=self.batch, steps=self.steps)


@dataclass(frozen=True)
class Run:
    """One training of the table."""

    size: Size
    task: str
    method: str
    calibration: str
    seed: int

    def kept_in(self, cache: Path) -> Path:
        size = self.size
        return cache / (
            f"{self.task}-{self.method}-{self.calibration}-{size.rows}-{size.batch}-{size.steps}-{self.seed}.json"
        )


class NoCheckpoint:
    def read(self) -> None:
        return None

    def write(self, state: bytes) -> None:
        pass


def noises(plan: PrivacyPlan) -> dict[str, float]:
    found = calibrations(EPSILON, DELTA, sampling_rate=plan.sampling_rate, steps=plan.steps)
    return {NON_PRIVATE: _NO_NOISE, "rdp": found.rdp, "certified": plan.noise_multiplier, "estimate": found.estimate}


def train_once(data: Path, cache: Path, run: Run) -> str:
    """Train and keep the accuracy on the development rows, measured once, at the end; a line to show."""
    file = run.kept_in(cache)
    if file.exists():
        return f"{file.stem}: kept"
    plan = run.size.plan()
    free: dict[str, Any] = {}
    if run.calibration == NON_PRIVATE:
        free = {
            "clip_norm": _NEVER_CLIPPED,
            "hyperparameters": Hyperparameters(learning_rate=_RATES_WITHOUT_NOISE.get(run.method)),
            "head_rate": _HEAD_RATE_WITHOUT_NOISE,
        }
    plan = replace(plan, noise_multiplier=noises(plan)[run.calibration])
    return trained(data, file, plan, task=run.task, method=run.method, seed=run.seed, **free)


def trained(data: Path, file: Path, plan: PrivacyPlan, *, task: str, method: str, seed: int, **free: Any) -> str:
    """Train by the plan and keep the accuracy in `file`; a line to show."""
    import torch

    from gpu_workers.finetune.classifier import Classifier, Rows, load_base, measure
    from gpu_workers.finetune.gradients import Method, prepare
    from gpu_workers.finetune.training import PrivateTraining

    torch.set_num_threads(1)
    device = torch.device("cpu")
    glued = glue(data, task, rows=plan.rows, seed=seed)
    torch.manual_seed(seed)  # of the adapters' start; batches and noise have no seed
    base = load_base(None, device=device, pieces_max=PIECES_MAX)
    model = Classifier(base, labels=len(glued.labels), pairs=glued.pairs)
    private, public = (
        Rows(base, split.texts, [glued.labels.index(label) for label in split.labels], device=device)
        for split in (glued.private, glued.public)
    )
    begun = time.process_time()
    training = PrivateTraining(model, prepare(model, Method(method)), plan, NoCheckpoint(), **free)
    training.run(private, None, lambda _: None)
    seconds = time.process_time() - begun
    accuracy = measure(model, public).accuracy
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"accuracy": accuracy, "seconds": seconds}))
    return f"{file.stem}: {accuracy:.4f} in {seconds:.0f} s of processor"


def train(
    data: Path, cache: Path, size: Size, *, tasks: list[str], methods: list[str], seeds: int, processes: int
) -> None:
    """All runs, seed by seed, so that a run that is cut short has compared what it has."""
    wanted = [
        Run(size, task, method, calibration, seed)
        for seed, task, method, calibration in product(range(seeds), tasks, methods, CALIBRATIONS)
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(train_once, data, cache, run) for run in wanted]:
            print(future.result(), flush=True)


def show(cache: Path, size: Size, *, tasks: list[str], methods: list[str], seeds: int) -> None:
    plan = size.plan()
    print(f"{size.rows} rows, batch {size.batch}, {size.steps} steps, epsilon {EPSILON:g}, delta {DELTA:g}")
    print("| noise by | multiplier | certified epsilon | " + " | ".join(f"{t}, {m}" for t in tasks for m in methods))
    print("|" + " --- |" * (3 + len(tasks) * len(methods)))
    for calibration, noise in noises(plan).items():
        if calibration == NON_PRIVATE:
            facts = "– | – "
        else:
            event = replace(plan, noise_multiplier=noise).event()
            facts = f"{noise:.4f} | {certified_epsilon(((event, plan.steps),), DELTA):.2f} "
        found = [
            _scores(cache, [Run(size, task, method, calibration, seed) for seed in range(seeds)])
            for task in tasks
            for method in methods
        ]
        print(f"| {calibration} | {facts}| " + " | ".join(_cell(scores) for scores in found) + " |")


def _scores(cache: Path, runs: list[Run]) -> list[float]:
    """Of the runs that were made."""
    files = [run.kept_in(cache) for run in runs]
    return [json.loads(file.read_text())["accuracy"] for file in files if file.exists()]


def _cell(scores: list[float]) -> str:
    """Mean and standard deviation over the seeds."""
    if not scores:
        return "–"
    spread = f" ± {np.std(scores, ddof=1):.3f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.3f}{spread} ({len(scores)})"
