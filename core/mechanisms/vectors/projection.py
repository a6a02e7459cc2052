"""Public projections R^d -> R^m, derived from their name by a published recipe, and packs of trained axes.

No derived projection is stored. Guarantee: |P x| <= `spectral_norm_bound` |x| for every x, where P is the float32
matrix that is published and used. The guarantee of `privemb` depends on this. P is the same for a whole account, which
keeps its releases comparable.

Recipe. The bytes of SHAKE-256 over "privacy-gateway/projection/1", tenant, kind, d and m (UTF-8, joined by line
feeds) are read as little-endian 64-bit words. Each word's upper 53 bits plus one half, over 2^53, are a uniform number.
Two of them, u and v, give two normal ones: sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v). m d of them fill
the matrix row by row. `gaussian`: divided by sqrt(m). `orthonormal`: the rows made orthonormal (QR of the transpose,
R's diagonal positive), then scaled by 1 - 2^-16, so that rounding to float32 does not increase any length. Machines may
differ in the last digit of float32. The guarantee does not depend on it: each bounds the spectral norm of its own
matrix.

Vector packs (`VectorPack`) have public principal axes and codebooks of one encoder's space, one safetensors file.
Guarantee: everything in a pack was computed from public text. Axes and codebooks are constants of the mechanisms. The
file contains vectors, never text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.mechanisms.sentences.domain_pack import CodeArray, FloatArray, InvalidPack, checked_array, checked_codes
from core.mechanisms.space import Space
from core.mechanisms.vectors.spec import PACK_AXES, PACK_DIMENSION, TRAINED_SIZES, VectorSpec

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

    The projection of `pca` belongs to no tenant; it is in the vector pack (`VectorPack.projection`).
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


FORMAT = "privacy-gateway/vector-pack/2"
_TEXTS = ("name", "encoder", "encoder_fingerprint", "source", "licence")


@dataclass(frozen=True)
class VectorPack:
    """A loaded pack. Its arrays are read-only.

    Shapes: `axes` float32 `[64, d]`, orthonormal rows, by decreasing variance; `centre` float32 `[d]`, the mean of
    public vectors; `space` maps a vector to int8 coordinates on `code_axes` (float32 `[r, d]`, orthonormal rows), where
    one unit of length is `step` (float32 `[r]`) grid units; `codebooks` maps N to int8 centroids `[N, r]` in that
    space. `texts`: name, encoder, its fingerprint, source, licence.
    """

    texts: Mapping[str, str]
    space: Space
    codebooks: Mapping[int, CodeArray]
    axes: FloatArray
    centre: FloatArray
    code_axes: FloatArray
    step: FloatArray

    def projection(self, output_dimension: int) -> Projection:
        """Return the first principal axes as a projection of spectral norm 1."""
        matrix = np.ascontiguousarray(SHRINK * self.axes[:output_dimension], dtype=np.float32)
        if bound_spectral_norm(matrix) > 1.0:
            raise InvalidPack("the axes are not orthonormal")
        matrix.setflags(write=False)
        return Projection("pca", self.axes.shape[1], output_dimension, matrix, 1.0)

    def vectors(self, size: int) -> FloatArray:
        """Return the codebook's centroids in the encoder's space, float32 `[N, d]`. They have no unit length."""
        return np.asarray(self.centre + self.codebooks[size] / self.step @ self.code_axes, dtype=np.float32)

    @classmethod
    def load(cls, path: Path, *, encoder_fingerprint: str | None = None) -> VectorPack:
        """Load and check the pack at `path`.

        Raises: InvalidPack for a malformed file, wrong dimensions, a number that is not finite or not exact, axes that
        are not orthonormal, and, if `encoder_fingerprint` is given, for a pack of another encoder.
        """
        try:
            with safe_open(path, framework="numpy") as file:
                texts = dict(file.metadata() or {})
                raw = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except (OSError, SafetensorError, TypeError):
            raise InvalidPack("the file is not a readable safetensors file") from None
        if texts.pop("format", "") != FORMAT or set(texts) != set(_TEXTS):
            raise InvalidPack("the file is not a vector pack")
        if encoder_fingerprint not in (None, texts["encoder_fingerprint"]):
            raise InvalidPack("the pack was made for another encoder")
        if {name: array.shape for name, array in raw.items()} != _shapes(len(raw.get("space.directions", ()))):
            raise InvalidPack("the pack's tensors are not those of its format")
        space = Space(
            checked_codes(raw["space.directions"]),
            checked_array(raw["space.factor"]),
            checked_array(raw["space.shift"]),
        )
        pack = cls(
            texts=texts,
            space=space,
            codebooks={size: checked_codes(raw[f"codebook.{size}"]) for size in TRAINED_SIZES},
            axes=checked_array(raw["axes"]),
            centre=checked_array(raw["centre"]),
            code_axes=checked_array(raw["code_axes"]),
            step=checked_array(raw["step"]),
        )
        if not space.is_exact() or not pack.step.min() > 0:
            raise InvalidPack("the space's sums are not exact")
        pack.projection(PACK_AXES)
        return pack

    def save(self, path: Path) -> None:
        """Write the pack. Replaces `path` atomically."""
        tensors: dict[str, npt.NDArray[np.generic]] = {
            "axes": self.axes,
            "centre": self.centre,
            "code_axes": self.code_axes,
            "step": self.step,
            "space.directions": self.space.directions,
            "space.factor": self.space.factor,
            "space.shift": self.space.shift,
        }
        tensors |= {f"codebook.{size}": codes for size, codes in self.codebooks.items()}
        partial = path.with_suffix(".partial")
        # safetensors writes the memory buffer as it is, so a transposed array would be read back scrambled
        rows = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        partial.write_bytes(save(rows, metadata={"format": FORMAT, **self.texts}))
        partial.replace(path)


def _shapes(rank: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "axes": (PACK_AXES, PACK_DIMENSION),
        "centre": (PACK_DIMENSION,),
        "code_axes": (rank, PACK_DIMENSION),
        "step": (rank,),
        "space.directions": (rank, PACK_DIMENSION),
        "space.factor": (rank,),
        "space.shift": (rank,),
    }
    return shapes | {f"codebook.{size}": (size, rank) for size in TRAINED_SIZES}
