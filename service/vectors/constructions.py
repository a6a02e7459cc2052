"""Public matrices of vector mechanisms that take long to compute: projections and codebooks.

A large one takes seconds. It is computed once, in a process of the accounting calculations, for all requests that wait
for it. Neither the event loop nor the embed worker waits. The result is shared with the worker as a block of memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from core.errors import QueueFull, TenantLimitReached
from core.mechanisms.vectors.projection import Projection, projection
from core.mechanisms.vectors.spec import VectorSpec, codebook_size
from core.memory import ByteCache
from gpu_workers.engine.arrays import Array, ArrayPool, BlockArray
from gpu_workers.handlers.tasks import PublicProjection
from service.accounting.calculations import Calculations
from service.preparation import Preparation

SMALL_NUMBERS_MAX = 1 << 16  # a matrix of so many numbers takes milliseconds
_BYTES_PER_NUMBER = 16  # that a projection is computed from
KEPT_MAX = 64  # each has an open file, however small it is
OWNER = "the gateway's matrices"  # of the memory; no tenant's name holds a space

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Matrices:
    """What the worker needs for one spec and tenant. It computes what is None: there is none, or it is small."""

    projection: PublicProjection | None = None
    codebook: BlockArray | None = None


NO_MATRICES = Matrices()


@dataclass(frozen=True)
class _Kept:
    matrix: BlockArray
    spectral_norm_bound: float = 1.0

    @cached_property
    def array(self) -> Array:
        """The matrix in place, mapped once for all requests."""
        return self.matrix.read()


@dataclass(frozen=True, eq=False)
class _KeptProjection(Projection):
    """A projection whose memory counts as used while it exists, even if it is not kept for later requests."""

    kept: _Kept


class Constructions:
    """Used on the event loop only. Keeps at most `bytes_max` of matrices and KEPT_MAX of them, the most recent."""

    def __init__(
        self, calculations: Calculations, preparation: Preparation, arrays: ArrayPool, *, bytes_max: int
    ) -> None:
        self._calculations = calculations
        self._preparation = preparation
        self._arrays = arrays
        self._kept: ByteCache[Key, _Kept] = ByteCache(bytes_max, count_max=KEPT_MAX)
        self._computing: dict[Key, asyncio.Task[_Kept]] = {}

    async def matrices(self, spec: VectorSpec, *, tenant: str) -> Matrices:
        """The large matrices of a release by `spec`. Raises as `projection`."""
        shared: PublicProjection | None = None
        if (
            spec.projection in ("orthonormal", "gaussian")
            and spec.dimension * spec.output_dimension > SMALL_NUMBERS_MAX
        ):
            own = await self._projection(tenant, spec.projection, spec.dimension, spec.output_dimension)
            shared = PublicProjection(own.matrix, own.spectral_norm_bound)
        return Matrices(shared, await self._codebook(spec, tenant=tenant))

    async def projection(self, *, tenant: str, kind: str, dimension: int, output_dimension: int) -> Projection:
        """The tenant's projection, as `core.mechanisms.vectors.projection.projection`.

        Raises as `Calculations.run`; QueueFull while there is no memory for it.
        """
        if dimension * output_dimension <= SMALL_NUMBERS_MAX:
            size = dimension * output_dimension * _BYTES_PER_NUMBER
            return await self._preparation.run(
                tenant,
                size,
                partial(projection, tenant=tenant, kind=kind, dimension=dimension, output_dimension=output_dimension),
            )
        own = await self._projection(tenant, kind, dimension, output_dimension)
        return _KeptProjection(kind, dimension, output_dimension, own.array, own.spectral_norm_bound, own)

    async def _projection(self, tenant: str, kind: str, dimension: int, output_dimension: int) -> _Kept:
        async def compute() -> _Kept:
            made: Projection = await self._calculations.run(
                "build_projection", tenant, kind, dimension, output_dimension, tenant=tenant
            )
            return _Kept(await self._shared(made.matrix), made.spectral_norm_bound)

        return await self._get(("projection", tenant, kind, dimension, output_dimension), compute)

    async def _codebook(self, spec: VectorSpec, *, tenant: str) -> BlockArray | None:
        if spec.mechanism != "codebook" or spec.is_trained:
            return None
        dimension = spec.output_dimension
        size = codebook_size(dimension=dimension, epsilon_nano=spec.epsilon_nano).vectors
        if size * dimension <= SMALL_NUMBERS_MAX:
            return None

        async def compute() -> _Kept:
            codes = await self._calculations.run("codebook_codes", dimension, size, tenant=tenant)
            return _Kept(await self._shared(codes))

        return (await self._get(("codebook", dimension, size), compute)).matrix

    async def _get(self, key: Key, compute: Callable[[], Awaitable[_Kept]]) -> _Kept:
        """A kept matrix, or a new one. A request that goes away does not cancel it, because others may wait."""
        if (kept := self._kept.get(key)) is not None:
            return kept
        if key not in self._computing:
            task = asyncio.ensure_future(self._computed(key, compute))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait any more
            self._computing[key] = task
        return await asyncio.shield(self._computing[key])

    async def _computed(self, key: Key, compute: Callable[[], Awaitable[_Kept]]) -> _Kept:
        try:
            made = await compute()
        finally:
            del self._computing[key]
        self._kept.put(key, made, made.matrix.nbytes)
        return made

    async def _shared(self, matrix: Array) -> BlockArray:
        rows, columns = matrix.shape
        self._kept.make_space(matrix.nbytes)
        try:
            block = self._arrays.block(matrix.nbytes, owner=OWNER)
        except TenantLimitReached:  # the owner is no tenant
            raise QueueFull from None
        place = BlockArray(block, str(matrix.dtype), (rows, columns))
        await asyncio.to_thread(place.write_rows, np.ascontiguousarray(matrix), 0)
        return place
