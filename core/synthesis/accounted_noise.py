"""Integers plus exact discrete Gaussian noise, priced as the Gaussian mechanism.

Guarantee: integers that together move by at most sqrt(`squared_sensitivity`) in l2 norm between neighbours are
released with at least the privacy of continuous Gaussian noise of `noise_multiplier` times that: its (epsilon, delta)
curve, hence the analytic calibration (Balle and Wang 2018), and its Renyi divergences. No float is involved.

Proof. Let r = 4 and s the integer scale. Take y = c + N(0, s^2 - r^2) for an integer c, and round y to the integer z
with probability proportional to exp(-(z - y)^2 / 2 r^2). By Poisson summation the sum of these weights over all z is
r sqrt(2 pi) (1 + h) with |h| <= 2 sum_m exp(-2 pi^2 r^2 m^2) < e^-300, so that
P(z) = (1 + h') integral N(y; c, s^2 - r^2) N(z; y, r^2) dy = (1 + h') N(z; c, s^2): the discrete Gaussian of scale s
about c, up to the factor 1 +- e^-299. So discrete noise of scale s is post-processing of continuous noise of standard
deviation sqrt(s^2 - r^2), coordinate by coordinate. `noise_scale` returns the least s with s^2 - r^2 >= (multiplier)^2
(sensitivity)^2. The factors of 10^6 coordinates, and the truncated tail of the sampler, are far below the amount by
which the calibration rounds up.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from core.errors import OutOfRange
from core.mechanisms.samplers.discrete_noise import GAUSSIAN_SCALE_MAX, discrete_gaussian
from core.mechanisms.samplers.exact import IntArray

_ROUNDING_SQUARED = 16


def noise_scale(noise_multiplier: float, *, squared_sensitivity: int) -> int:
    """Return the least integer scale whose noise is worth this multiplier. Raises OutOfRange above 2^20."""
    if not (math.isfinite(noise_multiplier) and noise_multiplier > 0 and squared_sensitivity > 0):
        raise ValueError("the noise multiplier and the sensitivity must be positive")
    needed = math.ceil(Fraction(noise_multiplier) ** 2 * squared_sensitivity) + _ROUNDING_SQUARED
    scale = math.isqrt(needed - 1) + 1
    if scale > GAUSSIAN_SCALE_MAX:
        raise OutOfRange("This target needs noise that is too wide.", field="epsilon")
    return scale


def noisy(exact: IntArray, *, scale: int) -> IntArray:
    """Return `exact` plus independent noise of `scale` on every entry, for any shape."""
    noise = discrete_gaussian(exact.size, scale=scale)
    return exact.astype(np.int64) + noise.reshape(exact.shape)
