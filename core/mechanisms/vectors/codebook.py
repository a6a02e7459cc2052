"""`codebook`: release one of the public vectors nearest to the input, or another one.

Guarantee: pure epsilon-DP over all pairs of vectors, at every epsilon exactly: for any x, x' and every set S of
vectors, Pr[A(x) in S] <= e^eps Pr[A(x') in S]. This needs no assumption about the vectors. Only their direction is
used.

The n of the N vectors with the largest cosine form a vector's subset: exactly n, ties by index. The release is a
uniform member with probability n e^eps / (n e^eps + N - n), else a uniform other one, by `subset_selection`, which
samples exactly and has the proof. N and n are functions of dimension and epsilon (`spec.codebook_size`).

The subset must be a function of the row alone: if it depended on other rows of a call, a row would affect their
releases. Therefore everything before it is integer arithmetic (`integer_vectors`): the vector's code, its product with
the projection's codes, that product's code, its product with the codebook's. The subset of a zero vector is the first
n.

The codebook: N standard normal vectors, 1,024 for each name, by `derived_normals` of
"privacy-gateway/codebook/1\\n<dimension>\\n<number>", numbers from 0, coded by `_direction` and divided by their
lengths. Smaller codebooks are prefixes of larger ones.

**With the projection `pca`** (`TrainedCodebookMechanism`) the release is the nearest of N public centroids of a vector
pack, or another one, under the same guarantee with centroids for vectors.

The code c(x) of the nearest centroid is a function of that row alone (`core.mechanisms.integer_vectors`). It goes
through k-ary randomised response over the N codes, which samples exactly: it stays with probability e^eps / (e^eps + N
- 1). The release is the centroid of the resulting code, in the encoder's own space, by a lookup. N is
`spec.trained_size`.

Sources: subset selection: Ye and Barg 2018, in the dual form of `document_selection`. The trained codebook: this
project; randomised response: Kairouz, Bonawitz and Ramage 2016.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.integer_vectors import CodeMatrix, CodeSpace, codes_of, fine_integers
from core.mechanisms.samplers.discrete_noise import randomised_response, subset_selection
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences.release import row_chunks
from core.mechanisms.vectors.projection import Projection, VectorPack, derived_normals
from core.mechanisms.vectors.release import Rows, VectorMechanism, Vectors, scaled_rows
from core.mechanisms.vectors.spec import VectorSpec, codebook_size, trained_size

_CPU = torch.device("cpu")
_CHUNK = 1024  # codebook vectors derived from one name


class CodebookMechanism(VectorMechanism):
    """The module docstring has guarantee and source."""

    def __init__(self, spec: VectorSpec, projection: Projection | None, codebook: Codebook | None = None) -> None:
        """`codebook`: that of the spec, derived if it is not given.

        Raises RuntimeError if this machine's integer products are wrong, ValueError for another codebook.
        """
        super().__init__(spec, projection)
        self.size = codebook_size(dimension=spec.output_dimension, epsilon_nano=spec.epsilon_nano)
        if codebook is None:
            codebook = spherical_codebook(spec.output_dimension, self.size.vectors)
        if codebook.codes.shape != (self.size.vectors, spec.output_dimension):
            raise ValueError("the codebook does not match the spec")
        self.codebook = codebook
        self._projection: CodeMatrix | None = None
        if projection is not None:
            self._projection = _checked(_direction(projection.matrix))

    @property
    def vectors(self) -> Vectors:
        """All vectors of the codebook, float32 `[N, d]`."""
        return self.codebook.vectors(np.arange(self.size.vectors))

    def _release(self, vectors: Rows, blocks: list[slice], released: Vectors) -> None:
        for block in blocks:
            subsets = self.subsets(vectors[block])
            size, epsilon = self.size.vectors, self.spec.epsilon_nano
            released[block] = self.codebook.vectors(subset_selection(subsets, size=size, epsilon_nano=epsilon))

    def subsets(self, vectors: Rows) -> IntArray:
        """Return the nearest codebook vectors of each row. Without noise: not private. int64 `[n, neighbours]`."""
        nearest = np.empty((len(vectors), self.size.neighbours), dtype=np.int64)
        for part in row_chunks(len(vectors)):
            codes = _direction(vectors[part])
            if self._projection is not None:
                codes = codes_of(self._projection.dots(codes).to(torch.float64))
            nearest[part] = self.codebook.matrix.nearest(codes, self.size.neighbours).numpy()
        return nearest


class Codebook:
    """A codebook by its codes, int8 `[N, d]`."""

    def __init__(self, codes: torch.Tensor, *, is_checked: bool = False) -> None:
        """`is_checked`: whether this process has checked its products with these codes before.

        Raises RuntimeError if this machine's integer products are wrong.
        """
        self.codes = codes
        self.matrix = CodeMatrix(codes, _CPU) if is_checked else _checked(codes)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.matrix.own_nbytes(self.codes)

    def vectors(self, indices: IntArray) -> npt.NDArray[np.float32]:
        """Return the unit vectors with these numbers, float32 `[n, d]`.

        A squared length is an integer below 2^24, hence exact in float32, so a vector is the same in every call.
        """
        return torch.nn.functional.normalize(self.codes[torch.from_numpy(indices)].to(torch.float32), dim=1).numpy()


@lru_cache(maxsize=4)
def spherical_codebook(dimension: int, size: int) -> Codebook:
    """Return the codebook, derived in this process: 3 s for 65,536 vectors of 1,024 dimensions."""
    return Codebook(torch.from_numpy(codebook_codes(dimension, size)))


def codebook_codes(dimension: int, size: int) -> npt.NDArray[np.int8]:
    """Derive the codes of a codebook, int8 `[size, dimension]`: the same at every call, on every machine."""
    codes = np.empty((size, dimension), dtype=np.int8)
    for i in range(size // _CHUNK):
        normals = derived_normals(f"privacy-gateway/codebook/1\n{dimension}\n{i}", _CHUNK * dimension)
        codes[i * _CHUNK : (i + 1) * _CHUNK] = _direction(normals.reshape(_CHUNK, dimension).astype(np.float32))
    return codes


def _direction(vectors: Rows) -> torch.Tensor:
    """Return each row's direction as int8 codes `[n, d]`, a function of that row alone, whatever its length."""
    scaled = torch.from_numpy(scaled_rows(vectors))
    return codes_of(fine_integers(scaled, torch.zeros(scaled.shape[1])))


