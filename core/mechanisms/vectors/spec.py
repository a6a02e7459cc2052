"""The validated parameters of a private vector release, and the public sizes of codebooks.

The mechanisms:

* `laplace`: the vector plus noise of density proportional to exp(-eps |z|). Metric DP.
* `privemb`: a public projection of the vector plus that noise in the smaller space. Metric DP.
* `privunit`: a Gaussian vector that is tilted towards the vector's direction. Pure DP over all pairs of vectors.
* `codebook`: a vector of a public codebook, probably one near the input. Pure DP over all pairs of vectors.

`core.mechanisms.vectors.pricing` states their guarantees. Each mechanism's own module in this folder defines its
sampling.

The number of vectors of a codebook and of nearest neighbours follows public rules. The guarantee holds at every size;
the rules serve utility. The rule of a spherical codebook maximises the expected cosine between vector and release,

    A(q) p (1 - e^-eps),   q = n / N,   p = n e^eps / (n e^eps + N - n),

where A(q) is the mean cosine of a fixed vector with the nearest fraction q of random directions (for q = 1 it is 0). A
direction's cosine is t / sqrt(t^2 + R^2) with t normal and R^2 chi-square of m - 1 degrees of freedom; the code
replaces R^2 by its mean.

This module imports neither torch nor scipy: the front end uses it.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from core.amounts import EPSILON_MAX, NANO, cost_nano
from core.errors import InvalidInput

METRIC_MECHANISMS = ("privemb", "laplace")
PURE_MECHANISMS = ("privunit", "codebook")
VECTOR_MECHANISMS = METRIC_MECHANISMS + PURE_MECHANISMS

DIMENSION_MAX = 8_192
PROJECTED_MAX = 1_024  # largest dimension of a projection's output; bounds the cost of building a projection
CLIP_NORM_MIN, CLIP_NORM_MAX = 1e-6, 1e6
EPSILON_PURE_MAX = 1_000
DEFAULT_PROJECTED = 64
DEFAULT_DELTA = 1e-6  # for the paper's form
DEFAULT_BETA = 0.9
PACK_DIMENSION = 384  # the dimension of the encoder of the `pca` projection and the trained codebook
PACK_AXES = 64

PROJECTIONS = ("orthonormal", "gaussian", "identity", "pca")

# The first of each is the default; `codebook` keeps the input space if that has few dimensions.
_PROJECTIONS = {
    "privemb": ("orthonormal", "gaussian", "pca"),
    "laplace": ("identity",),
    "privunit": ("identity", "orthonormal", "pca"),
    "codebook": ("orthonormal", "identity", "pca"),
}


@dataclass(frozen=True)
class VectorSpec:
    """One mechanism with all public parameters resolved. Use `vector_spec` to build it.

    `epsilon_nano`: for metric mechanisms the requested epsilon per unit of Euclidean distance, else the total for one
    vector. `clip_norm`: the radius of the ball to which inputs are clipped; 1.0 and unused for the mechanisms of pure
    DP, which depend only on a direction. `beta`: set for the paper's form (`strict` False) only, else None.
    """

    mechanism: str
    dimension: int
    output_dimension: int
    epsilon_nano: int
    clip_norm: float
    projection: str
    strict: bool
    beta: float | None

    @property
    def is_metric(self) -> bool:
        return self.mechanism in METRIC_MECHANISMS

    @property
    def is_trained(self) -> bool:
        """Whether the codebook is the trained one, whose vectors lie in the encoder's own space."""
        return self.mechanism == "codebook" and self.projection == "pca"

    @property
    def epsilon(self) -> float:
        return self.epsilon_nano / NANO


