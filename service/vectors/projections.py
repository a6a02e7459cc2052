"""A tenant's public projections, computed on demand and never stored; and the public axes of the encoder."""

from __future__ import annotations

import asyncio

from core.errors import InvalidInput
from core.mechanisms.vectors.projection import Projection, spec_norm_bound
from core.mechanisms.vectors.spec import PACK_AXES, PACK_DIMENSION, PROJECTED_MAX, VectorSpec
from core.mechanisms.vectors.vector_pack import VectorPack
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


class Projections:
    """Prices by a projection, and its file."""

    def __init__(self, settings: Settings, constructions: Constructions) -> None:
        self._settings = settings
        self._constructions = constructions

    async def norm_bound_of(self, spec: VectorSpec, *, tenant: str) -> float:
        """The spectral norm bound that a release by `spec` is priced by. Raises as `Constructions.projection`."""
        if spec.projection != "gaussian":
            return spec_norm_bound(spec, tenant=tenant)
        found = await self._constructions.projection(
            tenant=tenant, kind=spec.projection, dimension=spec.dimension, output_dimension=spec.output_dimension
        )
        return found.spectral_norm_bound

    async def file(self, *, tenant: str, kind: str, dimension: int, output_dimension: int) -> bytes:
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
            pack = await asyncio.to_thread(VectorPack.load, VECTOR_PACK)
            return _file(pack.projection(output_dimension))
        found = await self._constructions.projection(
            tenant=tenant, kind=kind, dimension=dimension, output_dimension=output_dimension
        )
        return await asyncio.to_thread(_file, found)


def _file(found: Projection) -> bytes:
    metadata = {"id": found.id, "stretch": repr(found.spectral_norm_bound)}
    start = header_of("float32", (found.output_dimension, found.dimension), tensor="projection", metadata=metadata)
    return start + found.matrix.tobytes()
