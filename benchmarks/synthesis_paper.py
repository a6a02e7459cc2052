"""The PEARL paper's own set-up, as a peer (Liew, Takahashi and Ueno 2021, algorithm 1 and appendix I).

Network fc-bn-relu twice, then tanh and softmax heads; the characteristic function of a batch of 1,100 soft rows; Adam
at 0.01 for generator and adversary; a category is the likeliest one. `loops`: one frequency and one class after
another, as algorithm 1 is written; else as matrices, with the same result. The paper does not state how many
steps the generator makes for each step of the adversary. This module uses 1.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from core.synthesis.encoding import STEPS, EncodedTable, unit_vectors
from core.synthesis.pearl_release import PearlRelease
from core.synthesis.schema import NumericColumn, TableSchema
from gpu_workers.synthesis.reconstruction import Adversary

LATENT, HIDDEN, BATCH, RATE = 10, 256, 1_100, 0.01
STEPS_PAPER, FREQUENCIES_PAPER = 8_000, 1_000
_LOG_SIGMA_MAX = 0.2


class Network(nn.Module):
    """Soft rows `[n, width]` of latent numbers and one-hot classes."""

    def __init__(self, schema: TableSchema) -> None:
        super().__init__()
        self.schema = schema
        self.body = nn.Sequential(
            *(nn.Linear(LATENT + schema.classes, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()),
            *(nn.Linear(HIDDEN, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()),
            nn.Linear(HIDDEN, schema.width),
        )

    def forward(self, labels: torch.Tensor) -> torch.Tensor:
        latent = torch.randn(len(labels), LATENT)
        raw = self.body(torch.cat([latent, nn.functional.one_hot(labels, self.schema.classes)], dim=1))
        heads = []
        for column, head in zip(self.schema.columns, self._columns(raw), strict=True):
            numeric = isinstance(column, NumericColumn)
            heads.append((torch.tanh(head) + 1) / 2 if numeric else torch.softmax(head, dim=1))
        return torch.cat(heads, dim=1)

    @torch.no_grad()
    def sample(self, count: int, sizes: np.ndarray) -> EncodedTable:
        self.eval()
        labels = torch.from_numpy(np.random.default_rng().choice(len(sizes), size=count, p=sizes / sizes.sum()))
        codes = []
        for column, head in zip(self.schema.columns, self._columns(self(labels)), strict=True):
            numeric = isinstance(column, NumericColumn)
            codes.append((head[:, 0] * STEPS).round() if numeric else head.argmax(dim=1))
        return EncodedTable(
            self.schema, torch.stack(codes, 1).numpy().astype(np.int16), labels.numpy().astype(np.int16)
        )

    def _columns(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(rows, [column.width for column in self.schema.columns], dim=1)


def trained(release: PearlRelease, *, steps: int, loops: bool = False) -> Network:
    """A network of a release of Gaussian frequencies."""
    network = Network(release.schema).train()
    frequencies = torch.tensor(release.frequencies, dtype=torch.float32)
    shares = torch.tensor(class_sizes(release) / class_sizes(release).sum(), dtype=torch.float32)
    target = torch.tensor(release.sums / class_sizes(release).sum(), dtype=torch.float32)
    adversary = Adversary(frequencies, spread=1 / release.mean_distance, log_sigma_max=_LOG_SIGMA_MAX, rate=RATE)
    descent = torch.optim.Adam(network.parameters(), lr=RATE)
    labels = torch.arange(len(shares)).repeat_interleave(BATCH // len(shares))
    gaps_of = _gaps_by_loops if loops else _gaps
    for _ in range(steps):
        gaps = gaps_of(network(labels).reshape(len(shares), -1, release.schema.width), frequencies, shares, target)
        descent.zero_grad()
        (gaps * adversary.weights().detach()).mean().backward()
        descent.step()
        adversary.advance(gaps.detach())
    return network


def class_sizes(release: PearlRelease) -> np.ndarray:
    """The noisy counts, none below 1."""
    return np.maximum(release.counts, 1.0)


def _gaps(rows: torch.Tensor, frequencies: torch.Tensor, shares: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    angles = rows @ frequencies.T
    means = torch.stack([angles.cos().mean(dim=1), angles.sin().mean(dim=1)], dim=2)
    return (target - shares[:, None, None] * means).square().sum(dim=(0, 2))


def _gaps_by_loops(
    rows: torch.Tensor, frequencies: torch.Tensor, shares: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    gaps = []
    for i, frequency in enumerate(frequencies):
        gap = torch.zeros(())
        for label, share in enumerate(shares):
            angles = rows[label] @ frequency
            gap = gap + (target[label, i, 0] - share * angles.cos().mean()) ** 2
            gap = gap + (target[label, i, 1] - share * angles.sin().mean()) ** 2
        gaps.append(gap)
    return torch.stack(gaps)


def sums_by_loops(table: EncodedTable, frequencies: np.ndarray) -> np.ndarray:
    """The embedding in floats, row by row: `[classes, k, 2]`."""
    sums = np.zeros((table.schema.classes, len(frequencies), 2))
    for code, label in zip(table.codes, table.labels, strict=True):
        angles = frequencies @ (unit_vectors(table.schema, code[None])[0] / STEPS)
        sums[label, :, 0] += np.cos(angles)
        sums[label, :, 1] += np.sin(angles)
    return sums
