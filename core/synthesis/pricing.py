"""The cost of one synthesis, a single Gaussian event on the record account, and the exact noise that it pays for.

The cost follows from (epsilon, delta) alone. The noise is integer, discrete Gaussian noise, priced as the Gaussian
mechanism.

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

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.accounting.planning import calibrate_noise
from core.amounts import delta_of, epsilon_of, limit_femto, limit_nano
from core.errors import InvalidInput, OutOfRange
from core.mechanisms.samplers.discrete_noise import GAUSSIAN_SCALE_MAX, discrete_gaussian
from core.mechanisms.samplers.exact import IntArray


@dataclass(frozen=True)
class RecordBudget:
    """(epsilon, delta) of one release for replacing one row, and the noise that provides it.

    `noise_multiplier`: standard deviation over l2 sensitivity, by the analytic calibration.
    """

    epsilon_nano: int
    delta_femto: int
    noise_multiplier: float

    def event(self, mechanism: str) -> PrivacyEvent:
        """Return the one event of a release by `mechanism`. It does not depend on any row."""
        return PrivacyEvent(
            mechanism=mechanism,
            kind="gaussian",
            unit=Unit.RECORD,
            adjacency=Adjacency.REPLACE_ONE,
            guarantee=Guarantee.APPROX_DP,
            epsilon_nano=self.epsilon_nano,
            delta_femto=self.delta_femto,
            noise_multiplier=self.noise_multiplier,
        )


def record_budget(epsilon: float | int | str | Decimal, delta: float | int | str | Decimal) -> RecordBudget:
    """Return the budget of one release. Both numbers are rounded down to ledger units before calibration.

    Raises: InvalidInput, with its `field`, for a value that is not a number; OutOfRange if calibration is impossible.
    """
    try:
        epsilon_nano = limit_nano(epsilon)
    except ValueError:
        raise InvalidInput("Epsilon must be a positive number.", field="epsilon") from None
    try:
        delta_femto = limit_femto(delta)
    except ValueError:
        raise InvalidInput("Delta must be a number between 0 and 1.", field="delta") from None
    found = calibrate_noise(epsilon_of(epsilon_nano), delta_of(delta_femto), sampling_rate=1.0, steps=1)
    return RecordBudget(epsilon_nano, delta_femto, found.noise_multiplier)


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
