"""Exact composition of Gaussian releases, and of equal pure-epsilon releases.

**Gaussian** (Balle and Wang 2018, Theorem 8). With mu = sensitivity / standard deviation:
delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu). k releases equal one release of mu sqrt(k), and different
multipliers add as sum mu_i^2.

In terms of a = eps/mu - mu/2, b = a + mu and the Mills ratio M(x) = Phi(-x) / phi(x), with e^eps phi(b) = phi(a):

    delta = phi(a) (M(a) - M(b)) = phi(a) * integral of 1 - x M(x) from a to b,    1 - delta = Phi(a) + phi(a) M(b).

The difference loses the digits that M(a) and M(b) have in common, a fraction 1/mu of them. The integral loses none,
because its integrand is positive. The sum for 1 - delta keeps its digits where delta is nearly 1.

**Pure** (Kairouz, Oh and Viswanath 2015, Theorem 3.3). Randomised response is the worst pure-eps0 mechanism. Its
privacy loss after m releases is t_K = (2K - m) eps0, with K ~ Bin(m, p) under P and K ~ Bin(m, 1 - p) under Q,
p = e^eps0 / (1 + e^eps0). For t_k <= eps <= t_(k+1)

    delta(eps) = sum over i >= 1 of P[K = k + i] (1 - e^(eps - t_k - 2 i eps0)).

All terms are positive, so the sum loses no digits. At a lattice point, 1 - delta(t_k) is the sum of P[K <= k] and of
P[K = k + i] e^(-2 i eps0). This form keeps the digits of a delta near 1.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, ndtr

_ROOT_2 = math.sqrt(2.0)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_NARROW = 0.1  # up to this mu the code evaluates the integral
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# The relative error of both sides of the curve, as computed at a given `a`, for delta >= 1e-30, that is a <= 12.
# phi(a): a^2 2^-53 < 2e-14. Mills ratios: 8 units of rounding, which the difference multiplies by at most 14
# (mu > 1) and 1 - x M(x) > 1 / (x^2 + 3) by at most 172 (mu <= 1): < 2e-13. The quadrature of an entire function over
# a length of 1 by 20 nodes: < 1e-20.
_RELATIVE_ERROR = 1e-12
# The error of `a` itself is 2^-53 (eps/mu + |a|). This equals an error of epsilon of 2^-53 (2 eps + 9 mu), because
# |a| < 9 where a < 0.
_ROUND_UP = 1e-14
_TOLERANCE = 1e-13


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Return the exact delta at `epsilon` >= 0 of a Gaussian release with `mu` = sensitivity / standard deviation > 0.

    The error is parts in 10^12 of delta for delta >= 1e-30 and every `mu`.
    """
    a = epsilon / mu - mu / 2
    if mu <= _NARROW:
        x = a + mu * (_NODES + 1) / 2
        return float(_density(a) * (mu / 2) * (_WEIGHTS @ (1 - x * _ROOT_HALF_PI * erfcx(x / _ROOT_2))))
    if a > 0:
        return _density(a) * (_mills(a) - _mills(a + mu))
    return float(ndtr(-a)) - _density(a) * _mills(a + mu)


def epsilon_of_gaussian(delta: float, mu: float) -> float:
    """Return the least epsilon >= 0 with delta(eps) <= `delta`, rounded up. The result is a bound.

    Guarantee: never below the true value, for every `mu` and 1e-30 <= `delta` < 1. It exceeds the true value by less
    than 2e-13 (eps + 10 mu) for delta <= 1 - 1e-12. Nearer to 1, the excess is as small as 1 - delta allows.
    """
    if _is_within(0.0, mu, delta):
        return 0.0
    low, high = 0.0, mu * mu / 2 + 10.0 * mu
    while not _is_within(high, mu, delta):
        low, high = high, 2 * high
    while high - low > _TOLERANCE * high + _ROUND_UP * mu:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _is_within(middle, mu, delta):
            high = middle
        else:
            low = middle
    return high * (1 + _ROUND_UP) + _ROUND_UP * mu


def _is_within(epsilon: float, mu: float, delta: float) -> bool:
    """Whether delta(eps) <= `delta` certainly holds, up to the rounding of `a`."""
    if delta <= 0.5:
        return delta_of_gaussian(epsilon, mu) * (1 + _RELATIVE_ERROR) <= delta
    a = epsilon / mu - mu / 2
    complement = float(ndtr(a)) + _density(a) * _mills(a + mu)
    return complement * (1 - _RELATIVE_ERROR) >= 1 - delta


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / (_ROOT_2 * math.sqrt(math.pi))


def _mills(x: float) -> float:
    return _ROOT_HALF_PI * float(erfcx(x / _ROOT_2))


Array = npt.NDArray[np.float64]

