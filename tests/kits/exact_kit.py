"""Privacy curves from their definitions, in mpmath: what the accountants are compared with.

Each function gives delta at an epsilon. A bound on epsilon holds if delta at the bound is at most the delta asked for,
so no test needs to solve for epsilon.
"""

from collections.abc import Callable

import mpmath
from mpmath import mpf

Curve = Callable[[mpf], mpf]

DIGITS = 60


def gaussian(mu: float | mpf) -> Curve:
    """One Gaussian release of mu = sensitivity / deviation (Balle and Wang 2018, Theorem 8)."""
    mu = mpf(mu)

    def delta(epsilon: mpf) -> mpf:
        shift = epsilon / mu
        return mpmath.ncdf(mu / 2 - shift) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - shift)

    return delta


def laplace(epsilon: float) -> Curve:
    """One release with Laplace noise of scale sensitivity / epsilon."""
    return lambda at: max(mpf(0), 1 - mpmath.exp((at - mpf(epsilon)) / 2))


def pure(epsilon: float, count: int) -> Curve:
    """`count` releases by randomised response: its binomial, summed from the threshold on, in integers of 300 bits."""
    each = mpf(epsilon)
    log_p, log_q = -mpmath.log1p(mpmath.exp(-each)), -each - mpmath.log1p(mpmath.exp(-each))
    odds, falling = _integer(mpmath.exp(each)), _integer(mpmath.exp(-2 * each))
    mean = int(count * mpmath.exp(log_p))

    def delta(at: mpf) -> mpf:
        first = k = max(-1, int(mpmath.floor((at / each + count) / 2))) + 1
        if k > count:
            return mpf(0)
        # terms in units of the first one; `rest` is e^(at - loss)
        term, rest, total = _ONE, _integer(mpmath.exp(at - (2 * k - count) * each)), 0
        while k <= count and not (k > mean and term << 113 < total):
            total += term * (_ONE - rest) >> _BITS
            term = (term * odds >> _BITS) * (count - k) // (k + 1)
            rest = rest * falling >> _BITS
            k += 1
        logarithm = mpmath.loggamma(count + 1) - mpmath.loggamma(first + 1) - mpmath.loggamma(count - first + 1)
        unit = mpmath.exp(logarithm + first * log_p + (count - first) * log_q)
        return unit * mpmath.ldexp(mpf(total), -_BITS)

    return delta


_BITS = 300
_ONE = 1 << _BITS


def _integer(x: mpf) -> int:
    return int(mpmath.ldexp(x, _BITS))


def subsampled(rate: float, noise: float, *, replace_one: bool) -> tuple[Curve, ...]:
    """One Poisson-sampled Gaussian step, a curve for each direction: the sums of its mixtures up to one threshold."""
    q, s = mpf(rate), mpf(noise)

    def above(x: mpf, shift: int) -> mpf:
        """P[(1 - q) N(0, s^2) + q N(shift, s^2) > x]."""
        return (1 - q) * mpmath.ncdf(-x / s) + q * mpmath.ncdf((shift - x) / s)

    def gain(x: mpf, shift: int) -> mpf:
        """The density of that mixture over that of N(0, s^2)."""
        return 1 - q + q * mpmath.exp((2 * shift * x - 1) / (2 * s * s))

    def remove(epsilon: mpf) -> mpf:
        x = (2 * s * s * mpmath.log((mpmath.exp(epsilon) - 1 + q) / q) + 1) / 2
        return above(x, 1) - mpmath.exp(epsilon) * mpmath.ncdf(-x / s)

    def add(epsilon: mpf) -> mpf:
        inside = (mpmath.exp(-epsilon) - 1 + q) / q
        if inside <= 0:
            return mpf(0)
        x = (2 * s * s * mpmath.log(inside) + 1) / 2
        return mpmath.ncdf(x / s) - mpmath.exp(epsilon) * (1 - above(x, 1))

    def replace(epsilon: mpf) -> mpf:
        low, high = -10 * s - 2, (2 * s * s * (epsilon - mpmath.log(q)) + 1) / 2 + 2 + 10 * s
        for _ in range(250):  # the ratio of the densities rises with x
            middle = (low + high) / 2
            if gain(middle, 1) > mpmath.exp(epsilon) * gain(middle, -1):
                high = middle
            else:
                low = middle
        return above(high, 1) - mpmath.exp(epsilon) * above(high, -1)

    return (replace,) if replace_one else (remove, add)
