"""The artifact of a synthesis: one file, from which synthetic rows can be drawn at any time, at no cost.

Guarantee: post-processing of one release. Neither the file nor its rows depend on private rows except through the
release.

The file holds a generator's distributions (`pearl`) consistent counts (`marginals`) or the laws of cliques of
columns (`aim`), as safetensors. The front end
draws rows from it, so this module does not import torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.vectors.release import noise_generator
from core.synthesis.aim_release import AimRelease
from core.synthesis.cells import Cells, all_cells
from core.synthesis.columns import STEPS, CodeArray, Column, NumericColumn
from core.synthesis.encoding import EncodedTable
from core.synthesis.marginals_release import MarginalsRelease
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.models.tensor_file import read_tensors, write_tensors


def cell_features(column: Column, cells: Cells, frequencies: np.ndarray) -> np.ndarray:
    """The mean of exp(i t.x) over each cell's codes: complex `[cells, k]`. `frequencies` `[k, coordinates]`."""
    turned: np.ndarray
    if not isinstance(column, NumericColumn):
        turned = np.exp(1j * frequencies.T)
        return turned
    half = frequencies[:, 0] / (2 * STEPS)
    lengths = (cells.last - cells.first + 1)[:, None]
    turned = np.exp(1j * half * (cells.first + cells.last)[:, None])
    # the sum of a geometric series of `lengths` terms, over their number
    one = np.sin(half)
    turned *= np.divide(np.sin(lengths * half), lengths * one, where=one != 0, out=np.ones(turned.shape))
    return turned


FORMAT: Final = "privacy-gateway/generator/1"
FloatArray = npt.NDArray[np.float32]

_BLOCK_NUMBERS = 1 << 21


@dataclass(frozen=True, eq=False)
class StoredGenerator:
    """`logits` `[classes, components, cells]`, with the columns' cells concatenated; `class_sizes` `[classes]`."""

    schema: TableSchema
    cells: list[Cells]
    class_sizes: FloatArray
    logits: FloatArray

    def sample(self, count: int) -> EncodedTable:
        """Draw `count` synthetic rows: a class, one of its components, then each column independently.

        Raises InvalidInput for a count below 1.
        """
        if count < 1:
            raise InvalidInput("A sample has at least one row.", field="rows")
        draw = noise_generator()
        sizes = self.class_sizes.astype(np.float64)
        labels = draw.choice(len(sizes), size=count, p=sizes / sizes.sum())
        components = draw.integers(self.logits.shape[1], size=count)
        step = max(1, _BLOCK_NUMBERS // self.logits.shape[2])
        blocks = [
            self._codes(draw, self.logits[labels[start : start + step], components[start : start + step]])
            for start in range(0, count, step)
        ]
        return EncodedTable(self.schema, np.concatenate(blocks), labels.astype(np.int16))

    def _codes(self, draw: np.random.Generator, logits: FloatArray) -> CodeArray:
        """Draw codes of rows with these logits `[n, cells]`: a cell of each column, and a code within the cell."""
        codes = np.empty((len(logits), len(self.cells)), dtype=np.int16)
        start = 0
        for j, cells in enumerate(self.cells):
            mine = logits[:, start : start + len(cells)].astype(np.float64)
            reached = np.cumsum(np.exp(mine - mine.max(axis=1, keepdims=True)), axis=1)
            level = draw.random((len(mine), 1)) * reached[:, -1:]
            cell = (reached[:, :-1] <= level).sum(axis=1)
            codes[:, j] = draw.integers(cells.first[cell], cells.last[cell] + 1)
            start += len(cells)
        return codes


def stored_generator(facts: Mapping[str, Any], tensors: Mapping[str, FloatArray]) -> StoredGenerator:
    """Build the generator from a file's facts and tensors. Raises ValueError, LookupError or InvalidInput if they do
    not fit."""
    schema = table_schema(facts["schema"])
    cells = all_cells(schema, facts["bins"])
    made = StoredGenerator(schema, cells, tensors["class_sizes"], tensors["logits"])
    shape = (schema.classes, facts["components"], sum(len(each) for each in cells))
    if made.class_sizes.shape != (schema.classes,) or made.logits.shape != shape:
        raise ValueError("the tensors do not match the schema's generator")
    if not (np.isfinite(made.logits).all() and np.isfinite(made.class_sizes).all()):
        raise ValueError("the generator holds a number that is not finite")
    if (made.class_sizes < 0).any() or not made.class_sizes.sum() > 0:
        raise ValueError("the classes have no sizes")
    return made


COUNTS_FORMAT: Final = "privacy-gateway/counts/1"
CLIQUES_FORMAT: Final = "privacy-gateway/cliques/1"


class RowSource(Protocol):
    """Draws synthetic rows of a schema."""

    @property
    def schema(self) -> TableSchema: ...

    def sample(self, count: int) -> EncodedTable:
        """Draw `count` rows. Raises InvalidInput for a count below 1."""
        ...


def save_counts(path: Path, release: MarginalsRelease | AimRelease) -> None:
    """Write the counts, or the laws of the cliques, and a description of their columns atomically."""
    if isinstance(release, AimRelease):
        facts = {"schema": release.schema.as_json(), "names": list(release.arrays()), **release.facts()}
        write_tensors(path, CLIQUES_FORMAT, facts, release.arrays())
        return
    arrays = {f"column.{j}": table for j, table in enumerate(release.tables)}
    facts = {"schema": release.schema.as_json(), "bins": release.bins, "rows": release.rows, "noise": release.noise}
    write_tensors(path, COUNTS_FORMAT, facts, arrays | {"classes": release.classes})


def load_source(path: Path) -> RowSource:
    """Return the row source of an artifact. Raises ValueError for another file or for numbers that are not finite."""
    kind, facts, tensors = read_tensors(path)
    try:
        if kind == FORMAT:
            return stored_generator(facts, tensors)
        if kind == COUNTS_FORMAT:
            return _counts(facts, tensors)
        if kind == CLIQUES_FORMAT:
            return AimRelease.of(table_schema(facts["schema"]), facts, [tensors[name] for name in facts["names"]])
    except (InvalidInput, LookupError, TypeError, AttributeError):
        raise ValueError("the file's metadata does not describe an artifact") from None
    raise ValueError("not an artifact of a known format")


def _counts(facts: dict[str, Any], tensors: dict[str, Any]) -> MarginalsRelease:
    schema = table_schema(facts["schema"])
    tables = tuple(tensors[f"column.{j}"] for j in range(len(schema.columns)))
    classes = tensors["classes"]
    if not all(np.isfinite(array).all() and (array >= 0).all() for array in (*tables, classes)):
        raise ValueError("the counts are not finite")
    return MarginalsRelease(schema, facts["rows"], facts["bins"], tables, classes, facts["noise"])
