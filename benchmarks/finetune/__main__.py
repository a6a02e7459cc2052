"""Private fine-tuning: the noise of Table I of EW-Tune, and accuracy by how the noise was chosen.

    python -m benchmarks.finetune --data DATA [--parts multipliers epsilons paper noise accuracy sampling uneven]

multipliers: the noise multipliers of Table I (Behnia et al. 2022), ours beside the printed ones, at epsilon 8 and delta
1e-6 over 20 epochs at an expected batch of 2000; SST-2 with 68,800 rows, which explains what is printed. *Costs* is the
certified epsilon at the multiplier before it. *Classic*: epsilon of the printed RDP multiplier by the conversion of
Mironov 2017. *Interval*: of the Edgeworth accountant. Then both samplings, as in `noise`.

epsilons: Fig. 2, the noise for epsilon 5 to 8; `--figure` draws it.

paper: SST-2 with all of its rows at that plan, method `head`; the features of the frozen encoder are computed once.

accuracy: GLUE subsets. `non-private` is the same loop without clipping and without noise, at rates of its own.
`estimate` trains at the multiplier that the order-1 estimate gives for the target: over budget, by what its certified
epsilon says; the gateway does not offer it.

noise, sampling: random allocation beside Poisson sampling, in plans of as many steps. `same epsilon`: both meet the
target with their certified epsilon for add-remove, which is what a request states. `same charge`: random allocation at
the noise whose certified epsilon for replacing one row, which is what the account is charged, is that of Poisson
sampling. Finished trainings are kept in `--cache`.

uneven: macro-F1 of `head` on a balanced public split, with 1,000 private rows of which 50 have the rare label.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from benchmarks.accounting import EWTUNE
from benchmarks.finetune.training import (
    TASKS,
    UNEVEN,
    UNEVEN_ROWS,
    NoCheckpoint,
    Run,
    accuracy,
    glue,
    head_accuracies,
    train,
    uneven,
)
from benchmarks.kit import Cell, Row, Table, arguments, draw, head, row
from core.accounting.additive import ORDERS, RdpAccountant
from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.planning import calibrate_noise, estimated_noise
from core.accounting.plans import SubsampledGaussian
from core.accounting.pld import certified_epsilon
from core.finetune.inputs import Hyperparameters
from core.finetune.plan import PrivacyPlan, Sampling, epoch_steps, plan_training, replace_one_epsilon

EPSILON, DELTA = 8.0, 1e-5
BATCH, EPOCHS, PAPER_DELTA = 2_000, 20, 1e-6
PRINTED = {
    "MNLI": (0.65, 0.607, 0.573),
    "QNLI": (0.829, 0.768, 0.739),
    "QQP": (0.6575, 0.6135, 0.579),
    "SST-2": (0.921, 0.8485, 0.8215),
}
ACCURACIES = {  # of the paper, in the order of `PRINTED`
    "rdp": (0.8125, 0.8663, 0.8460, 0.8924),
    "certified": (0.8122, 0.8679, 0.8478, 0.9182),
    "estimate": (0.8181, 0.8771, 0.8491, 0.9219),
}
FIGURE_2 = (5, 6, 7, 8)
LINES = {
    "RDP": "#7f8c8d o-",
    "certificate": "#2c3e50 s-",
    "random allocation, certified": "#27ae60 ^-",
    "estimate, over budget (but SST-2 at 5)": "#c0392b x--",
}
NON_PRIVATE = "non-private"
_NEVER_CLIPPED, _NO_NOISE = 1e4, 1e-12
_RATES_WITHOUT_NOISE = {"lora": 2e-3, "rgp": 1e-4}  # the shipped ones are made for noise, and too high without it
_HEAD_RATE_WITHOUT_NOISE = 2e-3
SHAPES = ((4_500, 150, 1, 8.0), (67_349, 1_000, 1, 1.0), (67_349, 1_000, 10, 8.0))
TARGETS = (1.0, 8.0)
ARMS = ("Poisson", "same epsilon", "same charge")


@dataclass(frozen=True)
class Calibrations:
    """Noise multipliers for one target: by the Renyi bound, certified, and by the order-1 estimate."""

    rdp: float
    certified: float
    estimate: float

    @classmethod
    def of(cls, delta: float, *, sampling_rate: float, steps: int, epsilon: float = EPSILON) -> Calibrations:
        def gap(noise: float) -> float:
            account = RdpAccountant().compose(SubsampledGaussian(sampling_rate, noise), steps)
            return account.epsilon(delta).require() - epsilon

        certified = calibrate_noise(epsilon, delta, sampling_rate=sampling_rate, steps=steps).noise_multiplier
        estimate = estimated_noise(epsilon, delta, sampling_rate=sampling_rate, steps=steps)
        return cls(float(brentq(gap, certified * 0.95, certified * 4, xtol=1e-5)), certified, estimate)


def multipliers() -> None:
    head("task", "", "RDP", "PRV / certified", "Edgeworth, order 1", "random allocation", "classic", "interval")
    for name, rate, steps in EWTUNE:
        ours = Calibrations.of(PAPER_DELTA, sampling_rate=rate, steps=steps)
        plan = _paper_plan(EPSILON, rows=round(BATCH / rate), sampling=Sampling.RANDOM_ALLOCATION)
        allocated = f"{plan.noise_multiplier:.4f}, costs {plan.certificate.epsilon:.3f}"
        for label, noises in (("printed", PRINTED[name]), ("ours", (ours.rdp, ours.certified, ours.estimate))):
            events = [SubsampledGaussian(rate, noise) for noise in noises]
            costs = [certified_epsilon(((event, steps),), PAPER_DELTA) for event in events]
            cells = [f"{noise:.4f}, costs {cost:.3f}" for noise, cost in zip(noises, costs, strict=True)]
            interval = EdgeworthAccountant(order=1).compose(events[-1], steps).epsilon(PAPER_DELTA).interval
            found = "–" if interval is None else f"{interval.kind}: {interval.note}"
            classic = f"{classic_epsilon(events[0], steps, PAPER_DELTA):.3f}"
            row(name, label, *cells, allocated if label == "ours" else "–", classic, found)
    print()
    head("task", *(f"{arm}: noise, charge" for arm in ARMS))
    for name, rate, _ in EWTUNE:
        row(name, *_arms(plans(EPSILON, PAPER_DELTA, rows=round(BATCH / rate), batch=BATCH, epochs=EPOCHS)))


def classic_epsilon(event: SubsampledGaussian, steps: int, delta: float) -> float:
    """Epsilon by Mironov 2017, Proposition 3: the least rho(alpha) + ln(1 / delta) / (alpha - 1)."""
    account = RdpAccountant().compose(event, steps)
    return float(np.min(account._rho + np.log(1 / delta) / (ORDERS - 1)))


def _paper_plan(epsilon: float, *, rows: int, sampling: Sampling = Sampling.POISSON) -> PrivacyPlan:
    steps = EPOCHS * epoch_steps(rows=rows, batch=BATCH)
    return plan_training(epsilon=epsilon, delta=PAPER_DELTA, rows=rows, batch=BATCH, steps=steps, sampling=sampling)


def by_epsilon(chosen: argparse.Namespace) -> None:
    tables = {name: Table(name, FIGURE_2, rows={line: Row("", []) for line in LINES}) for name, *_ in EWTUNE}
    head("task, epsilon", "RDP", "certificate", "random allocation", "estimate, costs")
    for (name, rate, steps), epsilon in product(EWTUNE, FIGURE_2):
        ours = Calibrations.of(PAPER_DELTA, sampling_rate=rate, steps=steps, epsilon=epsilon)
        plan = _paper_plan(epsilon, rows=round(BATCH / rate), sampling=Sampling.RANDOM_ALLOCATION)
        cost = certified_epsilon(((SubsampledGaussian(rate, ours.estimate), steps),), PAPER_DELTA)
        noises = (ours.rdp, ours.certified, plan.noise_multiplier, ours.estimate)
        row(f"{name}, {epsilon:g}", *(f"{noise:.4f}" for noise in noises[:-1]), f"{ours.estimate:.4f}, {cost:.3f}")
        for line, noise in zip(tables[name].rows.values(), noises, strict=True):
            line.cells.append(Cell(noise))
    if chosen.figure:
        draw(tables, chosen.figure, LINES, xlabel="epsilon, delta 1e-6", ylabel="noise multiplier")


def at_the_papers_plan(chosen: argparse.Namespace) -> None:
    """`head` on all rows of SST-2, by what set the noise."""
    task = glue(chosen.data, "sst2", rows=None, seed=0)
    rows = len(task.private.texts)
    plan, allocated = (_paper_plan(EPSILON, rows=rows, sampling=sampling) for sampling in Sampling)
    found = Calibrations.of(PAPER_DELTA, sampling_rate=plan.sampling_rate, steps=plan.steps)
    made = {
        NON_PRIVATE: replace(plan, noise_multiplier=_NO_NOISE),
        "rdp": replace(plan, noise_multiplier=found.rdp),
        "certified": plan,
        "estimate": replace(plan, noise_multiplier=found.estimate),
        "random allocation": allocated,
    }
    print(
        f"SST-2, {rows} rows, batch {BATCH}, {plan.steps} steps, delta {PAPER_DELTA:g}, `head`, {chosen.seeds} runs\n"
    )
    head("noise by", "multiplier", "certified epsilon", "charge", "accuracy", *(f"paper: {name}" for name in PRINTED))
    accuracies = head_accuracies(
        task, made, chosen.seeds, {NON_PRIVATE: {"clip_norm": _NEVER_CLIPPED, "head_rate": _HEAD_RATE_WITHOUT_NOISE}}
    )
    for name, each in made.items():
        cost = certified_epsilon(((each.event(), each.releases),), PAPER_DELTA) if name != NON_PRIVATE else None
        facts = (f"{each.noise_multiplier:.4f}", f"{cost:.3f}", f"{replace_one_epsilon(each):.3f}") if cost else "–––"
        paper = (f"{value:.4f}" for value in ACCURACIES[name]) if name in ACCURACIES else "––––"
        row(name, *facts, Cell.of(accuracies[name]), *paper)


def by_calibration(chosen: argparse.Namespace) -> None:
    plan = plan_training(epsilon=EPSILON, delta=DELTA, rows=chosen.rows, batch=chosen.batch, steps=chosen.steps)
    found = Calibrations.of(DELTA, sampling_rate=plan.sampling_rate, steps=plan.steps)
    noises = {"rdp": found.rdp, "certified": plan.noise_multiplier, "estimate": found.estimate}
    cells: dict[str, list[list[Run]]] = {}
    for name, noise in {NON_PRIVATE: _NO_NOISE, **noises}.items():
        cells[name] = []
        for task, method in product(chosen.tasks, chosen.methods):
            without = {
                "clip_norm": _NEVER_CLIPPED,
                "hyperparameters": Hyperparameters(learning_rate=_RATES_WITHOUT_NOISE.get(method)),
                "head_rate": _HEAD_RATE_WITHOUT_NOISE,
            }
            size = f"{chosen.rows}-{chosen.batch}-{chosen.steps}"
            files = [chosen.cache / f"{task}-{method}-{name}-{size}-{seed}.json" for seed in range(chosen.seeds)]
            own, free = replace(plan, noise_multiplier=noise), without if name == NON_PRIVATE else {}
            cells[name].append([Run(file, own, task, method, seed, free) for seed, file in enumerate(files)])
    train(chosen.data, [run for rows in cells.values() for runs in rows for run in runs], chosen.processes)
    print(f"{chosen.rows} rows, batch {chosen.batch}, {chosen.steps} steps, epsilon {EPSILON:g}, delta {DELTA:g}\n")
    columns = (f"{task}, {method}" for task, method in product(chosen.tasks, chosen.methods))
    head("noise by", "multiplier", "certified epsilon", *columns)
    for name, rows in cells.items():
        event = rows[0][0].plan.event()
        cost = "–" if name == NON_PRIVATE else f"{certified_epsilon(((event, plan.steps),), DELTA):.2f}"
        row(name, f"{noises[name]:.4f}" if name in noises else "–", cost, *map(accuracy, rows))


def plans(epsilon: float, delta: float, *, rows: int, batch: int, epochs: int) -> tuple[PrivacyPlan, ...]:
    """The plan of each arm."""
    steps = epochs * epoch_steps(rows=rows, batch=batch)
    poisson, allocated = (
        plan_training(epsilon=epsilon, delta=delta, rows=rows, batch=batch, steps=steps, sampling=sampling)
        for sampling in Sampling
    )
    charge = replace_one_epsilon(poisson)

    def gap(noise: float) -> float:
        return replace_one_epsilon(replace(allocated, noise_multiplier=noise)) - charge

    low, high = 0.8 * allocated.noise_multiplier, 1.3 * allocated.noise_multiplier
    noise = float(brentq(gap, low, high, xtol=1e-3))
    return poisson, allocated, replace(allocated, noise_multiplier=noise)


def _arms(made: tuple[PrivacyPlan, ...]) -> list[str]:
    return [f"{plan.noise_multiplier:.4f}, {replace_one_epsilon(plan):.3f}" for plan in made]


def noise_by_sampling() -> None:
    head("rows, batch, epochs", "epsilon", *(f"{arm}: noise, charge" for arm in ARMS))
    for rows, batch, epochs, epsilon in SHAPES:
        made = plans(epsilon, DELTA, rows=rows, batch=batch, epochs=epochs)
        row(f"{rows}, {batch}, {epochs}", f"{epsilon:g}", *_arms(made))


def accuracy_by_sampling(chosen: argparse.Namespace) -> None:
    """At the smallest shape, one epoch, where the arms differ most; LoRA on the first task."""
    rows, batch, epochs, _ = SHAPES[0]
    task, table = chosen.tasks[0], {}
    for epsilon in TARGETS:
        made = dict(zip(ARMS, plans(epsilon, DELTA, rows=rows, batch=batch, epochs=epochs), strict=True))
        table[epsilon] = [
            [
                Run(
                    chosen.cache / f"sampling-{task}-{arm.replace(' ', '-')}-{epsilon:g}-{seed}.json",
                    plan,
                    task,
                    "lora",
                    seed,
                )
                for seed in range(chosen.seeds)
            ]
            for arm, plan in made.items()
        ]
    train(chosen.data, [run for arms in table.values() for runs in arms for run in runs], chosen.processes)
    print(f"{task}, {rows} rows, batch {batch}, {epochs} epoch\n")
    head("epsilon", *ARMS)
    for epsilon, arms in table.items():
        row(f"{epsilon:g}", *map(accuracy, arms))


def uneven_classes(chosen: argparse.Namespace) -> None:
    import torch

    from gpu_workers.finetune.gradients import Method
    from gpu_workers.finetune.training import Task, fine_tune

    torch.set_num_threads(1)
    rows, task = UNEVEN_ROWS, Task(labels=("other", "rare"), pairs=False, method=Method.HEAD)
    plan = plan_training(epsilon=EPSILON, delta=0.1 / rows, rows=rows, batch=rows // 4, steps=20, counted=True)
    print(f"{rows} rows, epsilon {EPSILON:g}, delta {plan.delta:g}, charge {replace_one_epsilon(plan):.1f}\n")
    head("rare label of", "macro-F1", "least")
    for name in UNEVEN:
        found = []
        for seed in range(chosen.seeds):
            private, public = uneven(chosen.data, name, seed=seed)
            made = fine_tune(
                private,
                public,
                task,
                plan,
                base_path=None,
                device=torch.device("cpu"),
                checkpoint=NoCheckpoint(),
                report=lambda _: None,
            )
            found.append(0.0 if made.metrics is None else made.metrics.macro_f1)
        row(name, f"{Cell.of(found)}", f"{min(found):.3f}")


def main() -> None:
    chosen = arguments(
        __doc__,
        needs_data=True,
        parts=["multipliers", "epsilons", "paper", "noise", "accuracy", "sampling", "uneven"],
        tasks=list(TASKS),
        methods=["lora", "rgp"],
        seeds=3,
        rows=4_500,
        batch=150,
        steps=20,
        processes=(2, "of one thread each"),
        cache=Path.home() / ".cache/privacy-gateway/finetune",
        figure=(Path, "file of the SVG of `epsilons`"),
    )
    for name, part in {
        "multipliers": multipliers,
        "epsilons": lambda: by_epsilon(chosen),
        "paper": lambda: at_the_papers_plan(chosen),
        "noise": noise_by_sampling,
        "accuracy": lambda: by_calibration(chosen),
        "sampling": lambda: accuracy_by_sampling(chosen),
        "uneven": lambda: uneven_classes(chosen),
    }.items():
        if name in chosen.parts:
            part()


if __name__ == "__main__":
    main()
