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

from dataclasses import dataclass

import torch

from core.mechanisms.vectors.noise import noise_generator
from core.synthesis.pearl_release import PearlRelease
from gpu_workers.synthesis.generator import Generator, GeneratorShape


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
) -> Generator:
    """A generator of the released table, ready to sample. Arrays as of `PearlRelease`."""
    plan = plan or TrainingPlan()
    counts = torch.tensor(release.counts, dtype=torch.float32, device=device).clamp(min=0)
    if not counts.sum() > 0:
        counts = torch.ones_like(counts)
    shares = counts / counts.sum()
    rows = float(release.rows or max(1.0, float(counts.sum())))
    target = torch.tensor(release.sums / rows, dtype=torch.float32, device=device)
    frequencies = torch.tensor(release.frequencies, dtype=torch.float32, device=device)
    generator = Generator(release.schema, counts, shape or GeneratorShape()).to(device).train()
    adversary = Adversary(frequencies, spread=1 / release.mean_distance, log_sigma_max=plan.log_sigma_max)
    descent = torch.optim.Adam(generator.parameters(), lr=plan.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(descent, plan.steps)
    ascent = torch.optim.Adam([adversary.raw], lr=plan.rate, maximize=True)
    seed = int(noise_generator().integers(1 << 62))
    draw = torch.Generator(device).manual_seed(seed)
    labels = torch.arange(release.schema.classes, device=device).repeat_interleave(plan.batch // release.schema.classes)
    for step in range(plan.steps):
        latent = torch.randn(len(labels), generator.shape.latent, generator=draw, device=device)
        gaps = _squared_gaps(generator(latent, labels), frequencies, shares, target)
        descent.zero_grad()
        (gaps * adversary.weights().detach()).mean().backward()  # type: ignore[no-untyped-call]
        descent.step()
        schedule.step()
        if step % plan.generator_steps == plan.generator_steps - 1:
            ascent.zero_grad()
            (gaps.detach() * adversary.weights()).mean().backward()  # type: ignore[no-untyped-call]
            ascent.step()
    return generator.eval()


def _squared_gaps(
    made: torch.Tensor, frequencies: torch.Tensor, shares: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """sum_y |R_y(t_i) - G_y(t_i)|^2 of each frequency, `[k]`; every class has as many rows, one after another."""
    angles = (made @ frequencies.T).reshape(len(shares), -1, len(frequencies))
    means = torch.stack([angles.cos().mean(dim=1), angles.sin().mean(dim=1)], dim=2)
    return (target - shares[:, None, None] * means).square().sum(dim=(0, 2))
