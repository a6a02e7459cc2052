"""The generator: each class is a mixture of components, and within a component the columns are independent.

A row is drawn as a class, one of the class's components, then a cell of each column by that component's distribution
and a code within the cell. This module reads no private rows.

Instead of the paper's network (Liew, Takahashi and Ueno 2021, appendix I), the distributions themselves are trained.
Their characteristic function has a closed form (`expected_features`), and sampling uses exactly what is trained.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from core.synthesis.encoding import EncodedTable
from core.synthesis.schema import TableSchema
from gpu_workers.models.tensor_file import write_tensors
from gpu_workers.synthesis.cells import all_cells
from gpu_workers.synthesis.stored_generator import FORMAT, StoredGenerator

_LOGITS_MAX = 1 << 23  # of a generator with the default shape: about 300 MB during training


@dataclass(frozen=True)
class GeneratorShape:
    """`components` of each class; `bins`: even bins between the bounds of a numeric column (`cells`)."""

    components: int = 512
    bins: int = 64


def default_shape(schema: TableSchema) -> GeneratorShape:
    """Limit the components to the memory bound for a wide schema with many classes."""
    shape = GeneratorShape()
    cells = sum(len(cells) for cells in all_cells(schema, shape.bins))
    return replace(shape, components=max(1, min(shape.components, _LOGITS_MAX // (schema.classes * cells))))


class Generator(nn.Module):
    """Rows of a schema. `class_sizes` `[classes]`: the relative frequency of each class.

    `curve`: (step, objective) during the training, for a report.
    """

    def __init__(self, schema: TableSchema, class_sizes: torch.Tensor, shape: GeneratorShape) -> None:
        """All components are uniform at first."""
        super().__init__()
        self.schema, self.shape = schema, shape
        self.curve: tuple[tuple[int, float], ...] = ()
        self.cells = all_cells(schema, shape.bins)
        self.class_sizes: torch.Tensor
        self.register_buffer("class_sizes", class_sizes.to(torch.float32))
        widths = np.concatenate([cells.last - cells.first + 1 for cells in self.cells])
        uniform = torch.from_numpy(widths).to(class_sizes.device, torch.float32).log()
        self.logits = nn.Parameter(uniform.repeat(schema.classes, shape.components, 1))

    def forward(self) -> torch.Tensor:
        """The distribution of each column's cells in each component, concatenated: `[classes, components, cells]`."""
        return torch.cat([torch.softmax(part, dim=2) for part in self._columns(self.logits)], dim=2)

    def _columns(self, joint: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(joint, [len(cells) for cells in self.cells], dim=-1)

    @torch.no_grad()
    def sample(self, count: int) -> EncodedTable:
        """Draw `count` synthetic rows. Raises InvalidInput below 1."""
        sizes, logits = (part.cpu().numpy() for part in (self.class_sizes, self.logits.detach()))
        return StoredGenerator(self.schema, self.cells, sizes, logits).sample(count)


def save_generator(path: Path, generator: Generator) -> None:
    """Write distributions, class sizes and schema as safetensors, atomically."""
    facts = {"schema": generator.schema.as_json(), **asdict(generator.shape)}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in generator.state_dict().items()}
    write_tensors(path, FORMAT, facts, arrays)
