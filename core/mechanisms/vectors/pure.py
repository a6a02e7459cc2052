"""The vector mechanisms that are pure DP over all pairs of vectors, `privunit` and `codebook`, and the table of all.

**`privunit`** (`PrivUnitMechanism`): a Gaussian vector, tilted towards the direction of the vector (PrivUnitG).

Guarantee: pure epsilon-DP over all pairs of vectors: Pr[A(x) in S] <= e^eps Pr[A(x') in S] for any x, x' and S.
The release depends only on the direction u = x / |x|. The direction of a zero vector is the first axis.

Let q = P(N > gamma) for a standard normal N. The release is (G - <G, u> u + t u) / E[t], G standard normal, where t is
N given N > gamma with probability p, else N given N <= gamma. E[t] is a public number (`CapLaw.mean`), so that the
release is unbiased: its expectation is u. Its length is about sqrt(m) / E[t], far above 1.

Proof. The vector before the division has the standard normal density times p / q where <y, u> > gamma and times
(1 - p) / (1 - q) elsewhere, for every u. The quotient of these two numbers is at most e^eps iff
p / (1 - p) <= e^eps q / (1 - q).

The coin of probability p is exact: 64 random bits against an integer threshold. The threshold is rounded down, from
odds smaller than the computed ones by 2^-46 (1 + eps), so that the inequality holds for every rounding of q. As in
`add_l2_laplace`, t and G are assumed to be real numbers.

gamma is public, a function of epsilon and dimension alone. It maximises the mean of t / sqrt(t^2 + m - 1), which is the
cosine between release and vector with the length of the remainder replaced by its mean.

Source: Asi, Feldman and Talwar 2022 (PrivUnitG); Bhowmick et al. 2018 (PrivUnit).

**`codebook`** (`CodebookMechanism`): release one of the public vectors nearest to the input, or another one.

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
through k-ary randomised response over the N codes, which samples exactly: it stays with probability
e^eps / (e^eps + N - 1). The release is the centroid of the resulting code, in the encoder's own space, by a lookup. N
is `spec.trained_size`.

Sources: subset selection: Ye and Barg 2018, in the dual form of `document_selection`. The trained codebook: this
project; randomised response: Kairouz, Bonawitz and Ramage 2016.

`vector_mechanism` builds every mechanism by its name. This module loads torch and scipy, for workers. `metric` has the
other mechanisms, without them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtri_exp

from core.amounts import NANO
from core.mechanisms.integer_vectors import CodeMatrix, CodeSpace, codes_of, fine_integers
from core.mechanisms.samplers.discrete_noise import randomised_response, subset_selection
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences.release import row_chunks
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.projection import Projection, VectorPack, derived_normals
from core.mechanisms.vectors.release import (
    FloatArray,
    Rows,
    VectorMechanism,
    Vectors,
    noise_generator,
    round_to_grid,
    row_norms,
    scaled_rows,
    share_blocks,
)
from core.mechanisms.vectors.spec import VectorSpec, codebook_size, trained_size

_COIN_BITS = 64
_MARGIN = 2.0**-46  # for ln q and eps, each of which has an error of a few units of 2^-53
_LOG_ODDS_MAX = 27.0  # reached only in one dimension; keeps the threshold below 2^64
_LOG_QUANTILES = np.log((np.arange(512) + 0.5) / 512)


@dataclass(frozen=True)
class CapLaw:
    """The law of t: above `gamma` with probability `threshold` / 2^64; `log_share` is ln P(N > gamma)."""

    gamma: float
    log_share: float
    threshold: int
    mean: float

    def draw(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Return `count` independent t, float64."""
        words = np.frombuffer(os.urandom(_COIN_BITS // 8 * count), dtype=np.uint64)
        inside = words < np.uint64(self.threshold)
        values = np.empty(count)
        # Given N > gamma, P(N > t) is uniform on (0, q), and minus the logarithm of a uniform number is exponential.
        tail = self.log_share - generator.standard_exponential(int(inside.sum()))
        values[inside] = -ndtri_exp(tail)
        outside = np.flatnonzero(~inside)
        while len(outside):  # gamma >= 0: at least half are accepted
            values[outside] = generator.standard_normal(len(outside))
            outside = outside[values[outside] > self.gamma]
        return values


@lru_cache(maxsize=256)
def cap_law(*, dimension: int, epsilon_nano: int) -> CapLaw:
    """Return the law of t in m dimensions at this epsilon. It is public and deterministic."""
    epsilon = epsilon_nano / NANO

    def loss(gamma: float) -> float:
        return -_mean_cosine(gamma, epsilon, dimension)

    gamma = float(minimize_scalar(loss, bounds=(0.0, math.sqrt(2 * epsilon) + 1), method="bounded").x)
    log_share = float(log_ndtr(-gamma))
    odds = Fraction(math.exp(min(_log_odds(gamma, epsilon), _LOG_ODDS_MAX)) * (1.0 - _MARGIN * (1.0 + epsilon)))
    threshold = int(odds / (1 + odds) * 2**_COIN_BITS)
    p = threshold / 2.0**_COIN_BITS
    log_density = -gamma * gamma / 2 - math.log(2 * math.pi) / 2
    mean = p * math.exp(log_density - log_share) - (1 - p) * math.exp(log_density - float(log_ndtr(gamma)))
    return CapLaw(gamma, log_share, threshold, mean)


def _log_odds(gamma: float, epsilon: float) -> float:
    """Return ln of the largest odds p / (1 - p) that epsilon admits."""
    return epsilon + float(log_ndtr(-gamma)) - float(log_ndtr(gamma))


def _mean_cosine(gamma: float, epsilon: float, dimension: int) -> float:
    """Return the mean of t / sqrt(t^2 + m - 1): p (1 - e^-eps) of its mean given t > gamma, since it is odd in N."""
    above = -ndtri_exp(_LOG_QUANTILES + log_ndtr(-gamma))
    p = 1.0 / (1.0 + math.exp(-_log_odds(gamma, epsilon)))
    return float((above / np.sqrt(above * above + (dimension - 1))).mean()) * p * -math.expm1(-epsilon)


class PrivUnitMechanism(VectorMechanism):
    """The module docstring has guarantee, proof and source."""

    def __init__(self, spec: VectorSpec, projection: Projection | None) -> None:
        super().__init__(spec, projection)
        self.law = cap_law(dimension=spec.output_dimension, epsilon_nano=spec.epsilon_nano)

    def _release(self, vectors: Rows, blocks: list[slice], released: Vectors) -> None:
        scale = 1.0 / self.law.mean

        def work(share: list[slice]) -> None:
            generator = noise_generator()
            for block in share:
                units = self.directions(vectors[block])
                noise = generator.standard_normal(units.shape)
                along = np.einsum("ij,ij->i", noise, units)
                units *= (self.law.draw(len(units), generator) - along)[:, None]
                noise += units
                noise *= scale
                released[block] = round_to_grid(noise, scale=scale)

        share_blocks(work, blocks)

    def directions(self, vectors: Rows) -> FloatArray:
        """Return the unit vectors that are released, float64 `[n, m]`. Without noise: not private."""
        values = self.projected(scaled_rows(vectors))
        norms = row_norms(values)
        values[norms == 0.0, 0] = 1.0
        values /= np.where(norms == 0.0, 1.0, norms)[:, None]
        return values


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


_CLASSES: dict[str, Callable[[VectorSpec, Projection | None], VectorMechanism]] = {
    "privemb": MetricMechanism,
    "laplace": MetricMechanism,
    "privunit": PrivUnitMechanism,
}


def vector_mechanism(
    spec: VectorSpec,
    projection: Projection | None,
    pack: VectorPack | None = None,
    codebook: Codebook | None = None,
) -> VectorMechanism:
    """Return the mechanism of `spec`. Pass the result of `spec_projection`, and a `pack` if the spec uses `pca`.

    `codebook`: the spherical codebook of the spec, derived if it is not given.

    Raises: ValueError if the projection is not the spec's, or the pack is missing.
    """
    if spec.projection == "pca":
        if pack is None:
            raise ValueError("pca needs a vector pack")
        if spec.is_trained:
            return TrainedCodebookMechanism(spec, pack)
        projection = pack.projection(spec.output_dimension)
    if spec.mechanism == "codebook":
        return CodebookMechanism(spec, projection, codebook)
    return _CLASSES[spec.mechanism](spec, projection)
