"""PEARL's generator: from noise and a class to rows (Liew, Takahashi and Ueno 2021, appendix I).

fc, batch normalisation, ReLU, twice; then one layer with a tanh head for each numeric column, moved to [0, 1], and a
softmax head for each categorical one. A row's class is part of the input. Nothing here reads private rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from core.errors import InvalidInput
from core.mechanisms.vectors.noise import noise_generator
from core.synthesis.encoding import STEPS, EncodedTable
from core.synthesis.schema import NumericColumn, TableSchema, table_schema
from core.synthesis.stored_generator import GENERATOR_FORMAT

_BLOCK = 1 << 14


@dataclass(frozen=True)
class GeneratorShape:
    """`latent`: normal numbers that a row is made of. `hidden`: the width of both hidden layers."""

    latent: int = 10
    hidden: int = 256


class Generator(nn.Module):
    """Rows of a schema from latent numbers and classes; `class_sizes` `[classes]` says how often each is drawn.

    `curve`: (step, objective) along the training, for a report.
    """

    def __init__(self, schema: TableSchema, class_sizes: torch.Tensor, shape: GeneratorShape) -> None:
        super().__init__()
        self.schema, self.shape = schema, shape
        self.curve: tuple[tuple[int, float], ...] = ()
        self.class_sizes: torch.Tensor
        self.register_buffer("class_sizes", class_sizes.to(torch.float32))
        self.body = nn.Sequential(
            nn.Linear(shape.latent + schema.classes, shape.hidden),
            nn.BatchNorm1d(shape.hidden),
            nn.ReLU(),
            nn.Linear(shape.hidden, shape.hidden),
            nn.BatchNorm1d(shape.hidden),
            nn.ReLU(),
            nn.Linear(shape.hidden, schema.width),
        )

    def forward(self, latent: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Rows in [0, 1]^width, each categorical column a distribution: `[n, latent]`, int64 `[n]` -> `[n, width]`."""
        classes = nn.functional.one_hot(labels, self.schema.classes).to(latent.dtype)
        raw: torch.Tensor = self.body(torch.cat([latent, classes], dim=1))
        heads = []
        for column, logits in zip(self.schema.columns, self._columns(raw), strict=True):
            numeric = isinstance(column, NumericColumn)
            heads.append((torch.tanh(logits) + 1) / 2 if numeric else torch.softmax(logits, dim=1))
        return torch.cat(heads, dim=1)

    def _columns(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(rows, [column.width for column in self.schema.columns], dim=1)

    @torch.no_grad()
    def sample(self, count: int) -> EncodedTable:
        """`count` synthetic rows; a categorical column takes its likeliest category. Raises InvalidInput below 1."""
        if count < 1:
            raise InvalidInput("At least one row.", field="rows")
        self.eval()
        device = self.class_sizes.device
        draw = noise_generator()
        law = self.class_sizes.cpu().numpy().astype(np.float64)
        labels = draw.choice(len(law), size=count, p=law / law.sum())
        codes = np.empty((count, len(self.schema.columns)), dtype=np.int16)
        for start in range(0, count, _BLOCK):
            block = slice(start, min(start + _BLOCK, count))
            latent = draw.standard_normal((block.stop - start, self.shape.latent), dtype=np.float32)
            rows = self(torch.from_numpy(latent).to(device), torch.from_numpy(labels[block]).to(device))
            for j, head in enumerate(self._columns(rows)):
                numeric = isinstance(self.schema.columns[j], NumericColumn)
                code = (head[:, 0] * STEPS).round() if numeric else head.argmax(dim=1)
                codes[block, j] = code.to("cpu", torch.int16).numpy()
        return EncodedTable(self.schema, codes, labels.astype(np.int16))


def save_generator(path: Path, generator: Generator) -> None:
    """Write weights, class sizes and schema as safetensors, whole or not at all."""
    partial = path.with_suffix(".partial")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in generator.state_dict().items()}
    facts = {"schema": generator.schema.as_json(), "latent": generator.shape.latent, "hidden": generator.shape.hidden}
    save_file(tensors, partial, metadata={"format": GENERATOR_FORMAT, "info": json.dumps(facts)})
    partial.replace(path)


def load_generator(path: Path) -> Generator:
    """The generator of a file, ready to sample. Raises ValueError for what is no such file or not finite."""
    try:
        with safe_open(path, framework="pt") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (no mapping)
    except (OSError, SafetensorError):
        raise ValueError("not a readable safetensors file") from None
    if metadata.get("format") != GENERATOR_FORMAT:
        raise ValueError("not a generator file of a known format")
    try:
        facts = json.loads(metadata["info"])
        schema = table_schema(facts["schema"])
        shape = GeneratorShape(latent=facts["latent"], hidden=facts["hidden"])
        generator = Generator(schema, torch.ones(schema.classes), shape)
    except (ValueError, LookupError, TypeError, InvalidInput):
        raise ValueError("the file's facts are not those of a generator") from None
    try:
        generator.load_state_dict(tensors)
    except RuntimeError:
        raise ValueError("the tensors are not those of the schema's generator") from None
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("the generator holds a number that is not finite")
    return generator.eval()
