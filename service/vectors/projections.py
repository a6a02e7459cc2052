"""A tenant's public projections, computed on demand and never stored; and the public axes of the encoder."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace

from core.errors import InvalidInput
from core.mechanisms.vectors.projection import Projection, VectorPack, spec_norm_bound
from core.mechanisms.vectors.spec import PACK_AXES, PACK_DIMENSION, PROJECTED_MAX, VectorSpec
from gpu_workers.packs import VECTOR_PACK
from service.config.settings import Settings
from service.vectors.constructions import Constructions
from service.vectors.safetensors_header import header_of

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
