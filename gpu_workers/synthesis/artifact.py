"""The artifact of a synthesis: one file, from which synthetic rows can be drawn at any time, at no cost.

It holds a generator's distributions (`pearl`) or consistent counts (`marginals`), as safetensors. Guarantee:
post-processing of one release. Neither the file nor its rows depend on private rows except through the release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from core.errors import InvalidInput
from core.synthesis.encoding import EncodedTable
from core.synthesis.marginals_release import MarginalsRelease
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.models.tensor_file import read_tensors, write_tensors
from gpu_workers.synthesis.stored_generator import FORMAT, stored_generator

COUNTS_FORMAT: Final = "privacy-gateway/counts/1"


class RowSource(Protocol):
    """Draws synthetic rows of a schema."""

    @property
    def schema(self) -> TableSchema: ...

    def sample(self, count: int) -> EncodedTable:
        """Draw `count` rows. Raises InvalidInput for a count below 1."""
        ...


def save_counts(path: Path, release: MarginalsRelease) -> None:
    """Write the counts and a description of their columns atomically."""
    arrays = {f"column.{j}": table for j, table in enumerate(release.tables)}
    facts = {
        "schema": release.schema.as_json(),
        "bins": release.bins,
        "rows": release.rows,
        "noise": release.noise,
    }
    write_tensors(path, COUNTS_FORMAT, facts, arrays | {"classes": release.classes})


def load_source(path: Path) -> RowSource:
    """Return the row source of an artifact. Raises ValueError for another file or for numbers that are not finite."""
    kind, facts, tensors = read_tensors(path)
    try:
        if kind == FORMAT:
            return stored_generator(facts, tensors)
        if kind == COUNTS_FORMAT:
            return _counts(facts, tensors)
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
