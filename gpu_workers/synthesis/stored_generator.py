"""A generator's file and its sampling, without torch. The front end uses it to draw synthetic rows.

Guarantee: post-processing of the release that the generator was trained on; no private row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.vectors.release import noise_generator
from core.synthesis.encoding import CodeArray, EncodedTable
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.cells import Cells, all_cells

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
