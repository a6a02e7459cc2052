"""The model card of a privately fine-tuned classifier: its certificate, and the epsilon of every accountant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from core.accounting.plans import Kind, Line
from core.finetune.plan import Sampling, epoch_steps
from gpu_workers.finetune.artifact import ClassifierInfo
from gpu_workers.finetune.evaluation import Metrics
from gpu_workers.jobs.card import cell


def classifier_card(
    name: str, info: ClassifierInfo, lines: Sequence[Line], *, replace_one: float, metrics: Metrics | None
) -> str:
    """Markdown. `lines`: `core.finetune.plan.by_every_accountant`; `replace_one`: epsilon of that adjacency."""
    scores = (
        [f"| accuracy, macro-F1 on {metrics.rows} public rows | {metrics.accuracy:.4f}, {metrics.macro_f1:.4f} |"]
        if metrics
        else []
    )
    return "\n".join(
        [
            f"# Classifier `{name}`",
            "",
            f"Fine-tuned under differential privacy: **({up(info.epsilon)}, {info.delta:g})-DP** for one row of the",
            "training data, where neighbours differ by one row more or less (add-remove). The certificate is a bound",
            "by privacy loss distributions for the whole run. It covers these weights and everything reported during",
            "training. Where neighbours differ in the value of one row, the same run is",
            f"({up(replace_one)}, {info.delta:g})-DP.",
            "",
            "| | |",
            "| --- | --- |",
            f"| method | {info.method} |",
            *(f"| {name.replace('_', ' ')} | {value:g} |" for name, value in asdict(info.hyperparameters).items()),
            f"| encoder | {cell(info.base)} (`{info.base_fingerprint}`) |",
            f"| labels | {cell(', '.join(info.labels))} |",
            f"| texts a row | {2 if info.pairs else 1} |",
            f"| rows, as declared (public) | {info.rows} |",
            f"| steps | {info.steps}, {_sampling(info)} |",
            f"| clipping norm | {info.clip_norm:g} |",
            f"| noise multiplier | {info.noise_multiplier:.6g} |",
            *scores,
            "",
            "## Epsilon by every accountant",
            "",
            f"Values for this run at delta {info.delta:g}. An estimate may be below the true value. It was not used to",
            "set the noise and is no guarantee.",
            "",
            "| accountant | claims | epsilon |",
            "| --- | --- | --- |",
            *(_row(line) for line in lines),
            "",
            "## What is not covered",
            "",
            "The number of rows, the labels' names and the public split count as public. One row is the unit: a person",
            "with several rows is protected for one of them. Gaussian noise is assumed to use real arithmetic.",
            "",
        ]
    )


def _sampling(info: ClassifierInfo) -> str:
    if info.sampling == Sampling.POISSON:
        return f"Poisson sampled, {info.batch} rows expected in each"
    epoch = epoch_steps(rows=info.rows, batch=info.batch)
    return f"random allocation: each row in one of the {epoch} steps of each epoch"


def up(epsilon: float) -> str:
    """Round up to four decimals."""
    return f"{math.ceil(epsilon * 1e4 - 1e-9) / 1e4:.4f}"


def _row(line: Line) -> str:
    name = line.name if line.order is None else f"{line.name}, order {line.order}"
    certificate = " (the certificate)" if line.name == "pld" else ""
    claims = {Kind.BOUND: "bound", Kind.ESTIMATE: "estimate"}.get(line.result.kind, "nothing")
    value = "–" if line.result.value is None else up(line.result.value)
    return f"| {name}{certificate} | {claims} | {value} |"