def _checked(codes: torch.Tensor) -> CodeMatrix:
    matrix = CodeMatrix(codes, _CPU)
    if not matrix.self_check():
        raise RuntimeError("the integer products of this machine are wrong")
    return matrix


class TrainedCodebookMechanism(VectorMechanism):
    """The module docstring has guarantee and source."""

    def __init__(self, spec: VectorSpec, pack: VectorPack) -> None:
        """Raises RuntimeError if this machine's integer products are wrong."""
        super().__init__(spec, None)
        self.size = trained_size(spec.epsilon_nano)
        self.vectors = pack.vectors(self.size)
        self._space = CodeSpace(pack.space, {self.size: pack.codebooks[self.size]}, torch.device("cpu"))
        if not self._space.self_check():
            raise RuntimeError("the integer products of this machine are wrong")

    def codes(self, vectors: Rows) -> IntArray:
        """Return the nearest centroid of each row. Without noise: not private. int64 `[n]`."""
        return self._space.nearest(torch.from_numpy(np.ascontiguousarray(vectors)), self.size)

    def _release(self, vectors: Rows, blocks: list[slice], released: Vectors) -> None:
        for block in blocks:
            codes = self.codes(vectors[block])
            kept = randomised_response(codes, size=self.size, epsilon_nano=self.spec.epsilon_nano)
            released[block] = self.vectors[kept]
