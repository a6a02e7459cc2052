"""DP-MERF (Harder, Adamczewski and Park 2021), the baseline of the PEARL paper.

One noisy mean of random features, by class, and a network that is trained to have the same mean. Numbers have random
features of a Gaussian kernel, categories their indicators; either kind has length 1 at most, and both together. The
class counts are in the same vector with weight 1. Replacing a row moves the sum by at most 2: features of length 1 in
one class move by 2, those of two classes by sqrt(2) and the counts by sqrt(2). The network is the one that the PEARL
paper (Liew, Takahashi and Ueno 2021, appendix I) trains for tables, also for this baseline. n is public.
"""

import numpy as np
import torch
from torch import nn

from core.synthesis.columns import STEPS, CategoricalColumn
from core.synthesis.encoding import EncodedTable, unit_vectors
from core.synthesis.pricing import RecordBudget
from core.synthesis.schema import TableSchema

FREQUENCIES = 1_000
HIDDEN, LATENT, STEPS_OF_TRAINING, BATCH, RATE = 128, 16, 1_000, 256, 0.01


class _Network(nn.Module):
    """Noise and a label in; numbers in [0, 1] and shares of categories out."""

    def __init__(self, schema: TableSchema) -> None:
        super().__init__()
        self.classes = schema.classes
        self._columns = [(each.width, isinstance(each, CategoricalColumn)) for each in schema.columns]
        self._layers = nn.Sequential(
            *(nn.Linear(LATENT + schema.classes, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()),
            *(nn.Linear(HIDDEN, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU()),
            nn.Linear(HIDDEN, schema.width),
        )

    def forward(self, labels: torch.Tensor) -> torch.Tensor:
        given = nn.functional.one_hot(labels, self.classes).float()
        outputs = self._layers(torch.cat([torch.randn(len(labels), LATENT), given], dim=1))
        parts = torch.split(outputs, [width for width, _ in self._columns], dim=1)
        kinds = (categories for _, categories in self._columns)
        return torch.cat([p.softmax(1) if each else p.sigmoid() for p, each in zip(parts, kinds, strict=True)], dim=1)


def merf(table: EncodedTable, budget: RecordBudget, *, kernel_width: float) -> EncodedTable:
    """As many synthetic rows as `table` has. `kernel_width`: of the Gaussian kernel, public; the paper has 1."""
    schema, n = table.schema, len(table)
    categories = sum(isinstance(each, CategoricalColumn) for each in schema.columns)
    is_number = torch.tensor([not isinstance(e, CategoricalColumn) for e in schema.columns for _ in range(e.width)])
    frequencies = torch.randn(int(is_number.sum()), FREQUENCIES) / kernel_width
    kinds = (categories > 0) + (categories < len(schema.columns))

    def embedding(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        phase = x[:, is_number] @ frequencies
        parts = [phase.cos() / FREQUENCIES**0.5, phase.sin() / FREQUENCIES**0.5] if len(frequencies) else []
        parts.append(x[:, ~is_number] / max(1, categories) ** 0.5)
        features = torch.cat([*parts, torch.full((len(x), 1), kinds**0.5)], dim=1) / kinds**0.5
        mean: torch.Tensor = nn.functional.one_hot(y, schema.classes).float().T @ features / len(x)
        return mean

    rows = torch.tensor(unit_vectors(schema, table.codes) / STEPS, dtype=torch.float32)
    noisy = embedding(rows, torch.tensor(table.labels.astype(np.int64)))
    noisy += torch.randn(noisy.shape) * (budget.noise_multiplier * 2 / n)
    shares = noisy[:, -1].clamp(min=1 / n)
    network = _Network(schema)
    descent = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(descent, STEPS_OF_TRAINING)
    for _ in range(STEPS_OF_TRAINING):
        drawn = torch.multinomial(shares, BATCH, replacement=True)
        loss = (embedding(network(drawn), drawn) - noisy)[:, :-1].square().sum()
        descent.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        descent.step()
        schedule.step()
    labels = torch.multinomial(shares, n, replacement=True)
    with torch.no_grad():
        made = network.eval()(labels)
    parts = torch.split(made, [each.width for each in schema.columns], dim=1)
    likeliest = [
        part.argmax(1) if isinstance(each, CategoricalColumn) else (part[:, 0] * STEPS).round()
        for part, each in zip(parts, schema.columns, strict=True)
    ]
    codes = torch.stack([codes.to(torch.int16) for codes in likeliest], dim=1)
    return EncodedTable(schema, codes.numpy(), labels.numpy())
