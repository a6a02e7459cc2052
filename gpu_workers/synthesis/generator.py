"""The generator: each class a mixture of components, and within a component every column by itself.

A row is drawn as a class, one of the class's components, then a cell of each column by that component's law and a code
within the cell. Nothing here reads private rows.

In place of the paper's network (Liew, Takahashi and Ueno 2021, appendix I) the laws themselves are learnt: they have a
characteristic function in closed form (`expected_features`), and what is trained is what is drawn.
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

_LOGITS_MAX = 1 << 23  # of a generator whose shape nobody chose: about 300 MB while it is trained


@dataclass(frozen=True)
class GeneratorShape:
    """`components` of each class; even `bins` between the bounds of a numeric column (`cells`)."""

    components: int = 512
    bins: int = 64


def default_shape(schema: TableSchema) -> GeneratorShape:
    """As many components as a wide schema of many classes leaves memory for."""
    shape = GeneratorShape()
    cells = sum(len(cells) for cells in all_cells(schema, shape.bins))
    return replace(shape, components=max(1, min(shape.components, _LOGITS_MAX // (schema.classes * cells))))


class Generator(nn.Module):
    """Rows of a schema; `class_sizes` `[classes]` says how often each class is drawn.

    `curve`: (step, objective) along the training, for a report.
    """

    def __init__(self, schema: TableSchema, class_sizes: torch.Tensor, shape: GeneratorShape) -> None:
        """Of components that are all uniform."""
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
        """The law of each column's cells in each component, side by side: `[classes, components, cells]`."""
        return torch.cat([torch.softmax(part, dim=2) for part in self._columns(self.logits)], dim=2)

    def _columns(self, joint: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.split(joint, [len(cells) for cells in self.cells], dim=-1)

    @torch.no_grad()
    def sample(self, count: int) -> EncodedTable:
        """`count` synthetic rows. Raises InvalidInput below 1."""
        sizes, logits = (part.cpu().numpy() for part in (self.class_sizes, self.logits.detach()))
        return StoredGenerator(self.schema, self.cells, sizes, logits).sample(count)


def save_generator(path: Path, generator: Generator) -> None:
    """Write laws, class sizes and schema as safetensors, whole or not at all."""
    facts = {"schema": generator.schema.as_json(), **asdict(generator.shape)}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in generator.state_dict().items()}
    write_tensors(path, FORMAT, facts, arrays)
