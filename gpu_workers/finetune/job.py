"""The fine-tuning job: train a classifier on labelled private texts under differential privacy.

    read and check -> load the encoder -> charge -> train with encrypted checkpoints -> write the file and its card

Guarantee: that of `gpu_workers.finetune.training`, for the plan that the ledger was charged for. No private step runs
before the charge. A later attempt requests the charge again, learns that it is already spent, and resumes from the last
encrypted checkpoint, so that the number of steps equals that of the plan. The job reports steps and metrics on the
public split, only for steps in a checkpoint that is on disk. Texts exist only in the job's encrypted folder and in the
memory of this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from safetensors import SafetensorError

from core.amounts import epsilon_of
from core.errors import InvalidInput, JobFailed
from core.finetune.inputs import RowTerms, Split, read_splits
from gpu_workers.finetune.spec import FinetuneSpec
from gpu_workers.jobs import corpus
from gpu_workers.jobs.protocol import Charge, EncryptedCheckpoint, JobOrder, ReportProgress, publish

if (
    TYPE_CHECKING
):  # rows are checked before the training code is imported, so an invalid row is reported within a second
    from gpu_workers.finetune.training import FineTuned, Progress

_TRAINED_FROM, _TRAINED_SHARE = 0.05, 0.9


def run(order: JobOrder, report: ReportProgress, charge: Charge) -> dict[str, Any]:
    """Write the classifier's file and its card. Returns its guarantee and its scores. Raises JobFailed."""
    spec: FinetuneSpec = order.spec
    private, public = _splits(order, report)
    made = _trained(order, private, public, report, charge)

    from core.finetune.plan import by_every_accountant
    from gpu_workers.finetune.artifact import classifier_card, save_classifier

    report("writing", _TRAINED_FROM + _TRAINED_SHARE)
    lines = by_every_accountant(spec.budget.plan)
    replaced = epsilon_of(spec.budget.epsilon_nano)
    card = classifier_card(spec.name, made.info, lines, replace_one=replaced, metrics=made.metrics)
    info = replace(made.info, model=spec.model)
    publish(partial(save_classifier, info=info, tensors=made.tensors), card, spec.targets)
    accountants = [
        {"name": line.name, "order": line.order, "kind": line.result.kind.value, "epsilon": line.result.value}
        for line in lines
    ]
    return _result(spec, made) | {"accountants": accountants}


def _splits(order: JobOrder, report: ReportProgress) -> tuple[Split, Split | None]:
    spec: FinetuneSpec = order.spec
    report("reading", 0.0)
    terms = RowTerms(
        labels=spec.labels,
        pairs=spec.pairs,
        rows=spec.budget.plan.rows,
        public_rows_max=spec.public_rows_max,
        text_chars_max=spec.text_chars_max,
    )
    return read_splits(_rows(order), terms)


def _trained(
    order: JobOrder, private: Split, public: Split | None, report: ReportProgress, charge: Charge
) -> FineTuned:
    spec: FinetuneSpec = order.spec
    report("loading", 0.02)

    from gpu_workers.finetune.gradients import Method
    from gpu_workers.finetune.training import Diverged, Task, fine_tune
    from gpu_workers.models.device import torch_device

    loaded = False

    def charged() -> None:
        nonlocal loaded
        loaded = True
        report("charging", 0.04)
        charge()
        report("training", _TRAINED_FROM)

    train = partial(
        fine_tune,
        private,
        public,
        Task(labels=spec.labels, pairs=spec.pairs, method=Method(spec.method), hyperparameters=spec.hyperparameters),
        spec.budget.plan,
        base_path=Path(spec.model_path) if spec.model_path else None,
        device=torch_device(spec.device, spec.threads),
        checkpoint=EncryptedCheckpoint(order, "training"),
        report=partial(_report, report),
        charge=charged,
    )
    try:
        return train()
    except Diverged:
        said = "The weights have grown beyond all use: lower learning_rate. The run was charged."
        raise JobFailed(said, reason="diverged") from None
    except InvalidInput as error:
        raise JobFailed(error.detail, reason="unusable-model") from None
    except (ValueError, OSError, SafetensorError):
        if loaded:
            raise
        raise JobFailed("The encoder cannot be loaded.", reason="unusable-model") from None


def _rows(order: JobOrder) -> Iterator[tuple[int, Any]]:
    for number, line in corpus.corpus_lines(order.received()):
        try:
            yield number, orjson.loads(line)
        except orjson.JSONDecodeError:
            yield number, corpus.unreadable(line, number)


def _report(report: ReportProgress, progress: Progress) -> None:
    """Report the public progress of the training, never a loss, a norm, a number of private rows or a time."""
    metrics: dict[str, float] = {"step": progress.step, "steps": progress.steps}
    if progress.metrics is not None:
        metrics |= {f"public_{name}": value for name, value in asdict(progress.metrics).items()}
    report("training", _TRAINED_FROM + _TRAINED_SHARE * progress.step / progress.steps, metrics)


def _result(spec: FinetuneSpec, made: FineTuned) -> dict[str, Any]:
    info = made.info
    return {
        "name": spec.name,
        "method": info.method,
        **asdict(info.hyperparameters),
        "model": spec.model,
        "encoder_fingerprint": info.base_fingerprint,
        "labels": len(info.labels),
        "pairs": info.pairs,
        "rows": info.rows,
        "batch": info.batch,
        "steps": info.steps,
        "sampling": info.sampling,
        "clip_norm": info.clip_norm,
        "noise_multiplier": info.noise_multiplier,
        "metrics": None if made.metrics is None else asdict(made.metrics),
        "warnings": [{"code": "one-label"}] if made.metrics is not None and made.metrics.labels_given == 1 else [],
        "privacy": spec.budget.event.privacy_block(),
        "certificate": {"adjacency": "add-remove", "epsilon": info.epsilon, "delta": info.delta},
    }
