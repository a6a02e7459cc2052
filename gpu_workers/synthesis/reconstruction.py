"""Adversarial reconstruction: a generator whose characteristic function is the released one (PEARL, section 4).

Guarantee: post-processing of a `PearlRelease`, at no cost, whatever the number of steps. No private row is read.

The objective: min over the generator, max over a diagonal zero-mean Gaussian omega, of

    sum_i v_i sum_y |R_y(t_i) - G_y(t_i)|^2 / sum_i v_i,    v_i = omega(t_i) / omega0(t_i),

R_y the released sums of class y over the rows, G_y the generator's, both joint with the class; omega0 = N(0, 1 /
mean_distance^2) is what the frequencies were drawn from. Frequencies are fixed, so the adversary only re-weights. Its
standard deviations stay within a public factor of omega0's: the weights of a far omega in many dimensions are those of
a single frequency.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from core.mechanisms.vectors.noise import noise_generator
from core.synthesis.pearl_release import PearlRelease
from gpu_workers.synthesis.generator import Generator, GeneratorShape
from gpu_workers.training.loop import Checkpoint

_SAVED_SECONDS = 10.0
_CURVE_POINTS = 100


@dataclass(frozen=True)
class TrainingPlan:
    """`steps` of the generator, `batch` rows a step, one step of the adversary after every `generator_steps`.

    `log_sigma_max`: how far the logarithm of a standard deviation of omega may leave that of omega0.
    """

    steps: int = 3_000
    batch: int = 1_024
    rate: float = 5e-3
    generator_steps: int = 5
    log_sigma_max: float = 0.2


class Adversary:
    """omega: a bounded factor for each dimension, and the weights of the frequencies that follow from it."""

    def __init__(self, frequencies: torch.Tensor, *, spread: float, log_sigma_max: float) -> None:
        self._squares = (frequencies / spread) ** 2
        self._bound = log_sigma_max
        self.raw = torch.zeros(frequencies.shape[1], device=frequencies.device, requires_grad=True)

    def weights(self) -> torch.Tensor:
        """Self-normalised importance weights, `[k]`, of mean 1."""
        log_sigma = self._bound * torch.tanh(self.raw)
        log_ratio = self._squares @ ((1 - torch.exp(-2 * log_sigma)) / 2) - log_sigma.sum()
        return torch.softmax(log_ratio, dim=0) * len(self._squares)


def train_generator(
    release: PearlRelease,
    *,
    shape: GeneratorShape | None = None,
    plan: TrainingPlan | None = None,
    device: torch.device | str = "cpu",
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Generator:
    """A generator of the released table, ready to sample; its `curve` is the objective along the way.

    A state that `checkpoint` holds is gone on from: it must be one of the same release, shape and plan; one is written
    every ten seconds and at the end. `progress` is told the steps done and their number. Arrays as of `PearlRelease`.
    """
    training = _Reconstruction(release, shape or GeneratorShape(), plan or TrainingPlan(), torch.device(device))
    state = None if checkpoint is None else checkpoint.read()
    if state is not None:
        training.restore(state)
    saved = time.monotonic()
    while training.step < training.plan.steps:
        if progress is not None:
            progress(training.step, training.plan.steps)
        training.advance()
        done = training.step == training.plan.steps
        if checkpoint is not None and (done or time.monotonic() - saved >= _SAVED_SECONDS):
            checkpoint.write(training.state())
            saved = time.monotonic()
    training.generator.curve = tuple(training.curve)
    return training.generator.eval()


class _Reconstruction:
    """A training at a step: networks, optimisers, and the stream of latent numbers."""

    def __init__(self, release: PearlRelease, shape: GeneratorShape, plan: TrainingPlan, device: torch.device) -> None:
        self.plan, self.step = plan, 0
        self.curve: list[tuple[int, float]] = []
        counts = torch.tensor(release.counts, dtype=torch.float32, device=device).clamp(min=0)
        if not counts.sum() > 0:
            counts = torch.ones_like(counts)
        self._shares = counts / counts.sum()
        rows = float(release.rows or max(1.0, float(counts.sum())))
        self._target = torch.tensor(release.sums / rows, dtype=torch.float32, device=device)
        self._frequencies = torch.tensor(release.frequencies, dtype=torch.float32, device=device)
        each = plan.batch // release.schema.classes
        self._labels = torch.arange(release.schema.classes, device=device).repeat_interleave(each)
        self.generator = Generator(release.schema, counts, shape).to(device).train()
        self._adversary = Adversary(
            self._frequencies, spread=1 / release.mean_distance, log_sigma_max=plan.log_sigma_max
        )
        self._descent = torch.optim.Adam(self.generator.parameters(), lr=plan.rate)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._descent, plan.steps)
        self._ascent = torch.optim.Adam([self._adversary.raw], lr=plan.rate, maximize=True)
        self._draw = torch.Generator(device).manual_seed(int(noise_generator().integers(1 << 62)))

    def advance(self) -> None:
        """One step of the generator, and one of the adversary where its turn has come."""
        size = (len(self._labels), self.generator.shape.latent)
        latent = torch.randn(size, generator=self._draw, device=self._labels.device)
        made = self.generator(latent, self._labels)
        gaps = _squared_gaps(made, self._frequencies, self._shares, self._target)
        self._descent.zero_grad()
        objective = (gaps * self._adversary.weights().detach()).mean()
        objective.backward()  # type: ignore[no-untyped-call]
        self._descent.step()
        self._schedule.step()
        self.step += 1
        if self.step % self.plan.generator_steps == 0:
            self._ascent.zero_grad()
            (gaps.detach() * self._adversary.weights()).mean().backward()  # type: ignore[no-untyped-call]
            self._ascent.step()
        if self.step % max(1, self.plan.steps // _CURVE_POINTS) == 0:
            self.curve.append((self.step, float(objective.detach())))

    def state(self) -> bytes:
        """All that the next step depends on."""
        buffer = io.BytesIO()
        state = {name: part.state_dict() for name, part in self._parts().items()}
        here = {"step": self.step, "curve": self.curve, "adversary": self._adversary.raw.detach()}
        torch.save(state | here | {"draw": self._draw.get_state()}, buffer)
        return buffer.getvalue()

    def restore(self, saved: bytes) -> None:
        """Go on from where `state` was called."""
        device = self._labels.device
        state = torch.load(io.BytesIO(saved), weights_only=True, map_location=device)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        with torch.no_grad():
            self._adversary.raw.copy_(state["adversary"])
        self._draw.set_state(state["draw"].cpu())
        self.step, self.curve = state["step"], state["curve"]

    def _parts(self) -> dict[str, Any]:
        return {
            "generator": self.generator,
            "descent": self._descent,
            "schedule": self._schedule,
            "ascent": self._ascent,
        }


def _squared_gaps(
    made: torch.Tensor, frequencies: torch.Tensor, shares: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """sum_y |R_y(t_i) - G_y(t_i)|^2 of each frequency, `[k]`; every class has as many rows, one after another."""
    angles = (made @ frequencies.T).reshape(len(shares), -1, len(frequencies))
    means = torch.stack([angles.cos().mean(dim=1), angles.sin().mean(dim=1)], dim=2)
    return (target - shares[:, None, None] * means).square().sum(dim=(0, 2))
