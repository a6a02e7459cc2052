"""Audits of private training by canaries: what an attacker who sees every release learns stays under the certificate.

Whole trainings with many canaries each, every one of them in the data by a coin of its own.

* Orthogonal canaries: a linear layer in which every canary has a feature of its own, so that its gradient, at the full
  clipping norm, points where no other's does. The noise on it is independent of theirs, and m canaries are m runs of
  the worst case with one row in or out.
* Gradient canaries in one run: the forms of a classifier (`lora`, `rgp`, `full`), each canary's gradient a random
  direction over all tensors. The attacker guesses the canaries that it is surest of; what the guesses prove needs no
  independence (Steinke, Nasr and Jagielski 2023).
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audit_kit import epsilon_bound, one_run_bound
from audits.kit import Audit, Found, Scale
from finetune_kit import Memory, checkpoint, tiny
from torch import nn

from core.accounting.plans import Certificate
from core.accounting.pld import certified_epsilon
from core.finetune.plan import PrivacyPlan, Sampling
from gpu_workers.finetune.classifier import Batch, Rows
from gpu_workers.finetune.gradients import Method, PrivateGradient, Tensors, Trained
from gpu_workers.finetune.training import PrivateTraining

CANARIES, STEPS, DELTA = 2_048, 4, 0.01
BATCH = CANARIES // 2
NOISE = 2.5
CLIP = 1.0
ONE_RUN_NOISE, ONE_RUN_DELTA = 1.5, 1e-9  # a larger delta would outweigh what the guesses of one run prove
ONE_RUN_CANARIES_MAX = 1_536
# `head` has too few numbers for canaries in one run; the linear layer of the orthogonal ones stands for it.
METHODS = [method for method in Method if method is not Method.HEAD]


class Canaries(Rows):
    """Rows with features `[rows, CANARIES]`, one of them not zero; those that are out give no gradient."""

    def __init__(self, inside: np.ndarray) -> None:
        self._inside = inside

    def __len__(self) -> int:
        return CANARIES

    def batches(self, chosen: np.ndarray, *, pieces_max: int) -> Iterator[tuple[np.ndarray, Batch]]:
        chosen = chosen[self._inside[chosen]]
        for start in range(0, len(chosen), 256):
            part = chosen[start : start + 256]
            features = 50.0 * nn.functional.one_hot(torch.from_numpy(part), CANARIES).float()
            yield part, Batch(features, torch.zeros(len(part), dtype=torch.int64))  # type: ignore[arg-type]


class Watched(Trained):
    """One linear layer; keeps what the attacker adds up of all releases along each canary's gradient."""

    rate = 1e-2

    def __init__(self, model: nn.Linear) -> None:
        self.own = self.optimised = dict(model.named_parameters())
        self.total = np.zeros(CANARIES)
        self.releases = 0

    def gradients(self, released: Tensors) -> Tensors:
        self.releases += 1
        weight = released["weight"] * BATCH
        self.total += ((weight[1] - weight[0]) / 2**0.5).numpy()
        return released


def plan(
    noise: float,
    *,
    delta: float = DELTA,
    rows: int = CANARIES,
    batch: int = BATCH,
    sampling: Sampling = Sampling.POISSON,
) -> PrivacyPlan:
    return PrivacyPlan(math.inf, delta, rows, batch, STEPS, noise, Certificate(math.inf, delta, 0.0), sampling)


def certified(planned: PrivacyPlan) -> float:
    return certified_epsilon(((planned.event(), planned.releases),), planned.delta)


def orthogonal(noise: float, rounds: int, sampling: Sampling = Sampling.POISSON) -> Found:
    """A lower bound on epsilon at DELTA from `rounds` trainings."""
    planned = plan(noise, sampling=sampling)
    often = seldom = members = 0
    for _ in range(rounds):
        model = nn.Linear(CANARIES, 2, bias=False)
        nn.init.zeros_(model.weight)
        watched = Watched(model)
        inside = np.random.default_rng().random(CANARIES) < 0.5
        training = PrivateTraining(model, watched, planned, Memory(), clip_norm=CLIP)  # type: ignore[arg-type]
        training.run(Canaries(inside), None, lambda _: None)
        expected = watched.releases * BATCH / CANARIES * CLIP
        event = watched.total > expected + 0.55 * NOISE * CLIP * watched.releases**0.5
        often, seldom = often + int(event[inside].sum()), seldom + int(event[~inside].sum())
        members += int(inside.sum())
    others = rounds * CANARIES - members
    bound = epsilon_bound(often, seldom, members, runs_of_neighbour=others, delta=DELTA)
    attack = f"{rounds} trainings of {CANARIES:,} orthogonal canaries; event: a large sum of releases along the canary"
    return Found(bound, certified(plan(NOISE, sampling=sampling)), min(members, others), attack)


