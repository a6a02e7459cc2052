"""Public projections R^d -> R^m, derived from their name by a published recipe. Nothing is stored.

Guarantee: |P x| <= `spectral_norm_bound` |x| for every x, where P is the float32 matrix that is published and used. The
guarantee of `privemb` depends on this. P is the same for a whole account, which keeps its releases comparable.

Recipe. The bytes of SHAKE-256 over "privacy-gateway/projection/1", tenant, kind, d and m (UTF-8, joined by line
feeds) are read as little-endian 64-bit words. Each word's upper 53 bits plus one half, over 2^53, are a uniform number.
Two of them, u and v, give two normal ones: sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v). m d of them fill
the matrix row by row. `gaussian`: divided by sqrt(m). `orthonormal`: the rows made orthonormal (QR of the transpose,
R's diagonal positive), then scaled by 1 - 2^-16, so that rounding to float32 does not increase any length. Machines may
differ in the last digit of float32. The guarantee does not depend on it: each bounds the spectral norm of its own
matrix.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from core.mechanisms.vectors.spec import VectorSpec

Matrix = npt.NDArray[np.float32]
SHRINK = 1.0 - 2.0**-16
# Relative margin. The errors of the eigenvalue solver (about m 2^-53) and of a release's float64 product (about
# d 2^-53) are far smaller.
_SLACK = 1.0 + 2.0**-30


@dataclass(frozen=True, eq=False)
class Projection:
    """A public matrix float32 `[m, d]` and an upper bound of its largest singular value."""

    kind: str
    dimension: int
    output_dimension: int
    matrix: Matrix
    spectral_norm_bound: float

    @property
    def id(self) -> str:
        return projection_id(self.kind, dimension=self.dimension, output_dimension=self.output_dimension)

    @cached_property
    def transposed(self) -> npt.NDArray[np.float64]:
        """The matrix as float64 `[d, m]`, for products with rows."""
        return np.ascontiguousarray(self.matrix.T, dtype=np.float64)


def projection_id(kind: str, *, dimension: int, output_dimension: int) -> str:
    """Return the name of a tenant's projection, such as `orthonormal-384-64`."""
    return f"{kind}-{dimension}-{output_dimension}"


def spec_projection(spec: VectorSpec, *, tenant: str) -> Projection | None:
    """Return the tenant's own projection for a release by `spec`, or None if there is none.

    The projection of `pca` belongs to no tenant; it is in the vector pack (`vector_pack.VectorPack.projection`).
    """
    if spec.projection in ("identity", "pca"):
        return None
    return projection(
        tenant=tenant, kind=spec.projection, dimension=spec.dimension, output_dimension=spec.output_dimension
    )


def spec_norm_bound(spec: VectorSpec, *, tenant: str) -> float:
    """Return the spectral norm bound that prices a release by `spec`. Builds the matrix only if it is needed."""
    found = spec_projection(spec, tenant=tenant) if spec.projection == "gaussian" else None
    return 1.0 if found is None else found.spectral_norm_bound


@lru_cache(maxsize=16)
def projection(*, tenant: str, kind: str, dimension: int, output_dimension: int) -> Projection:
    """Return `build_projection` of the arguments, and keep the last results."""
    return build_projection(tenant, kind, dimension, output_dimension)


def build_projection(tenant: str, kind: str, dimension: int, output_dimension: int) -> Projection:
    """Return the tenant's projection of this kind and shape: the same at every call, on every machine.

    Takes milliseconds at 384 to 64 dimensions, seconds at 8,192 to 1,024. Raises ValueError for an unknown kind or
    output_dimension outside 1..dimension.
    """
    if kind not in ("orthonormal", "gaussian") or not 1 <= output_dimension <= dimension:
        raise ValueError("no such projection")
    name = "\n".join(("privacy-gateway/projection/1", tenant, kind, str(dimension), str(output_dimension)))
    rows = derived_normals(name, output_dimension * dimension).reshape(output_dimension, dimension)
    if kind == "orthonormal":
        basis, triangle = np.linalg.qr(rows.T)
        rows = SHRINK * (basis * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T
    else:
        rows /= np.sqrt(output_dimension)
    matrix = np.ascontiguousarray(rows, dtype=np.float32)
    matrix.setflags(write=False)
    spectral_norm_bound = bound_spectral_norm(matrix)
    if kind == "orthonormal":
        if spectral_norm_bound > 1.0:
            raise RuntimeError("the rows of an orthonormal projection are not orthonormal")
        spectral_norm_bound = 1.0
    return Projection(kind, dimension, output_dimension, matrix, spectral_norm_bound)


def bound_spectral_norm(matrix: Matrix) -> float:
    """Return an upper bound of the largest singular value of a matrix `[m, d]`, m <= d, within 2^-29 of it."""
    exact = matrix.astype(np.float64)
    return float(np.sqrt(np.linalg.eigvalsh(exact @ exact.T)[-1]) * _SLACK)


def derived_normals(name: str, count: int) -> npt.NDArray[np.float64]:
    """Derive `count` standard normal numbers from `name` (module docstring). They are public constants, never noise."""
    pairs = (count + 1) // 2
    words = np.frombuffer(hashlib.shake_256(name.encode()).digest(16 * pairs), dtype="<u8")
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[0::2]))
    angle = 2.0 * np.pi * uniform[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