_UNIT = 2.0**-53
_LOG_OUTSIDE = 60.0
_OUTSIDE = 2 * math.exp(-_LOG_OUTSIDE)  # an upper bound on the probability outside the window
_NEAR = 0.1  # below this, `_deviance` uses its series
_SERIES_END = 1e-18
_EXACT_MAX = 16  # from this argument on, four terms of Stirling's series are exact to 1e-14
_LOG_FACTORIALS: Array = np.array(
    [0.0] + [math.log(math.factorial(n)) - n * math.log(n) + n for n in range(1, _EXACT_MAX)]
)


def epsilon_of_pure(delta: float, eps0: float, count: int) -> float:
    """Return the least epsilon >= 0 with delta(eps) <= `delta` of `count` releases of pure `eps0`-DP, rounded up.

    The result is a bound, also for adaptively chosen releases, under either adjacency. Guarantee: it is never below the
    true value for 1e-13 <= `delta` < 1, 1e-6 <= `eps0` <= 100 and up to 2e9 releases. It exceeds the true value by less
    than (1e-11 + 1e-12 s) (eps + 2 eps0 s + eps0), where s is the standard deviation of K. It needs 22 s numbers and at
    most a tenth of a second.

    Error analysis (u = 2^-53, w half the width of the window, n <= 2 w + 2 its points). The errors in the logarithm of
    a probability by Loader's formula are: in the deviances, |K - m p| u for each rounding of m p and m (1 - p), of
    which there are four each, and 8 u times the deviances' own size, which is below 700 wherever the probability
    exceeds 1e-300; in Stirling's series, below 2e-14; in deviances without the series, whose mean is below 10 w, 8 u
    times that mean. A sum of n positive terms loses n u. All errors together are less than u (100 w + n + 1e4), and the
    code allows twice that.
    """
    p, q = 1 / (1 + math.exp(-eps0)), math.exp(-eps0) / (1 + math.exp(-eps0))
    first, probabilities = _window(count, p, q)
    size = len(probabilities)
    error = 2 * _UNIT * (50 * size + size + 1e4)
    steps = np.arange(1, size + 1) * (-2 * eps0)
    parts = -np.expm1(steps) if delta <= 0.5 else np.exp(steps)

    def excess(at: int) -> float:
        """Return an upper bound on delta(t_k) - `delta`, at the `at`-th k of the window."""
        above = probabilities[at + 1 :]
        total = float(above @ parts[: above.size])
        if delta <= 0.5:
            return total * (1 + error) + _OUTSIDE - delta
        return (1 - delta) - (total + float(probabilities[: at + 1].sum())) * (1 - error) + _OUTSIDE

    low, high = max(0, (count - 1) // 2 - first), size - 1  # from the last lattice point below epsilon 0 to the end
    if excess(low) <= 0:
        return 0.0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    above = probabilities[low + 1 :]
    slope = float(above @ np.exp(steps[: above.size])) * (
        1 - error
    )  # delta falls by (e^s - 1) times this, s beyond t_k
    beyond = math.log1p(excess(low) / slope) if slope > 0 else 2 * eps0
    epsilon = (2 * (first + low) - count) * eps0 + min(beyond, 2 * eps0)
    return max(0.0, epsilon) * (1 + 1e-15) + 1e-15 * eps0


def _window(count: int, p: float, q: float) -> tuple[int, Array]:
    """Return a first k, and P[Bin(count, p) = k] from it on. The omitted part is below _OUTSIDE (Bernstein)."""
    half = _LOG_OUTSIDE / 3 + math.sqrt((_LOG_OUTSIDE / 3) ** 2 + 2 * _LOG_OUTSIDE * count * p * q) + 1
    first = max(0, math.floor(count * p - half))
    kept = np.arange(first, min(count, math.ceil(count * p + half)) + 1, dtype=np.float64)
    lost = count - kept
    logs = (
        _log_factorial(np.array([float(count)]))
        - _log_factorial(kept)
        - _log_factorial(lost)
        - _deviance(kept, count * p)
        - _deviance(lost, count * q)
    )
    return first, np.exp(logs)


def _log_factorial(x: Array) -> Array:
    """Return ln x! - x ln x + x for integers x."""
    large = np.maximum(x, _EXACT_MAX)
    inverse = 1 / (large * large)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / large
    return np.where(
        x < _EXACT_MAX,
        _LOG_FACTORIALS[np.minimum(x, _EXACT_MAX - 1).astype(int)],
        0.5 * np.log(2 * np.pi * large) + series,
    )


def _deviance(x: Array, mean: float) -> Array:
    """Return x ln(x / mean) + mean - x (Loader 2000, "Fast and accurate computation of binomial probabilities")."""
    off = x - mean
    v = off / (x + mean)
    size = np.abs(v)
    square = v * v
    series = np.zeros_like(x)
    reach = min(float(size.max()), _NEAR)
    for power in range(3 + 2 * math.ceil(math.log(_SERIES_END) / (2 * math.log(max(reach, 1e-9)))), 1, -2):
        series = (series + 1 / power) * square
    near: Array = off * v + 2 * x * v * series
    if reach < _NEAR:
        return near
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.where(x > 0, x * np.log(x / mean), 0.0) - off
    return np.where(size < _NEAR, near, direct)
