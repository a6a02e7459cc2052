"""What the private vector mechanisms share: n vectors in, n released vectors out, and the noise for whole arrays.

Guarantee of every subclass of `VectorMechanism`: each row is released independently, as its own module states. Rows
share only the noise stream. The number of rows and their order are public.

Noise is continuous: a keyed AES stream, L2-Laplace vectors, and a public grid for released values. Guarantee: every
call of `noise_generator` starts its own stream, AES-128 in counter mode under a fresh key from the operating system. No
stream outlives its release, so two processes, forked or not, never share one. There is no seed. Assumption: float64
stands for the real numbers (docs/KNOWN_LIMITATIONS.md).

Large arrays are processed in as many threads as BLAS may use in this process, each block in one thread
(`share_blocks`). This replaces one product over all threads: noise and rounding run in parallel as well, and no thread
waits for another between blocks.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from randomgen import AESCounter
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

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


FloatArray = npt.NDArray[np.float64]

_KEY_BYTES = 16
_GRID_BITS = 40
_TINY = 1e-300


def noise_generator() -> np.random.Generator:
    """Return a generator under a fresh key, for one call."""
    return np.random.Generator(AESCounter(key=int.from_bytes(os.urandom(_KEY_BYTES), "little")))


def add_l2_laplace(values: FloatArray, *, scale: float, generator: np.random.Generator) -> None:
    """Add to each row of `values` `[n, m]` a vector of density proportional to exp(-|z| / scale), in place.

    Guarantee: rows at Euclidean distance r become e^(r / scale)-indistinguishable. The direction is uniform, a normal
    vector over its length; the norm has the law Gamma(m, scale).
    """
    rows, dimension = values.shape
    noise = generator.standard_normal((rows, dimension))
    factors: FloatArray = np.maximum(row_norms(noise), _TINY)
    np.divide(scale * generator.standard_gamma(dimension, rows), factors, out=factors)
    noise *= factors[:, None]
    values += noise


def row_norms(values: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each row, `[n]`."""
    norms: FloatArray = np.sqrt(np.einsum("ij,ij->i", values, values))
    return norms


def scaled_rows(rows: npt.NDArray[np.floating[Any]]) -> FloatArray:
    """Divide each row `[n, d]` by a power of two, so that its largest coordinate lies in [1/2, 1).

    The direction is unchanged, and the squares neither overflow nor vanish. The result is exact, except for coordinates
    that are at most 2^-1000 of the largest. A zero row stays zero.
    """
    exact = rows.astype(np.float64)
    exponents = np.frexp(np.abs(exact).max(axis=1, keepdims=True))[1]
    scaled: FloatArray = np.ldexp(exact, -exponents)
    return scaled


def round_to_grid(values: FloatArray, *, scale: float) -> npt.NDArray[np.float32]:
    """Round `values` to multiples of the public grid of `scale` (`grid`), then to float32. The result may be released.

    Both steps depend only on the noisy numbers. The grid removes the last binary digits of a float64 sum, which would
    reveal the noise's own lattice (Mironov 2012).
    """
    step = grid(scale)
    values *= 1.0 / step
    np.rint(values, out=values)
    values *= step
    return values.astype(np.float32)


def grid(scale: float) -> float:
    """Return the smallest power of two that is at least scale / 2^40."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(1.0, exponent - _GRID_BITS - (mantissa == 0.5))


def share_blocks(work: Callable[[list[slice]], None], blocks: list[slice]) -> None:
    """Run `work` on all of `blocks`, in parallel shares of consecutive blocks. Raises what `work` raises."""
    threads = min(len(blocks), _blas_threads()) if len(blocks) > 1 else 1  # the call takes milliseconds
    if threads == 1:
        work(blocks)
        return
    shares = [blocks[i * len(blocks) // threads : (i + 1) * len(blocks) // threads] for i in range(threads)]
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as executor:
        for done in [executor.submit(work, share) for share in shares]:
            done.result()


def _blas_threads() -> int:
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