def vector_spec(
    *,
    mechanism: str,
    dimension: int,
    epsilon: float | int | str | Decimal,
    output_dimension: int | None = None,
    clip_norm: float | None = None,
    projection: str | None = None,
    strict: bool = True,
    beta: float | None = None,
    delta: float | None = None,
) -> VectorSpec:
    """Validate parameters and return the spec. None selects the default.

    `dimension` is that of the caller's vectors, `output_dimension` that of the released ones. The `field` of an error
    calls the latter `dimension` and the former `vectors`. `strict` False selects the paper's form of `privemb`: `beta`
    and `delta` determine the output dimension (`paper_dimension`), or an output dimension and `delta` determine `beta`.

    Raises: InvalidInput, with its `field`, for anything that the mechanism does not accept or cannot use.
    """
    if mechanism not in VECTOR_MECHANISMS:
        raise InvalidInput(f"The mechanism must be one of {', '.join(VECTOR_MECHANISMS)}.", field="mechanism")
    if not 1 <= dimension <= DIMENSION_MAX:
        raise InvalidInput(f"Vectors must have between 1 and {DIMENSION_MAX} dimensions.", field="vectors")
    is_metric = mechanism in METRIC_MECHANISMS
    epsilon_nano = _epsilon_nano(epsilon, is_metric=is_metric)
    clip_norm = _clip_norm(clip_norm, epsilon_nano, is_metric=is_metric)
    if not strict and mechanism != "privemb":
        raise InvalidInput("Only privemb has a form that is not strict.", field="strict")
    if strict and beta is not None:
        raise InvalidInput("beta belongs to the paper's form, strict: false.", field="beta")
    if strict and delta is not None:
        raise InvalidInput("delta belongs to the paper's form, strict: false.", field="delta")
    if not strict:
        output_dimension, beta = _paper_form(dimension, output_dimension, beta, delta)
    kind = _projection_kind(mechanism, dimension, output_dimension, projection, strict=strict)
    if kind == "pca":
        output_dimension = _pca_dimension(mechanism, dimension, epsilon_nano, output_dimension)
    if output_dimension is None:
        output_dimension = dimension if kind == "identity" else min(dimension, DEFAULT_PROJECTED)
    if kind == "identity" and output_dimension != dimension:
        raise InvalidInput("Without a projection the dimension stays that of the vectors.", field="dimension")
    if not 1 <= output_dimension <= (dimension if kind == "identity" else min(dimension, PROJECTED_MAX)):
        raise InvalidInput(
            f"The dimension must lie between 1 and that of the vectors, at most {PROJECTED_MAX}.", field="dimension"
        )
    if mechanism == "codebook" and output_dimension > PROJECTED_MAX:
        raise InvalidInput(f"A codebook has at most {PROJECTED_MAX} dimensions.", field="dimension")
    return VectorSpec(mechanism, dimension, output_dimension, epsilon_nano, clip_norm, kind, strict, beta)


def paper_dimension(*, dimension: int, beta: float, delta: float) -> int:
    """Return m of the paper: (w + sqrt(ln 1/delta))^2 / beta^2 with w = sqrt(log2 d), to the nearest integer.

    For d = 300 and delta = 1e-6: beta .93, .66, .468 give 50, 100, 198 (the paper prints 50, 100, 200).
    Source: Feyisetan and Kasiviswanathan 2021, Lemma 4 for the order of m, and section 5 for the width sqrt(log d). The
    constant 1 and the base 2 are ours.
    """
    return max(1, round((_paper_root(dimension, delta) / beta) ** 2))


def _paper_root(dimension: int, delta: float) -> float:
    return math.sqrt(math.log2(dimension)) + math.sqrt(-math.log(delta))


def _paper_form(
    dimension: int, output_dimension: int | None, beta: float | None, delta: float | None
) -> tuple[int, float]:
    """Return (output dimension, beta) of the paper's form."""
    delta = DEFAULT_DELTA if delta is None else delta
    if not 0 < delta < 1:
        raise InvalidInput("delta must lie between 0 and 1.", field="delta")
    if beta is None:
        beta = DEFAULT_BETA if output_dimension is None else _paper_root(dimension, delta) / math.sqrt(output_dimension)
        if not 0 < beta < 1:
            raise InvalidInput("This dimension needs a beta of 1 or more. Use a larger dimension.", field="dimension")
    if not 0 < beta < 1:
        raise InvalidInput("beta must lie between 0 and 1.", field="beta")
    if output_dimension is None:
        output_dimension = paper_dimension(dimension=dimension, beta=beta, delta=delta)
        if output_dimension > min(dimension, PROJECTED_MAX):
            raise InvalidInput("This beta needs more dimensions than are available. Use a larger beta.", field="beta")
    return output_dimension, beta


def _epsilon_nano(epsilon: float | int | str | Decimal, *, is_metric: bool) -> int:
    maximum = EPSILON_MAX if is_metric else EPSILON_PURE_MAX
    try:
        nano = cost_nano(epsilon)
    except ValueError:
        nano = 0
    if not 1 <= nano <= maximum * NANO:
        raise InvalidInput(f"epsilon must be a positive number of at most {maximum}.", field="epsilon")
    return nano