class Planted(Rows):
    """Canaries whose batches hold a text each; `current` says whose gradients are asked for."""

    def __init__(self, real: Rows, inside: np.ndarray) -> None:
        self._real, self._inside = real, inside
        self.current = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._inside)

    def batches(self, chosen: np.ndarray, *, pieces_max: int) -> Iterator[tuple[np.ndarray, Batch]]:
        (_, text) = next(iter(self._real.batches(np.zeros(1, dtype=np.int64), pieces_max=pieces_max)))
        chosen = chosen[self._inside[chosen]]
        for start in range(0, len(chosen), 256):
            self.current = chosen[start : start + 256]
            copies = [
                part.__class__(*(_repeat(each, len(self.current)) for each in _fields(part))) for part in text.parts
            ]
            yield self.current, Batch(tuple(copies), text.labels.repeat(len(self.current)))


def _fields(part: Any) -> tuple[Any, Any, Any]:
    return part.ids, part.mask, part.types


def _repeat(tensor: torch.Tensor | None, times: int) -> torch.Tensor | None:
    return None if tensor is None else tensor.repeat(times, 1)


class Listening(Trained):
    """A method's form; adds up the releases, all tensors in one vector."""

    def __init__(self, inner: Trained) -> None:
        self._inner = inner
        self.own, self.optimised, self.rate = inner.own, inner.optimised, inner.rate  # type: ignore[misc]
        self.total = torch.zeros(1)

    def begin(self, step: int) -> None:
        self._inner.begin(step)

    def gradients(self, released: Tensors) -> Tensors:
        self.total = self.total + torch.cat([released[name].flatten() for name in self.own])
        return self._inner.gradients(released)


def one_run(method: Method) -> Found:
    """One training of a tiny classifier in the method's form, every row in every batch."""
    with tempfile.TemporaryDirectory() as folder:
        small = tiny(checkpoint(Path(folder), "bert"), method)
    sizes = {name: parameter.numel() for name, parameter in small.trained.own.items()}
    count = min(ONE_RUN_CANARIES_MAX, sum(sizes.values()) // 2)
    whole = nn.functional.normalize(torch.randn(count, sum(sizes.values())), dim=1)
    directions = dict(zip(sizes, whole.split(list(sizes.values()), dim=1), strict=True))
    listening = Listening(small.trained)
    inside = np.random.default_rng().random(count) < 0.5
    planted = Planted(small.rows, inside)
    real = PrivateGradient.own

    def own(self: PrivateGradient, batch: Batch) -> Tensors:
        rows = planted.current
        return {
            name: 10 * CLIP * directions[name][rows].reshape(each.shape) for name, each in real(self, batch).items()
        }

    planned = plan(ONE_RUN_NOISE, delta=ONE_RUN_DELTA, rows=count, batch=count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateGradient, "own", own)
        training = PrivateTraining(small.model, listening, planned, Memory(), clip_norm=CLIP)  # type: ignore[arg-type]
        training.run(planted, None, lambda _: None)
    guesses = count // 4
    order = np.argsort(_estimates(whole, listening.total * count / STEPS))
    right = int((~inside[order[: guesses // 2]]).sum() + inside[order[-guesses // 2 :]].sum())
    bound = one_run_bound(count, 2 * (guesses // 2), right, delta=ONE_RUN_DELTA)
    attack = f"one training, {count:,} gradient canaries, {right} of {2 * (guesses // 2)} guesses right"
    return Found(bound, certified(planned), count, attack)


def _estimates(directions: torch.Tensor, mean: torch.Tensor) -> np.ndarray:
    """Whether each canary is in, by least squares with the noise and a coin as prior: larger is likelier."""
    noise = ONE_RUN_NOISE**2 / STEPS / 0.25
    products = directions @ directions.T + noise * torch.eye(len(directions))
    expected = directions @ (mean - directions.sum(dim=0) / 2)
    return np.asarray(torch.linalg.solve(products, expected).numpy())


def audits() -> tuple[Audit, ...]:
    claim, add = "certificate, delta {}", "add or remove one row"
    rounds: Callable[[Scale], int] = lambda scale: 120 if scale.runs >= 1_000_000 else 12  # noqa: E731
    rows = [
        Audit(
            "training-orthogonal",
            "training",
            "dp_sgd",
            claim.format(DELTA),
            add,
            lambda scale: orthogonal(NOISE, rounds(scale)),
        ),
        Audit(
            "training-random-allocation",
            "training",
            "dp_sgd, random allocation",
            claim.format(DELTA),
            add,
            lambda scale: orthogonal(NOISE, rounds(scale), Sampling.RANDOM_ALLOCATION),
        ),
    ]
    for method in METHODS:
        rows.append(
            Audit(
                f"training-{method}",
                "training",
                f"dp_sgd, {method}",
                claim.format(ONE_RUN_DELTA),
                add,
                lambda scale, method=method: one_run(method),  # type: ignore[misc]
            )
        )
    return tuple(rows)
