"""The generator: each class is a mixture of components, and within a component the columns are independent.

A row is drawn as a class, one of the class's components, then a cell of each column by that component's distribution
and a code within the cell. This module reads no private rows.

Instead of the paper's network (Liew, Takahashi and Ueno 2021, appendix I), the distributions themselves are trained.
Sampling uses exactly what is trained, and the characteristic function has a closed form, computed without drawing rows
(`expected_features`). A row whose columns are independent given a component has E exp(i t.x) = prod_j E exp(i t_j.x_j),
where each factor is a mean over the cells of column j. Averaged over the components, this is exactly the characteristic
function of the generator: there is no sampling noise of a batch, and no difference between the distributions that are
trained and those that are sampled.

Shapes: components are probabilities `[classes, components, cells]`, with the columns' cells concatenated. The features
have the mean cosine and sine of each frequency in each class, `[classes, k, 2]`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.synthesis.cells import Cells, all_cells
from core.synthesis.encoding import EncodedTable
from core.synthesis.frequencies import by_column
from core.synthesis.schema import TableSchema
from gpu_workers.models.tensor_file import write_tensors
from gpu_workers.synthesis.stored_generator import FORMAT, StoredGenerator, cell_features

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


ComplexArray = npt.NDArray[np.complex128]
FloatArray = npt.NDArray[np.float64]
ExpectedFeatures = Callable[[torch.Tensor], torch.Tensor]  # see the module's docstring


def expected_features(
    schema: TableSchema, frequencies: FloatArray, cells: list[Cells], device: torch.device
) -> ExpectedFeatures:
    """Return the features of public `frequencies` `[k, d]`."""
    blocks = by_column(schema, frequencies)
    touched = np.stack([(block != 0).any(axis=1) for block in blocks], axis=1)
    if touched.sum(axis=1).max() <= 2:
        return _OfTwoColumns(schema, blocks, touched, cells, device)
    return _OfAllColumns(schema, blocks, cells, device)


class _OfAllColumns:
    """The product over the columns. Time and memory grow with components * k * columns."""

    def __init__(self, schema: TableSchema, blocks: list[FloatArray], cells: list[Cells], device: torch.device) -> None:
        self._sizes = [len(each) for each in cells]
        columns = zip(schema.columns, cells, blocks, strict=True)
        self._factors = [_complex(cell_features(*each), device) for each in columns]

    def __call__(self, components: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor | None = None
        for law, (real, imaginary) in zip(torch.split(components, self._sizes, dim=2), self._factors, strict=True):
            factor = torch.complex(law @ real, law @ imaginary)
            product = factor if product is None else product * factor
        if product is None:
            raise ValueError("a table has columns")
        return torch.view_as_real(product.mean(dim=1))


class _OfTwoColumns:
    """Computed from the mean cells and the mean products of all pairs of factors, with two matrix products.

    A factor and its conjugate share one slot, with a sign.
    """

    def __init__(
        self,
        schema: TableSchema,
        blocks: list[FloatArray],
        touched: npt.NDArray[np.bool_],
        cells: list[Cells],
        device: torch.device,
    ) -> None:
        starts = np.cumsum([0, *(len(each) for each in cells)])
        alone, paired = (np.flatnonzero((touched.sum(axis=1) == 2) == which) for which in (False, True))
        first = touched.argmax(axis=1)
        last = touched.shape[1] - 1 - touched[:, ::-1].argmax(axis=1)
        self._alone = []
        order = []
        for j, (column, own, block) in enumerate(zip(schema.columns, cells, blocks, strict=True)):
            mine = alone[first[alone] == j]
            order.append(mine)
            self._alone.append(_complex(cell_features(column, own, block[mine]), device))
        order.append(paired)
        self._places = torch.from_numpy(np.argsort(np.concatenate(order))).to(device)
        self._sizes = [len(each) for each in cells]
        slots: dict[tuple[int, bytes], int] = {}
        parts: list[ComplexArray] = []
        pairs = np.zeros((4, len(paired)), dtype=np.int64)
        for i, frequency in enumerate(paired):
            for end, j in enumerate((int(first[frequency]), int(last[frequency]))):
                block = blocks[j][frequency]
                sign = 1 if block[np.flatnonzero(block)[0]] > 0 else -1
                facing = sign * block + 0.0  # no -0.0
                key = (j, facing.tobytes())
                if key not in slots:
                    slots[key] = len(slots)
                    part = np.zeros((starts[-1], 1), dtype=np.complex128)
                    part[starts[j] : starts[j + 1]] = cell_features(schema.columns[j], cells[j], facing[None])
                    parts.append(part)
                pairs[2 * end : 2 * end + 2, i] = slots[key], sign
        self._factors = torch.cat(_complex(np.concatenate(parts, axis=1), device), dim=1) if parts else None
        self._pair = torch.from_numpy(pairs[0] * len(slots) + pairs[2]).to(device)
        self._signs = torch.from_numpy(pairs[[1, 3]]).to(device, torch.float32)

    def __call__(self, components: torch.Tensor) -> torch.Tensor:
        laws = torch.split(components.mean(dim=1), self._sizes, dim=1)
        found = [
            torch.stack([law @ part for part in parts], dim=2) for law, parts in zip(laws, self._alone, strict=True)
        ]
        if self._factors is not None:
            found.append(self._of_pairs(components @ self._factors))
        return torch.cat(found, dim=1)[:, self._places]

    def _of_pairs(self, both: torch.Tensor) -> torch.Tensor:
        """Compute from the factors' cosines, then their sines, `[classes, components, 2 slots]`."""
        products = both.mT @ both / both.shape[1]
        corners = [corner for rows in products.chunk(2, dim=1) for corner in rows.chunk(2, dim=2)]
        cc, cs, sc, ss = (corner.flatten(1)[:, self._pair] for corner in corners)
        one, two = self._signs
        return torch.stack([cc - one * two * ss, one * sc + two * cs], dim=2)


def _complex(table: ComplexArray, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    real, imaginary = (torch.from_numpy(part.copy()).to(device, torch.float32) for part in (table.real, table.imag))
    return real, imaginary
