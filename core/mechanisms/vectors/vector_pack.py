"""Vector packs: public principal axes and codebooks of one encoder's space, one safetensors file.

Guarantee: everything in a pack was computed from public text. Axes and codebooks are constants of the mechanisms. The
file contains vectors, never text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.mechanisms.sentences.domain_pack import CodeArray, FloatArray, checked_array, checked_codes
from core.mechanisms.sentences.pack_facts import InvalidPack
from core.mechanisms.space import Space
from core.mechanisms.vectors.codebook_size import TRAINED_SIZES
from core.mechanisms.vectors.projection import SHRINK, Projection, bound_spectral_norm
from core.mechanisms.vectors.spec import PACK_AXES, PACK_DIMENSION

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
