"""Membership inference on canaries: what an attacker learns stays under the certified epsilon, and bugs do not.

Whole trainings with many canaries each (after Steinke, Nasr and Jagielski 2023): each is in the data by a coin of its
own. Every canary has a feature of its own, so that its gradient, at the full clipping norm, points where no other's
does: the noise on it is independent of theirs, and m canaries are m runs of the worst case with one row in or out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from audit_kit import ERROR_RATE
from finetune_kit import Memory
from scipy import stats
from torch import nn

from core.accounting.answers import Certificate
from core.accounting.pld import certified_epsilon
from core.finetune.plan import PrivacyPlan, Sampling
from gpu_workers.finetune import gradients
from gpu_workers.finetune.batches import Batch, Rows
from gpu_workers.finetune.gradients import Tensors
from gpu_workers.finetune.methods import Trained
from gpu_workers.finetune.training import PrivateTraining

CANARIES, STEPS, ROUNDS, DELTA = 2_048, 4, 12, 0.01
BATCH = CANARIES // 2
NOISE = 2.5
CLIP = 1.0


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

    def gradients(self, released: Tensors) -> Tensors:
        weight = released["weight"] * BATCH
        self.total += ((weight[1] - weight[0]) / 2**0.5).numpy()
        return released


def plan(noise: float, sampling: Sampling) -> PrivacyPlan:
    return PrivacyPlan(math.inf, DELTA, CANARIES, BATCH, STEPS, noise, Certificate(math.inf, DELTA, 0.0), sampling)


def scores(noise: float, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """What the attacker found along each canary's gradient in whole trainings, and which canaries were in."""
    found, truth = [], []
    for _ in range(ROUNDS):
        model = nn.Linear(CANARIES, 2, bias=False)
        nn.init.zeros_(model.weight)
        watched = Watched(model)
        inside = np.random.default_rng().random(CANARIES) < 0.5
        training = PrivateTraining(model, watched, plan(noise, sampling), Memory(), clip_norm=CLIP)  # type: ignore[arg-type]
        training.run(Canaries(inside), None, lambda _: None)
        found.append(watched.total)
        truth.append(inside)
    return np.concatenate(found), np.concatenate(truth)


def epsilon_found(noise: float, sampling: Sampling = Sampling.POISSON) -> float:
    """A lower bound on epsilon at DELTA, true with probability 1 - ERROR_RATE: Clopper and Pearson's limits."""
    total, inside = scores(noise, sampling)
    event = total > STEPS * BATCH / CANARIES * CLIP + 0.55 * NOISE * CLIP * STEPS**0.5
    often, seldom = int(event[inside].sum()), int(event[~inside].sum())
    low = stats.beta.ppf(ERROR_RATE / 2, often, inside.sum() - often + 1) if often else 0.0
    high = stats.beta.ppf(1 - ERROR_RATE / 2, seldom + 1, (~inside).sum() - seldom)
    return math.log((low - DELTA) / high) if low > DELTA else -math.inf


def certified(sampling: Sampling = Sampling.POISSON) -> float:
    made = plan(NOISE, sampling)
    return certified_epsilon(((made.event(), made.releases),), DELTA)


@pytest.mark.parametrize("sampling", list(Sampling))
def test_canaries_tell_no_more_than_the_certificate(sampling: Sampling) -> None:
    assert epsilon_found(NOISE, sampling) <= certified(sampling)


@pytest.mark.parametrize("sampling", list(Sampling))
def test_half_the_noise_is_caught(sampling: Sampling) -> None:
    assert epsilon_found(NOISE / 2, sampling) > certified(sampling)


def test_rows_that_join_every_step_of_an_epoch_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivateTraining, "_batch", lambda _: np.arange(CANARIES))
    sampling = Sampling.RANDOM_ALLOCATION
    assert epsilon_found(NOISE, sampling) > certified(sampling)


def test_missing_clipping_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(own: Tensors, *, clip_norm: float) -> Tensors:
        return {name: (tensor.sum(dim=0) / (gradients.UNIT * clip_norm)).long() for name, tensor in own.items()}

    monkeypatch.setattr(gradients, "clipped_sum", unclipped)
    assert epsilon_found(NOISE) > certified()
