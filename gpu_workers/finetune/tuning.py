"""Private fine-tuning of a classifier on texts, as jobs and benchmarks call it.

Guarantee: that of `gpu_workers.finetune.training`, for one row of `private`. Public are the plan, the labels' names,
the `public` split, the limits, the encoder and the method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from core.finetune.inputs import Hyperparameters, Split
from core.finetune.plan import PrivacyPlan
from gpu_workers.finetune.artifact import ClassifierInfo
from gpu_workers.finetune.base import Base, load_base
from gpu_workers.finetune.batches import Rows
from gpu_workers.finetune.classifier import Classifier
from gpu_workers.finetune.companions import batch_pieces
from gpu_workers.finetune.evaluation import Metrics
from gpu_workers.finetune.methods import Method, Trained, prepare
from gpu_workers.finetune.training import CLIP_NORM, PrivateTraining, Progress
from gpu_workers.models.training_loop import Checkpoint


@dataclass(frozen=True)
class Task:
    """`labels`: the declared names, in the order of the logits. `pairs`: whether a row is two texts."""

    labels: tuple[str, ...]
    pairs: bool
    method: Method = Method.LORA
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)


@dataclass(frozen=True)
class FineTuned:
    """`tensors`: the contents of the artifact. `metrics`: on the public split, if there is one."""

    info: ClassifierInfo
    tensors: dict[str, torch.Tensor]
    metrics: Metrics | None


def fine_tune(
    private: Split,
    public: Split | None,
    task: Task,
    plan: PrivacyPlan,
    *,
    base_path: Path | None,
    device: torch.device,
    checkpoint: Checkpoint,
    report: Callable[[Progress], None],
    charge: Callable[[], None] = lambda: None,
) -> FineTuned:
    """Train by the plan, or resume from the checkpoint. `charge` returns once the plan is paid for. It is called after
    everything is loaded, right before the first private step.

    `private`, `public`: the result of `core.finetune.inputs.read_splits` for the task's labels and the plan's rows.

    Raises: InvalidInput for an encoder that cannot be trained in this way; ValueError for a checkpoint of another plan,
    a folder without an encoder, or another number of rows.
    """

    base = load_base(base_path, device=device, pieces_max=task.hyperparameters.pieces_max)
    model, trained = _prepared(base, task)
    training = PrivateTraining(
        model,
        trained,
        plan,
        checkpoint,
        hyperparameters=task.hyperparameters,
        batch_pieces=batch_pieces(model, trained, base, pairs=task.pairs),
    )
    rows = _rows(base, private, task, device)
    shown = _rows(base, public, task, device) if public else None
    charge()
    metrics = training.run(rows, shown, report)
    used = replace(
        task.hyperparameters,
        rank=0 if task.method is Method.FULL else task.hyperparameters.rank,
        learning_rate=training.rate,
    )
    return FineTuned(_info(base, task, plan, used), dict(trained.optimised), metrics)


def _rows(base: Base, split: Split, task: Task, device: torch.device) -> Rows:
    places = {name: place for place, name in enumerate(task.labels)}
    return Rows(base, split.texts, [places[label] for label in split.labels], device=device)


def _prepared(base: Base, task: Task) -> tuple[Classifier, Trained]:
    model = Classifier(base, labels=len(task.labels), pairs=task.pairs)
    return model, prepare(model, task.method, rank=task.hyperparameters.rank)


def _info(base: Base, task: Task, plan: PrivacyPlan, used: Hyperparameters) -> ClassifierInfo:
    return ClassifierInfo(
        method=task.method.value,
        base=base.name,
        base_fingerprint=base.fingerprint,
        labels=task.labels,
        pairs=task.pairs,
        hyperparameters=used,
        rows=plan.rows,
        batch=plan.batch,
        steps=plan.steps,
        clip_norm=CLIP_NORM,
        noise_multiplier=plan.noise_multiplier,
        epsilon=plan.certificate.epsilon,
        delta=plan.delta,
        sampling=plan.sampling.value,
    )
