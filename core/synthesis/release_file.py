"""Serialises a release. A job stores it, so that it continues after a crash without a second release.

The format is MessagePack; arrays are float64, little-endian, in C order. Reading executes no code and checks every
shape.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.synthesis.marginals_release import MARGINALS, MarginalsRelease, cells
from core.synthesis.pearl_release import PEARL, Design, PearlRelease
from core.synthesis.schema import TableSchema, table_schema

FORMAT = "privacy-gateway/release/1"
FloatArray = npt.NDArray[np.float64]
_NUMBER = np.dtype("<f8")


def release_bytes(release: PearlRelease | MarginalsRelease) -> bytes:
    """Serialise a release and its mechanism."""
    facts: dict[str, Any] = {"format": FORMAT, "schema": release.schema.as_json(), "rows": release.rows}
    if isinstance(release, MarginalsRelease):
        arrays = [*release.tables, release.classes]
        facts |= {"mechanism": MARGINALS, "bins": release.bins, "noise": release.noise}
    else:
        arrays = [release.frequencies, release.weights, release.sums, release.counts]
        facts |= {
            "mechanism": PEARL,
            "design": release.design.value,
            "mean_distance": release.mean_distance,
            "sums_noise": release.sums_noise,
            "counts_noise": release.counts_noise,
        }
    facts["arrays"] = [[list(array.shape), array.astype(_NUMBER).tobytes()] for array in arrays]
    packed: bytes = msgpack.packb(facts)
    return packed


def release_of(packed: bytes) -> PearlRelease | MarginalsRelease:
    """Parse the output of `release_bytes`. Raises ValueError for invalid data, and for numbers that are not finite."""
    try:
        facts = msgpack.unpackb(packed)
        if facts.pop("format") != FORMAT:
            raise ValueError
        schema = table_schema(facts.pop("schema"))
        arrays = [_array(shape, numbers) for shape, numbers in facts.pop("arrays")]
        mechanism = facts.pop("mechanism")
        if mechanism == PEARL:
            return _pearl(schema, arrays, facts)
        if mechanism == MARGINALS:
            return _marginals(schema, arrays, facts)
        raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, msgpack.UnpackException, InvalidInput):
        raise ValueError("not a release of a known format") from None


def _pearl(schema: TableSchema, arrays: list[FloatArray], facts: dict[str, Any]) -> PearlRelease:
    frequencies, weights, sums, counts = arrays
    count = len(frequencies)
    _expect(frequencies, count, schema.width)
    _expect(weights, count)
    _expect(sums, schema.classes, count, 2)
    _expect(counts, schema.classes)
    design = Design(facts.pop("design"))
    return PearlRelease(
        schema=schema, design=design, frequencies=frequencies, weights=weights, sums=sums, counts=counts, **facts
    )


def _marginals(schema: TableSchema, arrays: list[FloatArray], facts: dict[str, Any]) -> MarginalsRelease:
    *tables, classes = arrays
    for table, column in zip(tables, schema.columns, strict=True):
        _expect(table, schema.classes, cells(column, facts["bins"]))
    _expect(classes, schema.classes)
    return MarginalsRelease(schema=schema, tables=tuple(tables), classes=classes, **facts)


def _array(shape: list[int], numbers: bytes) -> FloatArray:
    array: FloatArray = np.frombuffer(numbers, _NUMBER).astype(np.float64).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError
    return array


def _expect(array: FloatArray, *shape: int) -> None:
    if array.shape != shape:
        raise ValueError
