"""A private fine-tuning from texts to a classifier: what a job or a benchmark calls.

Guarantee: as of `gpu_workers.finetune.training`, for one row of `private`. Public are the plan, the labels' names, the
`public` split, the limits, the encoder and the method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from core.errors import BadCorpus
from core.finetune.hyperparameters import Hyperparameters
from core.finetune.labels import checked_names, label_numbers
from core.finetune.plan import PrivacyPlan
from core.finetune.rows import Split
from gpu_workers.finetune.artifact import ClassifierInfo
from gpu_workers.finetune.base import Base, load_base
from gpu_workers.finetune.batches import Rows
from gpu_workers.finetune.classifier import Classifier
from gpu_workers.finetune.evaluation import Metrics
from gpu_workers.finetune.methods import Method, Trained, prepare
from gpu_workers.finetune.training import CLIP_NORM, PrivateTraining, Progress
from gpu_workers.training.loop import Checkpoint


@dataclass(frozen=True)
class Task:
    """`labels`: the declared names. `pairs`: a row is two texts."""

    labels: tuple[str, ...]
    pairs: bool
    method: Method = Method.LORA
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)


@dataclass(frozen=True)
class FineTuned:
    """`tensors`: what an artifact holds. `metrics`: on the public split, if there is one."""

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
    tell: Callable[[Progress], None],
    charge: Callable[[], None] = lambda: None,
) -> FineTuned:
    """Train by the plan, or go on from the checkpoint. `charge` returns once the plan is paid for: it is called when
    everything has been checked and loaded, right before the first private step.

    Raises: InvalidInput, BadCorpus (reasons `unknown-label`, `one-class`, `wrong-row`, `wrong-count`), before a step is
    made; ValueError for a checkpoint of another plan or a folder that holds no encoder.
    """
    names = checked_names(task.labels)
    numbers = _numbers(private, names, task)
    if len(numbers) != plan.rows:
        raise BadCorpus("The rows are not as many as declared.", reason="wrong-count", count=len(numbers))
    truth = _numbers(public, names, task) if public else []
    base = load_base(base_path, device=device, pieces_max=task.hyperparameters.pieces_max)
    model, trained = _prepared(base, task)
    training = PrivateTraining(model, trained, plan, checkpoint, rate=task.hyperparameters.learning_rate)
    rows = Rows(base, private.texts, numbers, device=device)
    shown = Rows(base, public.texts, truth, device=device) if public else None
    charge()
    metrics = training.run(rows, shown, tell)
    return FineTuned(_info(base, task, plan), dict(trained.optimised), metrics)


def _numbers(split: Split, names: tuple[str, ...], task: Task) -> list[int]:
    texts = 2 if task.pairs else 1
    if len(split.texts) != len(split.labels):
        raise BadCorpus("Not every row has a label.", reason="wrong-row", count=len(split.texts))
    for line, row in enumerate(split.texts, start=1):
        if len(row) != texts:
            raise BadCorpus(f"A row has {texts} texts.", reason="wrong-row", line=line)
    return label_numbers(names, split.labels)


def _prepared(base: Base, task: Task) -> tuple[Classifier, Trained]:
    model = Classifier(base, labels=len(task.labels), pairs=task.pairs)
    return model, prepare(model, task.method, rank=task.hyperparameters.rank)


def _info(base: Base, task: Task, plan: PrivacyPlan) -> ClassifierInfo:
    return ClassifierInfo(
        method=task.method.value,
        base=base.name,
        base_fingerprint=base.fingerprint,
        labels=task.labels,
        pairs=task.pairs,
        rank=0 if task.method is Method.FULL else task.hyperparameters.rank,
        pieces_max=task.hyperparameters.pieces_max,
        rows=plan.rows,
        batch=plan.batch,
        steps=plan.steps,
        clip_norm=CLIP_NORM,
        noise_multiplier=plan.noise_multiplier,
        epsilon=plan.certificate.epsilon,
        delta=plan.delta,
    )
