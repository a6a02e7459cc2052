"""The Edgeworth accountant: an estimate of the tight epsilon in constant time. It is not a bound.

Wang, Gao, Zhang, Shen, Su 2022, "Analytical Composition of Differential Privacy via the Edgeworth Accountant".
delta(eps) = 1 - F_Y(eps) - e^eps (1 - F_X(eps)) with each F replaced by its Edgeworth expansion of order 1, 2 or 3.
Cumulants add, so ten running sums represent a history of any length, and an update is O(1).

L = ln(dP/dQ) is the privacy loss of one release, X is L under Q, Y is L under P. P is the output with the unit included
("remove": P is the mixture). All moments are computed from central moments, because raw moments lose all digits at
small sampling rates. EW-Tune (Behnia et al. 2022) swaps P and Q, and takes the supremum over a family of
losses, where this module takes the larger of the two directions.

`edgeworth_error` bounds the distance between an order-1 expansion of an iid sum and its distribution function:
Derumigny, Girard and Guyonvarch 2021, "Explicit non-asymptotic bounds for the distance to the first-order Edgeworth
expansion", for the case without a continuity assumption.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, gammaincc, ndtr

from core.accounting.exact import epsilon_of_gaussian, epsilon_of_pure
from core.accounting.plans import (
    Accountant,
    Direction,
    Gaussian,
    Interval,
    Kind,
    Laplace,
    PlanAdjacency,
    PlanEvent,
    Pure,
    Result,
    SubsampledGaussian,
    simplest,
)
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
        UnsupportedEvent: a pure event (a lattice; see `epsilon_of_pure`) or replace-one sampling.
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
            loss = np.where(shift < 600, np.log1p(rate * np.expm1(np.minimum(shift, 600.0))), shift + math.log(rate))
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


_A = np.linspace(0.005, 0.33, 66)


def _upper_gamma(shape: float, at: Array) -> Array:
    result: Array = math.gamma(shape) * gammaincc(shape, at)
    return result


@lru_cache(maxsize=4096)
def edgeworth_error(side: Side, count: int) -> float:
    """Return an upper bound on sup |F - (order-1 expansion)| for a sum of `count` iid privacy losses, maybe infinite.

    Assumes iid summands with a fourth moment. Every free parameter `a` in (0, 1/3) is valid; the result is the least
    bound over a grid of them.
    """
    n = float(count)
    lam, k3, k4 = abs(side.skewness), side.absolute_3, side.kurtosis
    kt = k3 + side.absolute_1
    with np.errstate(over="ignore", invalid="ignore"):
        total = _bound(n, lam, k3, k4, kt)
    total = total[np.isfinite(total)]
    return float(total.min()) if total.size else math.inf


def _bound(n: float, lam: float, k3: float, k4: float, kt: float) -> Array:
    a = _A
    root = math.sqrt(n)
    d = (1 - 3 * a) ** 2
    h = 2 * root / kt
    low = np.minimum(np.sqrt(2 * a) * (n / k4) ** 0.25, h)
    p = (
        48 * a * math.sqrt(k4 / n)
        + 4 * a**2 * k4 / n
        + 96 * np.sqrt(2 * a) * lam / (k4 * n) ** 0.25
        + 32 * a * lam**2 / math.sqrt(k4 * n)
        + 16 * math.sqrt(2) * k4**0.25 * lam * a**1.5 / n**0.75
    )
    e2 = np.exp(a**2 * (1 / 6 + 1 / (2 * d) + p / (288 * d)))
    e3 = np.exp(a**2 / 6 + a**2 / (4 * d))
    b = k4 / 12 + 1 / (4 * d) + p / (576 * d)
    main: Array = (
        0.1995 * kt / root
        + (0.031 * kt**2 + 0.327 * k4 * (1 / 12 + 1 / (4 * d)) + 0.054 * lam * kt + 0.037 * e3 * lam**2) / n
    )
    flat = 81.2376 * kt**4 / (16 * math.pi**4 * n**2) + 4.3394 * lam * kt**3 / (8 * math.pi**3 * n**2)
    rest = flat + _tail(n, lam, k4, d, e2, b) + 1.306 * (e2 - e3) * lam**2 / (36 * n)
    high = np.full_like(a, h)
    rest += lam * (_upper_gamma(1.5, low) - _upper_gamma(1.5, high)) / root
    middle = _upper_gamma(1.5, low**2 / 8) - _upper_gamma(1.5, high**2 / 8)
    rest += 1.0253 * 2**2.5 * k3 * middle / (3 * math.pi * root)
    result: Array = main + rest
    return result


def _tail(n: float, lam: float, k4: float, d: Array, e2: Array, b: Array) -> Array:
    g = math.gamma
    first = (
        math.sqrt(2) * g(1.5) * lam / (6 * n**1.5)
        + 8 * g(4) * k4 / (24 * n**2)
        + 8 * g(4) * lam**2 / (36 * n**2)
        + 2**3.5 * g(4.5) * k4 * lam / (72 * n**2.5)
        + 16 * g(5) * k4**2 / (576 * n**3)
    )
    second = 16 * g(5) / (8 * n**2) + 2**3.5 * g(4.5) * lam / (12 * n**1.5)
    result: Array = 1.0253 / (2 * math.pi * d) * first + 1.0253 * e2 * b / math.pi * second
    return result


NOT_A_BOUND = "an estimate: the true epsilon may be larger; certify before use"
_SKEWED = "; the privacy loss is strongly skewed, so expect a large error"
_SKEWNESS_CREDIBLE = 0.5
_COARSE = 512
_FINE = 48
_REACH_BELOW, _REACH_ABOVE = 12.0, 40.0
_SIGNS = np.array([-1.0, 1.0, -1.0, 1.0, -1.0])
_ROOT_2PI = math.sqrt(2 * math.pi)
_EXPONENT_MAX = 600.0


def _correction(z: Array, cumulants: Array, order: int) -> Array:
    """Return the braces in F(x) = Phi(z) - phi(z){...}, in powers of the standardised cumulants."""
    scale = math.sqrt(cumulants[1])
    k3 = cumulants[2] / scale**3
    z2 = z * z
    total: Array = (k3 / 6) * (z2 - 1)
    if order >= 2:
        k4 = cumulants[3] / scale**4
        total += z * ((k4 / 24) * (z2 - 3) + (k3 * k3 / 72) * ((z2 - 10) * z2 + 15))
    if order >= 3:
        k5 = cumulants[4] / scale**5
        total += (k5 / 120) * ((z2 - 6) * z2 + 3)
        total += (k3 * k4 / 144) * (((z2 - 15) * z2 + 45) * z2 - 15)
        total += (k3**3 / 1296) * ((((z2 - 28) * z2 + 210) * z2 - 420) * z2 + 105)
    return total


def delta_curve(epsilon: Array, x: Array, y: Array, order: int, error: tuple[float, float] = (0.0, 0.0)) -> Array:
    """Return the expanded delta(eps) in the direction of (X, Y). `error` shifts both tails, for the interval."""
    error_x, error_y = error
    z_y = (epsilon - y[0]) / math.sqrt(y[1])
    z_x = (epsilon - x[0]) / math.sqrt(x[1])
    with np.errstate(under="ignore"):
        tail_y = ndtr(-z_y) + np.exp(-z_y * z_y / 2) / _ROOT_2PI * _correction(z_y, y, order) + error_y
        # compute e^eps phi(z) in the exponent; z_x > 0, because the mean of X is negative
        mills = math.sqrt(math.pi / 2) * erfcx(z_x / math.sqrt(2))
        shape = mills + _correction(z_x, x, order)
        if error_x == 0.0:
            tail_x = np.exp(np.minimum(epsilon - z_x * z_x / 2, _EXPONENT_MAX)) / _ROOT_2PI * shape
        else:
            shifted = np.maximum(np.exp(-z_x * z_x / 2) / _ROOT_2PI * shape + error_x, 0.0)
            tail_x = np.exp(np.minimum(epsilon, _EXPONENT_MAX)) * shifted
    result: Array = tail_y - tail_x
    return result


class _Curve:
    """One direction's delta curve, and where it crosses a delta."""

    def __init__(self, x: Array, y: Array, order: int, error: tuple[float, float] = (0.0, 0.0)) -> None:
        self._x, self._y, self._order, self._error = x, y, order, error
        self._tolerance = math.inf if any(error) else 1e-9  # curves of the interval may leave [0, 1]

    def at(self, epsilon: Array) -> Array:
        return delta_curve(epsilon, self._x, self._y, self._order, self._error)

    def root(self, delta: float) -> float | None:
        """Return the one epsilon >= 0 at which the curve falls through `delta`, 0 if it is below throughout, else None.

        A true curve lies in [0, 1]. If the expansion leaves that range by more than `delta`, a crossing has no meaning.
        """
        centre, scale = float(self._y[0]), math.sqrt(self._y[1])
        low = max(0.0, centre - _REACH_BELOW * scale)
        grid = np.linspace(low, max(low, centre) + _REACH_ABOVE * scale, _COARSE)
        for count in (_FINE, _FINE, 0):
            values = self.at(grid)
            if values.min() < -delta - self._tolerance or values.max() > 1 + delta + self._tolerance:
                return None
            above = values > delta
            changes = np.flatnonzero(above[1:] != above[:-1])
            if changes.size == 0 and not above[0]:
                return 0.0
            if changes.size != 1 or not above[0]:
                return None
            left = int(changes[0])
            if count:
                grid = np.linspace(grid[left], grid[left + 1], count)
        over, under = values[left : left + 2] - delta
        return float(grid[left] + (grid[left + 1] - grid[left]) * over / (over - under))


