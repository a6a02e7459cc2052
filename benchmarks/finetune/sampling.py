"""Random allocation beside Poisson sampling: the noise that each needs, what it is charged, and the accuracy.

`same epsilon`: both meet the target with their certified epsilon for add-remove, which is what a request states.
`same charge`: random allocation at the noise whose certified epsilon for replacing one row, which is what the account
is charged, is that of Poisson sampling. All arms make the same number of steps. Finished runs are kept in `--cache`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from benchmarks.finetune.accuracy import trained
from core.finetune.plan import PrivacyPlan, Sampling, epoch_steps, plan_training, replace_one_epsilon

DELTA = 1e-5
SHAPES = ((4_500, 150, 1), (4_500, 150, 3), (67_349, 1_000, 1), (67_349, 1_000, 3), (67_349, 1_000, 10))
TARGETS = (1.0, 8.0)
ARMS = ("Poisson", "same epsilon", "same charge")


def plans(epsilon: float, *, rows: int, batch: int, epochs: int) -> tuple[PrivacyPlan, ...]:
    """The plan of each arm."""
    steps = epochs * epoch_steps(rows=rows, batch=batch)
    poisson, allocated = (
        plan_training(epsilon=epsilon, delta=DELTA, rows=rows, batch=batch, steps=steps, sampling=sampling)
        for sampling in (Sampling.POISSON, Sampling.RANDOM_ALLOCATION)
    )
    charge = replace_one_epsilon(poisson)

    def gap(noise: float) -> float:
        return replace_one_epsilon(replace(allocated, noise_multiplier=noise)) - charge

    low, high = 0.8 * allocated.noise_multiplier, 1.3 * allocated.noise_multiplier
    noise = float(brentq(gap, low, high, xtol=1e-3))
    return poisson, allocated, replace(allocated, noise_multiplier=noise)


def show_noise() -> None:
    print("| rows, batch, epochs | epsilon | " + " | ".join(f"{arm}: noise, charge" for arm in ARMS) + " |")
    print("|" + " --- |" * (2 + len(ARMS)))
    for rows, batch, epochs in SHAPES:
        for epsilon in TARGETS:
            made = plans(epsilon, rows=rows, batch=batch, epochs=epochs)
            cells = [f"{plan.noise_multiplier:.4f}, {replace_one_epsilon(plan):.3f}" for plan in made]
            print(f"| {rows}, {batch}, {epochs} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


def show_accuracy(data: Path, cache: Path, *, tasks: list[str], seeds: int) -> None:
    """At the smallest shape, one epoch, where the arms differ most; LoRA."""
    rows, batch, epochs = SHAPES[0]
    print(f"{rows} rows, batch {batch}, {epochs} epoch\n| task | epsilon | {' | '.join(ARMS)} |\n|" + " --- |" * 5)
    for task in tasks:
        for epsilon in TARGETS:
            made = plans(epsilon, rows=rows, batch=batch, epochs=epochs)
            scores: dict[str, list[float]] = {arm: [] for arm in ARMS}
            for seed in range(seeds):
                for arm, plan in zip(ARMS, made, strict=True):
                    file = cache / f"sampling-{task}-{arm.replace(' ', '-')}-{epsilon:g}-{seed}.json"
                    if not file.exists():
                        trained(data, file, plan, task=task, method="lora", seed=seed)
                    scores[arm].append(json.loads(file.read_text())["accuracy"])
            cells = [f"{np.mean(found):.3f} ± {np.std(found, ddof=min(1, seeds - 1)):.3f}" for found in scores.values()]
            print(f"| {task} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)
