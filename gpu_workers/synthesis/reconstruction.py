"""Reconstruction: train a generator to match the released characteristic function (PEARL, section 4).

Guarantee: post-processing of a `PearlRelease`, at no cost, for any number of steps. No private row is read.

The objective: min over the generator of the mean over i, y, cosine and sine of v_i (R_y(t_i) - G_y(t_i))^2 / s_i^2. R_y
are the released sums of class y, s_i their noise, G_y the generator's expectation for as many rows. At v = 1 the true
table would have 1.

For low-order frequencies v = 1: there is no adversary. For Gaussian ones the adversary maximises over v_i =
omega(t_i) / omega0(t_i), divided by their mean: omega0 = N(0, 1 / mean distance^2) is the distribution from which they
were drawn, and omega is a diagonal zero-mean Gaussian whose standard deviations stay within a public factor of
omega0's. The paper's equation 1 has neither the division nor the bound. (With a distant omega in many dimensions, a
single frequency would have all the weight.)
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.mechanisms.vectors.release import noise_generator
from core.synthesis.pearl_release import Design, PearlRelease
from gpu_workers.models.training_loop import Checkpoint
from gpu_workers.synthesis.generator import Generator, GeneratorShape, default_shape, expected_features

_SAVED_SECONDS = 10.0
_CURVE_POINTS = 100
_START_DEVIATION = 0.5  # of the logits: identical components would remain identical

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrainingPlan:
    """At most `steps` of the generator, with one step of the adversary after every `generator_steps`.

    `enough`: training ends when the objective at v = 1 falls below this value, because a generator that is nearer to
    the release than the true table has learnt its noise. Training does not end before `steps_min`: if most frequencies
    contain only noise, the objective is near 1 from the start and is not informative. `log_sigma_max`: the largest
    difference between the logarithms of the standard deviations of omega and omega0.
    """

    steps: int = 1_000
    steps_min: int = 100
    rate: float = 0.05
    enough: float = 1.05
    generator_steps: int = 5
    log_sigma_max: float = 0.2


class Adversary(nn.Module):
    """omega: a bounded factor for each dimension, and the resulting weights of the frequencies."""

    def __init__(self, frequencies: torch.Tensor, *, spread: float, log_sigma_max: float, rate: float) -> None:
        super().__init__()
        self._squares = (frequencies / spread) ** 2
        self._bound = log_sigma_max
        self.raw = nn.Parameter(torch.zeros(frequencies.shape[1], device=frequencies.device))
        self.ascent = torch.optim.Adam(self.parameters(), lr=rate, maximize=True)

    def weights(self) -> torch.Tensor:
        """Self-normalised importance weights, `[k]`, of mean 1."""
        log_sigma = self._bound * torch.tanh(self.raw)
        log_ratio = self._squares @ ((1 - torch.exp(-2 * log_sigma)) / 2) - log_sigma.sum()
        return torch.softmax(log_ratio, dim=0) * len(self._squares)

    def advance(self, gaps: torch.Tensor) -> None:
        """Take one step towards the weights that maximise `gaps` `[k]`."""
        self.ascent.zero_grad()
        (gaps * self.weights()).mean().backward()  # type: ignore[no-untyped-call]
        self.ascent.step()


def train_generator(
    release: PearlRelease,
    *,
    shape: GeneratorShape | None = None,
    plan: TrainingPlan | None = None,
    device: torch.device | str = "cpu",
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Generator:
    """Train a generator of the released table, ready to sample. Its `curve` is the objective at v = 1 during training.

    A state in `checkpoint` is resumed: it must belong to the same release, shape and plan. The state is written every
    ten seconds and at the end. `progress` is called with the number of finished steps and of all steps. For the arrays,
    see `PearlRelease`.
    """
    training = _Reconstruction(
        release, shape or default_shape(release.schema), plan or TrainingPlan(), torch.device(device)
    )
    state = None if checkpoint is None else checkpoint.read()
    if state is not None:
        training.load(state)
    saved = time.monotonic()
    while not training.done:
        if progress is not None:
            progress(training.step, training.plan.steps)
        training.advance()
        if checkpoint is not None and (training.done or time.monotonic() - saved >= _SAVED_SECONDS):
            checkpoint.write(training.state())
            saved = time.monotonic()
    training.generator.curve = tuple(training.curve)
    return training.generator.eval()


class _Reconstruction:
    """A training and its current step."""

    def __init__(self, release: PearlRelease, shape: GeneratorShape, plan: TrainingPlan, device: torch.device) -> None:
        self.plan, self.step, self.done = plan, 0, False
        self.curve: list[tuple[int, float]] = []
        sizes = torch.tensor(_class_sizes(release), dtype=torch.float32, device=device)
        self.generator = Generator(release.schema, sizes, shape).to(device)
        self._draw = torch.Generator(device).manual_seed(int(noise_generator().integers(1 << 62)))
        with torch.no_grad():
            start = torch.randn(self.generator.logits.shape, generator=self._draw, device=device)
            self.generator.logits.add_(start, alpha=_START_DEVIATION)
        self._features = expected_features(release.schema, release.frequencies, self.generator.cells, device)
        weights = torch.tensor(release.weights / release.sums_noise, dtype=torch.float32, device=device)[:, None]
        self._target = torch.tensor(release.sums, dtype=torch.float32, device=device) * weights
        self._scales = sizes[:, None, None] * weights
        self._adversary = None
        self._descent = torch.optim.Adam(self.generator.parameters(), lr=plan.rate)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._descent, plan.steps)
        if release.design is Design.GAUSSIAN:
            frequencies = torch.tensor(release.frequencies, dtype=torch.float32, device=device)
            self._adversary = Adversary(
                frequencies, spread=1 / release.mean_distance, log_sigma_max=plan.log_sigma_max, rate=plan.rate
            )

    def advance(self) -> None:
        """Take one step of the generator and, after every `generator_steps`, one of the adversary."""
        gaps = (self._target - self._scales * self._features(self.generator())).square().mean(dim=(0, 2))
        weighted = gaps if self._adversary is None else gaps * self._adversary.weights().detach()
        self._descent.zero_grad()
        weighted.mean().backward()  # type: ignore[no-untyped-call]
        self._descent.step()
        self._schedule.step()
        self.step += 1
        if self._adversary is not None and self.step % self.plan.generator_steps == 0:
            self._adversary.advance(gaps.detach())
        objective = float(gaps.detach().mean())
        learnt = objective <= self.plan.enough and self.step >= self.plan.steps_min
        self.done = learnt or self.step == self.plan.steps
        if self.done or self.step % max(1, self.plan.steps // _CURVE_POINTS) == 0:
            self.curve.append((self.step, objective))

    def state(self) -> bytes:
        """Serialise everything that the next step depends on."""
        buffer = io.BytesIO()
        state = {name: part.state_dict() for name, part in self._parts().items()}
        torch.save(state | {"step": self.step, "done": self.done, "curve": self.curve}, buffer)
        return buffer.getvalue()

    def load(self, saved: bytes) -> None:
        """Restore the result of `state`."""
        device = self._target.device
        state = torch.load(io.BytesIO(saved), weights_only=True, map_location=device)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.step, self.done, self.curve = state["step"], state["done"], state["curve"]

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"generator": self.generator, "descent": self._descent, "schedule": self._schedule}
        if self._adversary is not None:
            parts |= {"adversary": self._adversary, "ascent": self._adversary.ascent}
        return parts


def _class_sizes(release: PearlRelease) -> FloatArray:
    """The sizes of the classes, none negative, with the sum n if that is public."""
    counts = release.counts
    if release.rows is not None:
        counts = counts + (release.rows - counts.sum()) / len(counts)
    counts = np.maximum(counts, 0.0)
    return counts if counts.sum() > 0 else np.ones_like(counts)