def sides(x: Array, y: Array, direction: Direction) -> list[tuple[Array, Array]]:
    """Return the cumulants (X, Y) of each direction that `direction` includes."""
    pairs = []
    if direction in (Direction.REMOVE, Direction.MAX):
        pairs.append((x, y))
    if direction in (Direction.ADD, Direction.MAX):
        # F_X(-eps) - e^eps F_Y(-eps) is the same formula for (-Y, -X)
        pairs.append((y * _SIGNS, x * _SIGNS))
    return pairs


def estimate(x: Array, y: Array, order: int, delta: float, direction: Direction = Direction.MAX) -> Result:
    """Estimate epsilon of a history with the summed cumulants `x` and `y`, in constant time. Not a bound."""
    roots = [_Curve(*side, order).root(delta) for side in sides(x, y, direction)]
    found = [root for root in roots if root is not None]
    if len(found) < len(roots):
        note = f"order {order} crosses this delta several times or never"
        return Result(None, Kind.NO_UNIQUE_ROOT, note, direction)
    skewness = max(abs(float(side[2])) / float(side[1]) ** 1.5 for side in (x, y))
    note = NOT_A_BOUND + (_SKEWED if skewness > _SKEWNESS_CREDIBLE else "")
    return Result(max(found), Kind.ESTIMATE, note, direction)


