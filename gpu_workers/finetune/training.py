"""Private fine-tuning of a classifier on texts, as jobs and benchmarks call it: `fine_tune` and the training loop.

Guarantee: the reported progress and the final weights are a function of the releases of at most `plan.steps` steps of
the plan and of public data: (plan.certificate.epsilon, delta)-DP for one row of `private`, add-remove. Public are the
plan, the labels' names, the `public` split, the limits, the encoder and the method.

The loop can be stopped at any moment and resumes from its last checkpoint. Nothing that depends on a step's release
leaves the process before a checkpoint that holds it is on disk. Steps after the last checkpoint are lost with the
process. The resumed training repeats them with fresh noise, and nothing that left the process depends on their first
releases. So there is one release for each step, and as many steps as the plan has. Batches of Poisson sampling are also
drawn again. With random allocation, a checkpoint in the middle of an epoch holds the steps of the rows, so that each
row is in one step of the epoch. An epoch is allocated again only if none of its steps is in a checkpoint.

The loop reports, at fixed steps: the finished steps, and metrics on the caller's public rows. It never reports a loss
of private rows, the norm of a gradient, the size of a batch, or a time: a step takes longer the longer the rows of its
batch are. When a report is made is not covered (docs/KNOWN_LIMITATIONS.md).

Counts of the labels, where the plan pays for them, are released once before the first step, and a checkpoint holds them
with the first step. They are drawn again only if no checkpoint holds a step that used them.

Before a training, `batch_pieces` checks on the device whether a row's gradient depends on the other rows of its
physical batch. The sensitivity of a clipped sum (`gpu_workers.finetune.gradients`) assumes that a row's gradient is a
function of that row. Products of float32 matrices may round differently for another number of rows and, on some
processors, at another position in a batch. All physical batches of one row length have the same number of rows, except
the last one. If the position does not matter, one row more or less therefore changes the gradients of at most one
physical batch of each length that it adds or removes. If the position matters, it would change those of all later
batches. `batch_pieces` tests the position with generated rows at public lengths, bitwise. A device that fails gets
batches of one row, which are slower but independent of other rows by construction.
"""

import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.finetune.inputs import BALANCED, Hyperparameters, Split
from core.finetune.plan import PrivacyPlan, Sampling
from core.finetune.sampling import label_weights, noisy_counts, poisson_batch, random_allocation
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.vectors.release import FloatArray
from gpu_workers.finetune.artifact import ClassifierInfo
from gpu_workers.finetune.classifier import (
    Base,
    Batch,
    Classifier,
    FrozenRows,
    Metrics,
    Part,
    Rows,
    load_base,
    measure,
    public_axes,
)
from gpu_workers.finetune.gradients import Head, Method, PrivateGradient, Trained, prepare
from gpu_workers.models.training_loop import Checkpoint, Schedule

HEAD_RATE = 1e-2  # the head starts at zero and needs a high rate with every method
AXES_ROWS = 3_000  # as declared; with fewer, a head on public axes loses less than it saves of noise
BATCH_PIECES = 512  # word pieces of a physical batch
_WEIGHT_MAX = 1e6
_CHECKPOINTS = 20
_MEASUREMENTS = 5


@dataclass(frozen=True)
class Progress:
    """`metrics` are present only at some steps."""

    step: int
    steps: int
    metrics: Metrics | None


ReportProgress = Callable[[Progress], None]


class Diverged(Exception):
    """A weight is not finite, or beyond all use. Weights are a function of releases: this is post-processing."""