def _clip_norm(clip_norm: float | None, epsilon_nano: int, *, is_metric: bool) -> float:
    if clip_norm is None:
        clip_norm = 1.0
    elif not is_metric:
        raise InvalidInput("Only the metric mechanisms clip. This one uses only the direction.", field="clip_norm")
    if not CLIP_NORM_MIN <= clip_norm <= CLIP_NORM_MAX:
        raise InvalidInput(f"clip_norm must lie between {CLIP_NORM_MIN} and {CLIP_NORM_MAX:g}.", field="clip_norm")
    if is_metric and 2 * clip_norm * epsilon_nano > EPSILON_MAX * NANO:
        raise InvalidInput(f"2 clip_norm epsilon, the worst case, exceeds {EPSILON_MAX}.", field="epsilon")
    return clip_norm


def _pca_dimension(mechanism: str, dimension: int, epsilon_nano: int, output_dimension: int | None) -> int:
    """Return the number of principal axes to keep. The trained codebook's output is in the encoder's own space."""
    if dimension != PACK_DIMENSION:
        raise InvalidInput(
            f"pca is for texts, or vectors of the encoder's {PACK_DIMENSION} dimensions.", field="projection"
        )
    if mechanism == "codebook":
        if output_dimension not in (None, PACK_DIMENSION):
            raise InvalidInput(f"The trained codebook has {PACK_DIMENSION} dimensions.", field="dimension")
        return PACK_DIMENSION
    if output_dimension is None:
        # measured on public text: with more noise, fewer axes justify their share of the noise
        output_dimension = min(PACK_AXES, max(4, round(1.2 * epsilon_nano / NANO)))
    if output_dimension > PACK_AXES:
        raise InvalidInput(f"There are {PACK_AXES} principal axes.", field="dimension")
    return output_dimension


def _projection_kind(
    mechanism: str, dimension: int, output_dimension: int | None, projection: str | None, *, strict: bool
) -> str:
    kinds = _PROJECTIONS[mechanism] if strict else ("gaussian",)
    if projection is not None:
        if projection not in kinds:
            raise InvalidInput(
                f"The projection of this mechanism must be one of {', '.join(kinds)}.", field="projection"
            )
        return projection
    if len(kinds) > 1 and "identity" in kinds:
        smaller = output_dimension is not None and output_dimension != dimension
        small = dimension <= DEFAULT_PROJECTED and not smaller
        if mechanism == "privunit":
            return "orthonormal" if smaller else "identity"
        return "identity" if small or output_dimension == dimension else "orthonormal"
    return kinds[0]


SIZE_MIN, SIZE_MAX = 1 << 10, 1 << 16
TRAINED_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096)
_NEIGHBOURS_ENOUGH = 32  # with more neighbours, a finer codebook would change little
_QUANTILES = 32
_STEP = 1.1


class CodebookSize(NamedTuple):
    """N vectors, n of which form a subset."""

    vectors: int
    neighbours: int


@lru_cache(maxsize=256)
def codebook_size(*, dimension: int, epsilon_nano: int) -> CodebookSize:
    """Return the smallest power of two N in 2^10..2^16 whose best n is at least 32, else 2^16, and that n."""
    epsilon = epsilon_nano / NANO
    size = SIZE_MIN
    while True:
        neighbours = max(_counts(size), key=lambda n: expected_cosine(dimension, epsilon, n / size))
        if neighbours >= _NEIGHBOURS_ENOUGH or size == SIZE_MAX:
            return CodebookSize(size, neighbours)
        size *= 2


def trained_size(epsilon_nano: int) -> int:
    """Return the number of centroids of the trained codebook: 2^floor(eps - 2), from 2 to 4,096.

    It is near the best at every epsilon from 2 to 20 on public text (gpu_workers/packs/vectors/general.md). A code is
    kept with probability .88 (eps 2), .95 (eps 4), .99 (eps 10).
    """
    exponent = epsilon_nano // NANO - 2
    return min(TRAINED_SIZES[-1], max(TRAINED_SIZES[0], 1 << min(max(exponent, 0), 62)))


def expected_cosine(dimension: int, epsilon: float, share: float) -> float:
    """Return the value that the rule maximises (module docstring); `share` is q in (0, 1/2]."""
    p = share / (share + (1.0 - share) * math.exp(-epsilon))
    return _near_cosine(dimension, share) * p * -math.expm1(-epsilon)


@lru_cache(maxsize=4096)
def _near_cosine(dimension: int, share: float) -> float:
    normal = NormalDist()
    tail = [-normal.inv_cdf(share * (i + 0.5) / _QUANTILES) for i in range(_QUANTILES)]
    return sum(t / math.sqrt(t * t + dimension - 1) for t in tail) / _QUANTILES


def _counts(size: int) -> list[int]:
    """Return 1..size/2, thinned out to steps of a tenth."""
    counts, count = [1], 1
    while count < size // 2:
        count = min(max(count + 1, round(count * _STEP)), size // 2)
        counts.append(count)
    return counts