class EdgeworthAccountant(Accountant):
    """Estimates epsilon of a fixed plan. It is not an upper bound, except for plans that it solves exactly.

    Exact, and labelled a bound: plans of Gaussian events only, and plans of pure events of one epsilon (the exact
    binomial; a lattice has no smooth expansion). Every other result is an estimate. For an iid plan of order 1 it
    contains the interval of Derumigny, Girard and Guyonvarch, which is vacuous if it excludes nothing. Their error of
    the expansion is a theorem, but the ends of the interval are estimates: the moments come from a quadrature that
    stops when they no longer change, which does not bound its error, and nothing is rounded outwards.
    """

    name = "edgeworth"

    def __init__(
        self,
        adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE,
        *,
        order: int = 1,
        direction: Direction = Direction.MAX,
    ) -> None:
        """Raises OutOfRange for an order other than 1, 2 and 3."""
        super().__init__(adjacency)
        if order not in (1, 2, 3):
            raise OutOfRange("the order of the expansion is 1, 2 or 3", field="order")
        self.order = order
        self.direction = Direction(direction)
        self._x = np.zeros(ORDERS)
        self._y = np.zeros(ORDERS)
        self._additions = 0
        self._pure: Pure | None = None
        self._gaussian = True
        self._only: LossMoments | None = None  # the moments of an iid plan

    def _check(self, event: PlanEvent) -> None:
        if isinstance(event, Pure):
            if self.count and self._pure != event:
                raise UnsupportedEvent("a pure event composes exactly only with others of the same epsilon")
            return
        if self._pure is not None:
            raise UnsupportedEvent("a pure event composes exactly only with others of the same epsilon")
        loss_moments(event)

    def _add(self, event: PlanEvent, count: int) -> None:
        if isinstance(event, Pure):
            self._pure = event
            return
        moments = loss_moments(event)
        self._x += count * np.asarray(moments.x.cumulants)
        self._y += count * np.asarray(moments.y.cumulants)
        self._additions += 1
        self._gaussian &= isinstance(simplest(event), Gaussian)
        self._only = moments if self.count == 0 or self._only is moments else None

    def _epsilon(self, delta: float) -> Result:
        if self._pure is not None:
            value = epsilon_of_pure(delta, self._pure.epsilon, self.count)
            return Result(value, Kind.BOUND, "exact: the binomial of randomised response", self.direction)
        if self._gaussian:
            mu = math.sqrt(self._y[1]) * (1 + self._additions * 2.0**-52)  # each addition may have rounded down
            value = epsilon_of_gaussian(delta, mu)
            return Result(value, Kind.BOUND, "exact: Gaussian releases compose to one", self.direction)
        answer = estimate(self._x, self._y, self.order, delta, self.direction)
        return replace(answer, interval=self._interval(delta)) if self.order == 1 else answer

    def delta(self, epsilon: float) -> float:
        """Return the estimated delta at `epsilon`, the larger one for direction `max`. It may lie outside [0, 1]."""
        if self._pure is not None or not self.count:
            raise UnsupportedEvent("the smooth curve is that of Gaussian and Laplace events")
        at = np.array([epsilon])
        return max(float(_Curve(x, y, self.order).at(at)[0]) for x, y in sides(self._x, self._y, self.direction))

    def _interval(self, delta: float) -> Interval:
        if self._only is None:
            return Interval(None, None, Kind.VACUOUS, "no interval for a plan of unequal releases")
        errors = (edgeworth_error(self._only.x, self.count), edgeworth_error(self._only.y, self.count))
        if not all(map(math.isfinite, errors)) or min(errors) >= delta:
            return Interval(None, None, Kind.VACUOUS, f"the error of the expansion is {max(errors):.2g}, above delta")
        lows, highs = [], []
        for index, (x, y) in enumerate(sides(self._x, self._y, self.direction)):
            add = self.direction is Direction.ADD or index == 1
            error_x, error_y = reversed(errors) if add else errors
            highs.append(_Curve(x, y, 1, (-error_x, error_y)).root(delta))
            lows.append(_Curve(x, y, 1, (error_x, -error_y)).root(delta) or 0.0)
        if any(high is None for high in highs):
            return Interval(None, None, Kind.VACUOUS, f"the error of the expansion is {max(errors):.2g}")
        return Interval(max(lows), max(high for high in highs if high is not None), Kind.ESTIMATE)