class PrivateTraining:
    """A model in a method's form, Adam on noisy gradients, and the number of finished steps."""

    def __init__(
        self,
        model: Classifier,
        trained: Trained,
        plan: PrivacyPlan,
        checkpoint: Checkpoint,
        *,
        hyperparameters: Hyperparameters = Hyperparameters(),  # noqa: B008 - frozen
        head_rate: float = HEAD_RATE,
        clip_norm: float | None = None,
        batch_pieces: int = BATCH_PIECES,
    ) -> None:
        """`head_rate`: of Adam for the head. `clip_norm`: of a row's gradient, by default that of the method; the noise
        is proportional to it, so the guarantee does not change. `batch_pieces` bounds the memory, and nothing else.

        Resumes from the checkpoint, if there is one.

        Raises: ValueError for a checkpoint of another plan or model.
        """
        self.step = 0
        self._allocation: IntArray | None = None  # for random allocation: each row's step in the epoch
        self._model, self._trained, self._plan, self._checkpoint = model, trained, plan, checkpoint
        self._clip_norm, self._batch_pieces = clip_norm or trained.clip_norm, batch_pieces
        self._sizes: FloatArray | None = None  # of the labels: declared shares or noisy counts, where they are needed
        if hyperparameters.class_weights == BALANCED and hyperparameters.class_shares is not None:
            self._sizes = np.array(hyperparameters.class_shares)
        self.rate = hyperparameters.learning_rate or trained.rate
        self._schedule = Schedule(steps=plan.steps, rate=self.rate, warmup=max(1, plan.steps // 10))
        groups = _groups(trained, self.rate, head_rate if trained.is_adaptive else self.rate)
        decay = hyperparameters.weight_decay
        self._optimiser: torch.optim.Optimizer = (
            torch.optim.AdamW(groups, weight_decay=decay)
            if trained.is_adaptive
            else torch.optim.SGD(groups, weight_decay=decay)
        )
        self._gradient = PrivateGradient(
            model,
            trained.own,
            clip_norm=self._clip_norm,
            noise_multiplier=plan.noise_multiplier,
            expected_batch=plan.batch,
        )
        state = checkpoint.read()
        if state is not None:
            self._restore(state)

    def run(self, rows: Rows, public: Rows | None, report: ReportProgress) -> Metrics | None:
        """Train to the end of the plan. Returns the metrics on the `public` rows, if there are any.

        `rows`: as many as the plan declares.

        Raises: ValueError for another number; Diverged.
        """
        if len(rows) != self._plan.rows:
            raise ValueError("the number of rows differs from the one that the plan declares")
        if self._plan.counts_epsilon_nano and self._sizes is None:
            counts = noisy_counts(
                rows.labels.numpy(), count=self._model.head.out_features, epsilon_nano=self._plan.counts_epsilon_nano
            )
            self._sizes = counts.astype(np.float64)
        if self._sizes is not None:
            weights = label_weights(self._sizes)
            positive = np.maximum(self._sizes, 0.0)
            mean = float(weights @ positive / positive.sum()) if positive.any() else 1.0
            self._gradient.weigh(torch.from_numpy(weights), mean)
        while self.step < self._plan.steps:
            self._one_step(rows)
            if self._due(_CHECKPOINTS):
                if not all(bool((tensor.abs() <= _WEIGHT_MAX).all()) for tensor in self._trained.optimised.values()):
                    raise Diverged
                self._save()
                metrics = measure(self._model, public) if public and self._due(_MEASUREMENTS) else None
                report(Progress(self.step, self._plan.steps, metrics))
        self._gradient.close()
        return measure(self._model, public) if public else None

    def _one_step(self, rows: Rows) -> None:
        self._trained.begin(self.step)
        batches = (batch for _, batch in rows.batches(self._batch(), pieces_max=self._batch_pieces))
        released = self._trained.gradients(self._gradient.step(batches))
        for name, parameter in self._trained.optimised.items():
            parameter.grad = released[name]
        for group in self._optimiser.param_groups:
            group["lr"] = group["rate"] * self._schedule.factor(self.step)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self.step += 1

    def _batch(self) -> IntArray:
        """Return the rows of this step."""
        plan = self._plan
        if plan.sampling is Sampling.POISSON:
            return poisson_batch(rows=plan.rows, batch=plan.batch)
        place = self.step % plan.epoch_steps
        if place == 0:
            self._allocation = random_allocation(rows=plan.rows, steps=plan.epoch_steps)
        if self._allocation is None:
            raise RuntimeError("an epoch has begun without an allocation")
        return np.flatnonzero(self._allocation == place)

    def _due(self, times: int) -> bool:
        """Whether this is one of about `times` evenly spread steps, or the last step."""
        every = -(-self._plan.steps // times)
        return self.step % every == 0 or self.step == self._plan.steps

    def _facts(self) -> dict[str, Any]:
        """The facts that a checkpoint must match: the accounted plan."""
        plan = self._plan
        return {
            "rows": plan.rows,
            "batch": plan.batch,
            "steps": plan.steps,
            "noise_multiplier": plan.noise_multiplier,
            "clip_norm": self._clip_norm,
            "sampling": plan.sampling.value,
            **({"counts_epsilon_nano": plan.counts_epsilon_nano} if plan.counts_epsilon_nano else {}),
            **asdict(plan.certificate),
        }

    def _save(self) -> None:
        state = {
            "plan": self._facts(),
            "step": self.step,
            "parameters": {name: tensor.detach() for name, tensor in self._trained.optimised.items()},
            "optimiser": self._optimiser.state_dict(),
        }
        if self._plan.counts_epsilon_nano and self._sizes is not None:
            state["counts"] = torch.from_numpy(self._sizes)
        if self._allocation is not None and self.step % self._plan.epoch_steps:
            state["allocation"] = torch.from_numpy(self._allocation)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        self._checkpoint.write(buffer.getvalue())

    @torch.no_grad()
    def _restore(self, saved: bytes) -> None:
        device = next(iter(self._trained.optimised.values())).device
        state = torch.load(io.BytesIO(saved), weights_only=True, map_location=device)
        # Checkpoints written before the choice existed do not have the key.
        shapes, saved_shapes = (
            {name: tensor.shape for name, tensor in tensors.items()}
            for tensors in (self._trained.optimised, state["parameters"])
        )
        if {"sampling": Sampling.POISSON.value} | state["plan"] != self._facts() or saved_shapes != shapes:
            raise ValueError("the checkpoint is of another plan or model")
        for name, parameter in self._trained.optimised.items():
            parameter.copy_(state["parameters"][name])
        self._optimiser.load_state_dict(state["optimiser"])
        self.step = state["step"]
        if "counts" in state:
            self._sizes = state["counts"].cpu().numpy()
        if "allocation" in state:
            self._allocation = state["allocation"].cpu().numpy()


def _groups(trained: Trained, rate: float, head_rate: float) -> list[dict[str, Any]]:
    """The optimiser's parameter groups: the encoder's part and the head, each with its peak rate."""
    head = [tensor for name, tensor in trained.optimised.items() if name.startswith("head.")]
    body = [tensor for name, tensor in trained.optimised.items() if not name.startswith("head.")]
    groups = [{"params": body, "rate": rate}, {"params": head, "rate": head_rate}]
    return [group for group in groups if group["params"]]


ROW_BY_ROW = 1
_LENGTHS = (8, 24, 64, 128, 512)
_SPECIAL_IDS = 5  # padding and separators come first in a vocabulary


def batch_pieces(model: Classifier, trained: Trained, base: Base, *, pairs: bool) -> int:
    """Return the word pieces of a physical batch for this model on its device: BATCH_PIECES, or ROW_BY_ROW if the check
    fails.

    The model is unchanged afterwards.
    """
    gradient = PrivateGradient(model, trained.own, clip_norm=1.0, noise_multiplier=1.0, expected_batch=1)
    zero = [parameter for parameter in trained.own.values() if not bool(parameter.any())]
    texts = 2 if pairs and not base.joint else 1
    try:
        with torch.no_grad():
            for parameter in zero:  # a head or adapter of zeros would hide the gradients of the layers before it
                parameter.normal_(std=0.1)
        checked = [length for length in _LENGTHS if length <= base.pieces_max]
        made_up = [_made_up(model, base, length, texts=texts) for length in checked]
        if isinstance(trained, Head):  # whose batches are features
            generator = torch.Generator().manual_seed(0)
            features = torch.randn(BATCH_PIECES, model.head.in_features, generator=generator)
            device = model.head.weight.device
            made_up.append(Batch(features.to(device), (torch.arange(BATCH_PIECES) % 2).to(device)))
        ignored = all(_place_is_ignored(gradient, batch) for batch in made_up)
    finally:
        gradient.close()
        with torch.no_grad():
            for parameter in zero:
                parameter.zero_()
    return BATCH_PIECES if ignored else ROW_BY_ROW


def _place_is_ignored(gradient: PrivateGradient, batch: Batch) -> bool:
    """Whether every row keeps its gradient, bitwise, at another position in the batch."""
    own, moved = gradient.own(batch), gradient.own(_rolled(batch))
    return all(torch.equal(moved[name], tensor.roll(1, dims=0)) for name, tensor in own.items())


def _made_up(model: Classifier, base: Base, length: int, *, texts: int) -> Batch:
    """A full physical batch of random word pieces; every other row is padded."""
    device = next(model.parameters()).device
    rows = max(1, BATCH_PIECES // (texts * length))
    generator = torch.Generator().manual_seed(length)
    parts = []
    for _ in range(texts):
        ids = torch.randint(_SPECIAL_IDS, base.model.config.vocab_size, (rows, length), generator=generator)
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[::2, length - 3 :] = False
        ids[~mask] = base.pad
        types = torch.zeros_like(ids).to(device) if base.typed else None
        parts.append(Part(ids.to(device), mask.to(device), types))
    return Batch(tuple(parts), (torch.arange(rows) % 2).to(device))


def _rolled(batch: Batch) -> Batch:
    """The same rows, each one position later. Segment types are all zero."""
    if isinstance(batch.parts, torch.Tensor):
        return Batch(batch.parts.roll(1, dims=0), batch.labels.roll(1))
    parts = (Part(part.ids.roll(1, dims=0), part.mask.roll(1, dims=0), part.types) for part in batch.parts)
    return Batch(tuple(parts), batch.labels.roll(1))


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
    model, trained = _prepared(base, task, plan.rows)
    pieces = batch_pieces(model, trained, base, pairs=task.pairs)
    training = PrivateTraining(
        model,
        trained,
        plan,
        checkpoint,
        hyperparameters=task.hyperparameters,
        batch_pieces=pieces,
    )
    rows = _rows(base, private, task, device)
    shown = _rows(base, public, task, device) if public else None
    if task.method is Method.HEAD:
        rows = FrozenRows(model, rows, pieces_max=pieces)
        shown = FrozenRows(model, shown, pieces_max=pieces) if shown else None
    charge()
    metrics = training.run(rows, shown, report)
    used = replace(
        task.hyperparameters,
        rank=0 if task.method in (Method.HEAD, Method.FULL) else task.hyperparameters.rank,
        learning_rate=training.rate,
    )
    tensors: dict[str, torch.Tensor] = dict(trained.optimised)
    if model.axes is not None:  # as a head on whole vectors
        tensors["head.weight"] = model.head.weight.detach() @ model.axes
    return FineTuned(_info(base, task, plan, used, trained.clip_norm), tensors, metrics)


def _rows(base: Base, split: Split, task: Task, device: torch.device) -> Rows:
    places = {name: place for place, name in enumerate(task.labels)}
    return Rows(base, split.texts, [places[label] for label in split.labels], device=device)


def _prepared(base: Base, task: Task, rows: int) -> tuple[Classifier, Trained]:
    on_axes = task.method is Method.HEAD and rows < AXES_ROWS and not (base.joint or task.pairs)
    axes = public_axes(base) if on_axes else None
    model = Classifier(base, labels=len(task.labels), pairs=task.pairs, axes=axes)
    return model, prepare(model, task.method, rank=task.hyperparameters.rank)


def _info(base: Base, task: Task, plan: PrivacyPlan, used: Hyperparameters, clip_norm: float) -> ClassifierInfo:
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
        clip_norm=clip_norm,
        noise_multiplier=plan.noise_multiplier,
        epsilon=plan.certificate.epsilon,
        delta=plan.delta,
        sampling=plan.sampling.value,
        counts_epsilon=plan.counts_epsilon,
    )
