"""A tenant's public projections, made when one is asked for and never stored; and the public axes of the encoder."""

from __future__ import annotations

import asyncio

from core.errors import InvalidInput
from core.mechanisms.vectors.projection import Projection, projection, spec_norm_bound
from core.mechanisms.vectors.spec import PACK_AXES, PACK_DIMENSION, PROJECTED_MAX, VectorSpec
from core.mechanisms.vectors.vector_pack import VectorPack
from gpu_workers.packs import VECTOR_PACK
from service.house import House
from service.vectors.safetensors_header import header_of

KINDS = ("orthonormal", "gaussian", "pca")
RECIPE = (
    "SHAKE-256 over the lines privacy-gateway/projection/1, tenant, kind, d and m; its little-endian 64-bit words, "
    "upper 53 bits plus 1/2 over 2^53, taken in pairs u, v: sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v) "
    "fill [m, d] row by row. gaussian: over sqrt(m). orthonormal: the rows made orthonormal (QR of the transpose, R's "
    "diagonal positive), times 1 - 2^-16. float32. pca: the leading principal axes of public text for the "
    f"{PACK_DIMENSION} dimensions of the bundled encoder, the same for every tenant."
)


async def norm_bound_of(here: House, spec: VectorSpec, *, tenant: str) -> float:
    """The spectral norm bound that a release by `spec` is priced by. A matrix is made in a thread, one at a time."""
    if spec.projection != "gaussian":
        return spec_norm_bound(spec, tenant=tenant)
    async with here.projecting:
        return await asyncio.to_thread(spec_norm_bound, spec, tenant=tenant)


async def projection_file(here: House, *, tenant: str, kind: str, dimension: int, output_dimension: int) -> bytes:
    """The tensor `projection` float32 `[m, d]`, its `id` and `stretch` in the metadata. Raises InvalidInput."""
    if not 1 <= dimension <= here.settings.vector_dimension_max:
        raise InvalidInput(f"at most {here.settings.vector_dimension_max} dimensions a vector", field="dimension")
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
    async with here.projecting:
        found = await asyncio.to_thread(
            projection, tenant=tenant, kind=kind, dimension=dimension, output_dimension=output_dimension
        )
    return _file(found)


def _file(found: Projection) -> bytes:
    metadata = {"id": found.id, "stretch": repr(found.spectral_norm_bound)}
    start = header_of("float32", (found.output_dimension, found.dimension), tensor="projection", metadata=metadata)
    return start + found.matrix.tobytes()
