"""The common base of the private vector mechanisms: n vectors in, n released vectors out.

Guarantee of every subclass: each row is released independently, as its own module states. Rows share only the noise
stream. The number of rows and their order are public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from core.errors import InvalidInput
from core.mechanisms.vectors.projection import Projection
from core.mechanisms.vectors.spec import VectorSpec

Rows = npt.NDArray[np.float32] | npt.NDArray[np.float64]  # input vectors
Vectors = npt.NDArray[np.float32]  # released vectors

_TYPES = (np.float32, np.float64)
_BLOCK_NUMBERS = 1 << 20  # float64 numbers of each intermediate array at a time: 8 MiB


class VectorMechanism(ABC):
    """One mechanism with its public parameters. It has no private state, so one object serves any number of calls."""

    def __init__(self, spec: VectorSpec, projection: Projection | None) -> None:
        """Raises ValueError if the projection is not the spec's."""
        if (projection is None) != (spec.projection == "identity" or spec.is_trained):
            raise ValueError("pass a projection if and only if the spec names one")
        if projection is not None:
            shape = (spec.projection, spec.dimension, spec.output_dimension)
            if (projection.kind, projection.dimension, projection.output_dimension) != shape:
                raise ValueError("the projection does not match the spec")
        self.spec = spec
        self.projection = projection

    def release(self, vectors: Rows) -> Vectors:
        """Return one released vector for each row: float32 or float64 `[n, d]` -> float32 `[n, m]`.

        Pass the numbers without conversion: a guarantee that depends on distance refers to the given rows, and a cast
        may increase the distance of two of them.

        Raises: InvalidInput for another shape, another type, or a number that is not finite, before anything is drawn.
        """
        if vectors.dtype not in _TYPES or vectors.ndim != 2 or vectors.shape[1] != self.spec.dimension:
            raise InvalidInput(
                f"Vectors must be float32 or float64 of {self.spec.dimension} dimensions.", field="vectors"
            )
        blocks = list(self._blocks(len(vectors)))
        if not all(np.isfinite(vectors[block]).all() for block in blocks):
            raise InvalidInput("Every coordinate must be a finite number.", field="vectors")
        released = np.empty((len(vectors), self.spec.output_dimension), dtype=np.float32)
        self._release(vectors, blocks, released)
        return released

    def projected(self, vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the rows in the space of the released vectors, `[n, m]`. Without noise: not private.

        The result may be `vectors` itself.
        """
        return vectors if self.projection is None else vectors @ self.projection.transposed

    @abstractmethod
    def _release(self, vectors: Rows, blocks: list[slice], released: Vectors) -> None:
        """Fill `released`, block by block. All arguments are validated."""

    def _blocks(self, rows: int) -> Iterator[slice]:
        step = max(1, _BLOCK_NUMBERS // self.spec.dimension)
        return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
