"""Moments of the privacy loss of one release, under both members of the neighbouring pair.

L = ln(dP/dQ), X is L under Q, Y is L under P. P is the output with the unit included ("remove": P is the mixture).
All numbers are computed from central moments, because raw moments lose all digits at small sampling rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from core.accounting.plans import Gaussian, Laplace, PlanAdjacency, PlanEvent, SubsampledGaussian, simplest
from core.errors import OutOfRange, UnsupportedEvent

Array = npt.NDArray[np.float64]

ORDERS = 5
_REACH = 39.0  # phi(39) is the last normal number of a double
_STEP = 0.125
_HALVINGS_MAX = 8
_TOLERANCE = 1e-11


@dataclass(frozen=True)
class Side:
    """X or Y of one release: cumulants 1 to 5 and, for the interval, standardised absolute central moments."""

    cumulants: tuple[float, ...]
    absolute_1: float
    absolute_3: float
    kurtosis: float

    @property
    def skewness(self) -> float:
        return float(self.cumulants[2] / self.cumulants[1] ** 1.5)


@dataclass(frozen=True)
class LossMoments:
    """Both sides of one release."""

    x: Side
    y: Side


@lru_cache(maxsize=4096)
def loss_moments(event: PlanEvent) -> LossMoments:
    """Return the moments of the privacy loss of one release of `event`. Results are cached.

    Gaussian: closed form. Subsampled Gaussian: the trapezium rule, with the step halved until the moments no longer
    change. On the whole line it converges geometrically for a function that is analytic in a strip, as this loss is.
    Laplace: two atoms, and Gauss-Legendre quadrature between them.

    Raises:
        UnsupportedEvent: a pure event (a lattice; see `core.accounting.binomial`) or replace-one sampling.
        OutOfRange: the moments do not fit a double.
    """
    event = simplest(event)
    if isinstance(event, Gaussian):
        mu = 1 / event.noise_multiplier
        moments = (math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi), 3.0)
        return LossMoments(
            x=Side((-mu * mu / 2, mu * mu, 0.0, 0.0, 0.0), *moments),
            y=Side((mu * mu / 2, mu * mu, 0.0, 0.0, 0.0), *moments),
        )
    if isinstance(event, Laplace):
        return _laplace(event.epsilon)
    if isinstance(event, SubsampledGaussian) and event.adjacency is PlanAdjacency.ADD_REMOVE:
        return _subsampled(event.sampling_rate, 1 / event.noise_multiplier)
    raise UnsupportedEvent("a smooth expansion needs Gaussian or Laplace noise, with sampling under add-remove only")


def _side(loss: Array, weights: Array) -> tuple[Side, Array]:
    """Return the moments of a weighted sample of the loss, and the array that the convergence test compares."""
    weights = weights / weights.sum()
    mean = float(weights @ loss)
    centred = loss - mean
    square = centred * centred
    variance = float(weights @ square)
    if not variance > 1e-250:
        raise OutOfRange("the privacy loss of one release is too small for a double", field="sampling_rate")
    scaled = centred / math.sqrt(variance)
    size = np.abs(scaled)
    cube, fourth = size**3, scaled**4
    third, m4, m5 = float(weights @ (scaled**3)), float(weights @ fourth), float(weights @ (fourth * scaled))
    standard = np.array([third, m4 - 3, m5 - 10 * third])
    powers = variance ** np.array([1.5, 2.0, 2.5])
    cumulants = (mean, variance, *(standard * powers).tolist())
    side = Side(cumulants, float(weights @ size), float(weights @ cube), m4)
    return side, np.array([mean / math.sqrt(variance), math.log(variance), third, m4, m5])


def _subsampled(rate: float, mu: float) -> LossMoments:
    step = _STEP / max(1.0, mu)
    before: Array | None = None
    for _ in range(_HALVINGS_MAX):
        x = np.arange(-_REACH, mu + _REACH + step, step)
        shift = mu * x - mu * mu / 2
        with np.errstate(over="ignore", under="ignore"):
            # for a large shift: ln(1 - q + q e^s) = s + ln(q) + ln(1 + (1-q)/q e^-s)
            loss = np.where(
                shift < 600,
                np.log1p(rate * np.expm1(np.minimum(shift, 600.0))),
                shift + math.log(rate),
            )
            log_phi = -x * x / 2
            under_q = np.exp(log_phi)
            under_p = (1 - rate) * under_q + rate * np.exp(-((x - mu) ** 2) / 2)
        (x_side, x_check), (y_side, y_check) = _side(loss, under_q), _side(loss, under_p)
        check = np.concatenate((x_check, y_check))
        if before is not None and np.all(np.abs(check - before) <= _TOLERANCE * (1 + np.abs(check))):
            break
        before = check
        step /= 2
    return LossMoments(x=x_side, y=y_side)


def _laplace(epsilon: float) -> LossMoments:
    nodes, weights = np.polynomial.legendre.leggauss(96)
    edges = np.linspace(0.0, 1.0, 9) ** 2  # u, finer where e^(-eps u) falls fastest
    width = np.diff(edges)[:, None]
    u = (edges[:-1, None] + width * (nodes + 1) / 2).ravel()
    density = (epsilon / 2 * np.exp(-epsilon * u) * (width * weights / 2).ravel()).astype(np.float64)
    loss = np.concatenate(([-epsilon], epsilon * (2 * u - 1), [epsilon]))
    mass = np.concatenate(([0.5], density, [math.exp(-epsilon) / 2]))
    x, _ = _side(loss, mass)
    y, _ = _side(-loss, mass)
    return LossMoments(x=x, y=y)
