"""`privunit`: a Gaussian vector, tilted towards the vector's direction (PrivUnitG), and the table of all mechanisms.

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

`vector_mechanism` builds every mechanism by its name. This module loads torch and scipy, for workers. `codebook` loads
no scipy, and `metric` neither.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtri_exp

from core.amounts import NANO
from core.mechanisms.vectors.codebook import Codebook, CodebookMechanism, TrainedCodebookMechanism
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.projection import Projection, VectorPack
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
from core.mechanisms.vectors.spec import VectorSpec

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


_CLASSES: dict[str, Callable[[VectorSpec, Projection | None], VectorMechanism]] = {
    "privemb": MetricMechanism,
    "laplace": MetricMechanism,
    "privunit": PrivUnitMechanism,
}


def vector_mechanism(
    spec: VectorSpec, projection: Projection | None, pack: VectorPack | None = None, codebook: Codebook | None = None
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
