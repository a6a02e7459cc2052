"""Membership inference on canaries: what an attacker learns stays under the certified epsilon, and bugs do not.

One run with many canaries (after Steinke, Nasr and Jagielski 2023): each is in the data by a coin of its own. Every
canary has a feature of its own, so that its gradient, at the full clipping norm, points where no other's does: the
noise on it is independent of theirs, and m canaries are m runs of the worst case with one row in or out.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from audit_kit import ERROR_RATE
from scipy import stats
from torch import nn

from core.accounting.plans import SubsampledGaussian
from core.accounting.pld import certified_epsilon
from core.finetune.poisson import poisson_batch
from gpu_workers.finetune import gradients
from gpu_workers.finetune.gradients import PrivateGradient

CANARIES, STEPS, ROUNDS, DELTA = 2_048, 4, 12, 0.01
BATCH = CANARIES // 2
NOISE = 2.5
CLIP = 1.0


class Canaries:
    """A physical batch of canaries: features `[rows, CANARIES]`, one of them not zero."""

    def __init__(self, chosen: np.ndarray) -> None:
        self.parts = 50.0 * nn.functional.one_hot(torch.from_numpy(chosen), CANARIES).float()
        self.labels = torch.zeros(len(chosen), dtype=torch.int64)


def scores(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """What the attacker adds up of all releases along each canary's gradient, and which canaries were in."""
    found, truth = [], []
    for _ in range(ROUNDS):
        model = nn.Linear(CANARIES, 2, bias=False)
        nn.init.zeros_(model.weight)
        gradient = PrivateGradient(
            model, dict(model.named_parameters()), clip_norm=CLIP, noise_multiplier=noise, expected_batch=1
        )
        inside = np.random.default_rng().random(CANARIES) < 0.5
        total = np.zeros(CANARIES)
        for _ in range(STEPS):
            chosen = poisson_batch(rows=CANARIES, batch=BATCH)
            chosen = chosen[inside[chosen]]
            parts = (Canaries(chosen[start : start + 256]) for start in range(0, len(chosen), 256))
            (release,) = gradient.step(parts).values()  # type: ignore[arg-type]
            total += ((release[1] - release[0]) / 2**0.5).numpy()
        found.append(total)
        truth.append(inside)
    return np.concatenate(found), np.concatenate(truth)


def epsilon_found(noise: float) -> float:
    """A lower bound on epsilon at DELTA, true with probability 1 - ERROR_RATE: Clopper and Pearson's limits."""
    total, inside = scores(noise)
    event = total > STEPS * BATCH / CANARIES * CLIP + 0.55 * NOISE * CLIP * STEPS**0.5
    often, seldom = int(event[inside].sum()), int(event[~inside].sum())
    low = stats.beta.ppf(ERROR_RATE / 2, often, inside.sum() - often + 1) if often else 0.0
    high = stats.beta.ppf(1 - ERROR_RATE / 2, seldom + 1, (~inside).sum() - seldom)
    return math.log((low - DELTA) / high) if low > DELTA else -math.inf


def certified() -> float:
    return certified_epsilon(((SubsampledGaussian(BATCH / CANARIES, NOISE), STEPS),), DELTA)


def test_canaries_tell_no_more_than_the_certificate() -> None:
    assert epsilon_found(NOISE) <= certified()


def test_half_the_noise_is_caught() -> None:
    assert epsilon_found(NOISE / 2) > certified()


def test_missing_clipping_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(own: dict[str, torch.Tensor], *, clip_norm: float) -> dict[str, torch.Tensor]:
        return {name: tensor.sum(dim=0) for name, tensor in own.items()}

    monkeypatch.setattr(gradients, "clipped_sum", unclipped)
    assert epsilon_found(NOISE) > certified()
