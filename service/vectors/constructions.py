"""Public matrices of vector mechanisms that take long to compute: projections and codebooks.

A large one takes seconds. It is computed once, in a process of the accounting calculations, for all requests that wait
for it. Neither the event loop nor the embed worker waits. The result is shared with the worker as a block of memory. A
tenant's public projections are computed on demand and never stored; the axes of the encoder are public, too.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from core.errors import InvalidInput, QueueFull, TenantLimitReached
from core.mechanisms.vectors.projection import Projection, VectorPack, projection, spec_norm_bound
from core.mechanisms.vectors.spec import PACK_AXES, PACK_DIMENSION, PROJECTED_MAX, VectorSpec, codebook_size
from core.memory import ByteCache
from gpu_workers.engine.arrays import Array, ArrayPool, BlockArray
from gpu_workers.handlers.tasks import PublicProjection
from gpu_workers.packs import VECTOR_PACK
from service.accounting.calculations import Calculations
from service.config.settings import Settings
from service.preparation import Preparation
from service.vectors.safetensors_header import header_of

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


KINDS = ("orthonormal", "gaussian", "pca")
RECIPE = (
    "SHAKE-256 over the lines privacy-gateway/projection/1, tenant, kind, d and m; its little-endian 64-bit words, "
    "upper 53 bits plus 1/2 over 2^53, taken in pairs u, v: sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v) "
    "fill [m, d] row by row. gaussian: over sqrt(m). orthonormal: the rows made orthonormal (QR of the transpose, R's "
    "diagonal positive), times 1 - 2^-16. float32. pca: the leading principal axes of public text for the "
    f"{PACK_DIMENSION} dimensions of the bundled encoder, the same for every tenant."
)


@dataclass(frozen=True)
class ProjectionFile:
    """The parts of a file, in the memory of `projection`. `etag`: None for a tenant's own projection."""

    buffers: list[bytes | memoryview]
    projection: Projection
    etag: str | None = None


class Projections:
    """Prices by a projection, and its file."""

    def __init__(self, settings: Settings, constructions: Constructions) -> None:
        self._settings = settings
        self._constructions = constructions
        self._axes: asyncio.Future[tuple[Projection, str]] | None = None

    async def norm_bound_of(self, spec: VectorSpec, *, tenant: str) -> float:
        """The spectral norm bound that a release by `spec` is priced by. Raises as `Constructions.projection`."""
        if spec.projection != "gaussian":
            return spec_norm_bound(spec, tenant=tenant)
        found = await self._constructions.projection(
            tenant=tenant, kind=spec.projection, dimension=spec.dimension, output_dimension=spec.output_dimension
        )
        return found.spectral_norm_bound

    async def file(self, *, tenant: str, kind: str, dimension: int, output_dimension: int) -> ProjectionFile:
        """A safetensors file with the tensor `projection` float32 `[m, d]`; `id` and `stretch` (the spectral norm
        bound) are in its metadata. Raises InvalidInput, and as `Constructions.projection`."""
        dimension_max = self._settings.vector_dimension_max
        if not 1 <= dimension <= dimension_max:
            raise InvalidInput(f"at most {dimension_max} dimensions a vector", field="dimension")
        if not 1 <= output_dimension <= min(dimension, PROJECTED_MAX):
            raise InvalidInput(
                f"a projection has at most {PROJECTED_MAX} dimensions and no more than the vectors",
                field="output_dimension",
            )
        if kind == "pca":
            if dimension != PACK_DIMENSION or output_dimension > PACK_AXES:
                raise InvalidInput(f"there are {PACK_AXES} axes of {PACK_DIMENSION} dimensions", field="dimension")
            return await self._axes_file(output_dimension)
        return _file(
            await self._constructions.projection(
                tenant=tenant, kind=kind, dimension=dimension, output_dimension=output_dimension
            )
        )

    async def _axes_file(self, output_dimension: int) -> ProjectionFile:
        """The first principal axes. The pack is loaded at the first call, for all tenants."""
        if self._axes is None:
            self._axes = asyncio.ensure_future(asyncio.to_thread(_load_axes))
        axes, digest = await asyncio.shield(self._axes)
        # fewer rows of a matrix have no larger norm than all of them
        found = replace(axes, output_dimension=output_dimension, matrix=axes.matrix[:output_dimension])
        return replace(_file(found), etag=f'"{digest}-{output_dimension}"')


def _load_axes() -> tuple[Projection, str]:
    axes = VectorPack.load(VECTOR_PACK).projection(PACK_AXES)
    return axes, hashlib.sha256(axes.matrix.data).hexdigest()[:32]


def _file(found: Projection) -> ProjectionFile:
    metadata = {"id": found.id, "stretch": repr(found.spectral_norm_bound)}
    start = header_of("float32", (found.output_dimension, found.dimension), tensor="projection", metadata=metadata)
    return ProjectionFile([start, found.matrix.reshape(-1).view("u1").data], found)
