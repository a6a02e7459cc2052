"""The Edgeworth accountant: an estimate of the tight epsilon in constant time. It is not a bound.

Wang, Gao, Zhang, Shi, Su 2022, "Analytical Composition of Differential Privacy via the Edgeworth Accountant".
delta(eps) = 1 - F_Y(eps) - e^eps (1 - F_X(eps)) with each F replaced by its Edgeworth expansion of order 1, 2 or 3.
Cumulants add, so ten running sums represent a history of any length, and an update is O(1).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, ndtr

from core.accounting.binomial import epsilon_of_pure
from core.accounting.contract import Accountant, Direction, Interval, Kind, Result
from core.accounting.edgeworth_interval import edgeworth_error
from core.accounting.gaussian import epsilon_of_gaussian
from core.accounting.moments import ORDERS, LossMoments, loss_moments
from core.accounting.plans import Gaussian, PlanAdjacency, PlanEvent, Pure, simplest
from core.errors import OutOfRange, UnsupportedEvent

Array = npt.NDArray[np.float64]

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
