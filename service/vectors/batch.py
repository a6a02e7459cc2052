"""What is to be released, checked: texts, or vectors in shared memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import InvalidInput
from core.mechanisms.vectors.spec import VectorSpec
from gpu_workers.engine.arrays import Array, ArrayPool, BlockArray
from service.config.settings import Settings

FLOAT32, FLOAT64 = "float32", "float64"
_FLOAT16_MAGNITUDE, _FLOAT16_INFINITY = np.uint16(0x7FFF), 0x7C00
_CHECKED_AT_ONCE = 1 << 18  # numbers: half a megabyte, which stays in the cache


@dataclass(frozen=True)
class VectorBatch:
    """Either `texts`, or `vectors` `[rows, d]`."""

    rows: int
    texts: tuple[str, ...] | None = None
    vectors: BlockArray | None = None

    @property
    def usage(self) -> dict[str, int]:
        """The `usage` block of an answer."""
        return {"vectors": self.rows}


def text_batch(texts: Sequence[str], settings: Settings) -> VectorBatch:
    """Each text as one unit. Raises InvalidInput for a blank one, a long one or too many."""
    if len(texts) > settings.vector_texts_max:
        raise InvalidInput(f"at most {settings.vector_texts_max} texts a call", field="texts")
    for index, text in enumerate(texts):
        if not text.strip():
            raise InvalidInput("a text must hold something", field=f"texts.{index}")
        if len(text) > settings.document_chars_max:
            raise InvalidInput(f"at most {settings.document_chars_max} characters a text", field=f"texts.{index}")
    return VectorBatch(len(texts), texts=tuple(texts))


def rows_dimension(rows: Sequence[Sequence[float]]) -> int:
    """The dimension of vectors that came as lists of numbers. Raises InvalidInput for rows of several lengths."""
    dimension = len(rows[0])
    if any(len(row) != dimension for row in rows):
        raise InvalidInput("all vectors must have the same dimension", field="vectors")
    return dimension


def matrix_of(rows: Sequence[Sequence[float]]) -> Array:
    """Lists of finite numbers in float64: a cast would increase the distance of near vectors."""
    return np.asarray(rows, dtype=np.float64)


def array_batch(arrays: ArrayPool, matrix: Array, spec: VectorSpec, *, tenant: str) -> VectorBatch:
    """The vectors of `matrix_of`, in shared memory. Raises QueueFull, TenantLimitReached."""
    placed = BlockArray(arrays.block(matrix.nbytes, owner=tenant), FLOAT64, (len(matrix), spec.dimension))
    placed.write_rows(matrix, 0)
    return VectorBatch(len(matrix), vectors=placed)


async def file_batch(vectors: BlockArray) -> VectorBatch:
    """Vectors that came as a file. Raises InvalidInput for a number that is not finite."""
    if not await asyncio.to_thread(_finite, vectors):
        raise InvalidInput("every number of a vector must be finite", field="vectors")
    return VectorBatch(vectors.shape[0], vectors=vectors)


def _finite(vectors: BlockArray) -> bool:
    """A sum of finite numbers may overflow, one with an infinity or NaN is never finite: mostly one pass is enough."""
    numbers = vectors.read()
    if numbers.dtype == np.float16:  # its arithmetic is slow; all ones in the exponent are the largest magnitudes
        rows = max(1, _CHECKED_AT_ONCE // numbers.shape[1])
        parts = (numbers[start : start + rows].view(np.uint16) for start in range(0, len(numbers), rows))
        return all(int((part & _FLOAT16_MAGNITUDE).max()) < _FLOAT16_INFINITY for part in parts)
    with np.errstate(over="ignore", invalid="ignore"):
        total = numbers.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(numbers).all())
