"""The certificate: epsilon from privacy loss distributions, rounded so that it is never under the truth.

Google's `dp-accounting` discretises the loss by "connect the dots" (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi
2022), composes by FFT and truncates tails into the mass at infinity. Any grid is sound; a coarser one is looser and
faster, which is what calibration lives on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.privacy_accountant import NeighboringRelation

from core.accounting import random_allocation
from core.accounting.binomial import epsilon_of_pure
from core.accounting.contract import Accountant, Kind, Result
from core.accounting.gaussian import epsilon_of_gaussian
from core.accounting.moments import loss_moments
from core.accounting.plans import (
    Gaussian,
    Laplace,
    PlanAdjacency,
    PlanEvent,
    Pure,
    RandomAllocation,
    SubsampledGaussian,
    simplest,
)
from core.errors import UnsupportedEvent

INTERVAL_DEFAULT = 1e-4
FINE, COARSE = 0.05, 0.3  # grid intervals as parts of one release's standard deviation
POINTS_MAX = 1 << 18
_TAIL_X = 10.2  # standard deviations at which the library cuts a Gaussian (its log mass of -50)
_COMPOSED_REACH = 20.0


def certified_epsilon(
    plan: tuple[tuple[PlanEvent, int], ...], delta: float, *, interval: float | None = None, optimistic: bool = False
) -> float:
    """Epsilon of `plan` at `delta`. Pure and picklable: fit for a process pool.

    Guarantee: an upper bound on the tight epsilon, both directions, whatever the `interval` of the loss grid
    (default: fine enough for about 4 digits, within POINTS_MAX points). `optimistic` gives a lower bound instead,
    up to the same discretisation. Without an `interval`, plans of Gaussian events only and of one pure event are
    solved exactly. Infinite if the truncated tails alone exceed `delta`.

    Raises: UnsupportedEvent for an `optimistic` answer about random allocation.
    """
    plan = tuple((simplest(event), count) for event, count in plan)
    noisy = [(event, count) for event, count in plan if isinstance(event, Gaussian)]
    mu = math.sqrt(sum(count / event.noise_multiplier**2 for event, count in noisy))
    others = [(event, count) for event, count in plan if not isinstance(event, Gaussian)]
    if not others and interval is None:
        return epsilon_of_gaussian(delta, mu)
    if interval is None and not noisy and len(others) == 1 and isinstance(others[0][0], Pure):
        return epsilon_of_pure(delta, others[0][0].epsilon, others[0][1])
    step = interval or grid_interval(plan)
    return epsilon_of(compose(plan, step, optimistic=optimistic), delta, optimistic=optimistic)


def compose(
    plan: tuple[tuple[PlanEvent, int], ...], step: float, *, optimistic: bool = False
) -> google.PrivacyLossDistribution:
    """The privacy loss distribution of `plan` on a grid of `step`, rounded up, or down if `optimistic`."""
    plan = tuple((simplest(event), count) for event, count in plan)
    noisy = [(event, count) for event, count in plan if isinstance(event, Gaussian)]
    mu = math.sqrt(sum(count / event.noise_multiplier**2 for event, count in noisy))
    others = [(event, count) for event, count in plan if not isinstance(event, Gaussian)]
    parts = [_distribution(event, step, optimistic).self_compose(count) for event, count in others]
    if noisy:
        parts.append(_distribution(Gaussian(1 / mu, noisy[0][0].adjacency), step, optimistic))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def epsilon_of(distribution: google.PrivacyLossDistribution, delta: float, *, optimistic: bool = False) -> float:
    """The least epsilon >= 0 with delta(eps) <= `delta`, the larger of both directions; infinite if there is none.

    The library's own search forms e^-loss in a double, which overflows or loses its digits from epsilon 700 on, and
    walks in Python; this one sums in logarithms. The fields it reads are private, hence the pinned minor version.
    """
    pmfs = [distribution._pmf_remove] if distribution._symmetric else [distribution._pmf_remove, distribution._pmf_add]
    return max(_epsilon_of_pmf(pmf.to_dense_pmf(), delta, optimistic) for pmf in pmfs)


def _epsilon_of_pmf(pmf: Any, delta: float, optimistic: bool) -> float:
    at_infinity = float(pmf._infinity_mass)
    probs = np.maximum(np.asarray(pmf._probs, dtype=np.float64), 0.0)
    if not optimistic:
        # probability that rounding lost may have been anywhere: count it as an infinite loss
        at_infinity += max(0.0, 1.0 - at_infinity - float(probs.sum()))
    if at_infinity > delta:
        return math.inf
    losses = pmf._discretization * (pmf._lower_loss + np.arange(probs.size, dtype=np.float64))
    keep = losses > 0
    probs, losses = probs[keep][::-1], losses[keep][::-1]  # descending
    if not probs.size:
        return 0.0
    upper = at_infinity + np.cumsum(probs)
    with np.errstate(divide="ignore"):
        log_lower = np.logaddexp.accumulate(np.log(probs) - losses)
        # delta at each next loss, the last one 0: sum of p_i (1 - e^(eps - l_i)) over the losses above it
        following = np.append(losses[1:], 0.0)
        above = upper - np.exp(np.minimum(following + log_lower, 0.0)) > delta
    if not above.any():
        return 0.0
    first = int(np.argmax(above))
    epsilon = math.log(upper[first] - delta) - log_lower[first] if math.isfinite(log_lower[first]) else losses[first]
    return float(max(0.0, epsilon))


def _distribution(event: PlanEvent, step: float, optimistic: bool) -> google.PrivacyLossDistribution:
    options = {
        "pessimistic_estimate": not optimistic,
        "value_discretization_interval": step,
        "use_connect_dots": not optimistic,
    }
    if isinstance(event, Gaussian):
        return google.from_gaussian_mechanism(event.noise_multiplier, **options)
    if isinstance(event, SubsampledGaussian):
        relation = (
            NeighboringRelation.ADD_OR_REMOVE_ONE
            if event.adjacency is PlanAdjacency.ADD_REMOVE
            else NeighboringRelation.REPLACE_ONE
        )
        return google.from_gaussian_mechanism(
            event.noise_multiplier, sampling_prob=event.sampling_rate, neighboring_relation=relation, **options
        )
    if isinstance(event, RandomAllocation):
        if optimistic:
            raise UnsupportedEvent("random allocation has no lower bound")
        return random_allocation.distribution(event, step)
    if isinstance(event, Laplace):
        return google.from_laplace_mechanism(1 / event.epsilon, **options)
    # the worst pure mechanism is binary randomised response, which keeps the truth with odds e^eps
    flip = 2 / (1 + math.exp(event.epsilon))
    return google.from_randomized_response(
        flip,
        2,
        pessimistic_estimate=not optimistic,
        value_discretization_interval=step,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )


def grid_interval(plan: tuple[tuple[PlanEvent, int], ...], share: float | None = None) -> float:
    """A loss interval for `plan`: `share` of the smallest standard deviation of a release.

    Default: FINE, and at most INTERVAL_DEFAULT. Never below what keeps the grids of one release and of the
    composition within POINTS_MAX points.
    """
    smallest, widest, variance = math.inf, 0.0, 0.0
    for event, count in plan:
        deviation, width = _spread(event)
        if isinstance(event, Gaussian):
            deviation *= math.sqrt(count)
            variance += deviation**2
        else:
            variance += count * deviation**2
        smallest, widest = min(smallest, deviation), max(widest, width)
    wanted = min(FINE * smallest, INTERVAL_DEFAULT) if share is None else share * smallest
    return max(wanted, widest / POINTS_MAX, (widest + _COMPOSED_REACH * math.sqrt(variance)) / POINTS_MAX)


def _spread(event: PlanEvent) -> tuple[float, float]:
    """Standard deviation and reach of the loss of one release."""
    if isinstance(event, Pure | Laplace):
        return event.epsilon * (0.5 if isinstance(event, Pure) else 0.4), 2 * event.epsilon
    if isinstance(event, RandomAllocation):
        loss = random_allocation.spread(event)
        return loss.deviation, 2 * loss.reach
    mu = 1 / event.noise_multiplier
    if isinstance(event, Gaussian):
        return mu, 2 * _TAIL_X * mu
    if event.adjacency is PlanAdjacency.REPLACE_ONE:
        return event.sampling_rate * mu, 4 * mu * (_TAIL_X + mu)
    top = mu * _TAIL_X + mu * mu / 2
    width = top + math.log(event.sampling_rate) if top > 500 else math.log1p(event.sampling_rate * math.expm1(top))
    width -= math.log1p(-event.sampling_rate)
    return math.sqrt(loss_moments(event).y.cumulants[1]), width


class PldCertificate(Accountant):
    """Guarantee: an upper bound on epsilon for a fixed plan, tight to about four digits. Not for adaptive plans.

    Adjacency: that of the account; both directions are covered. `interval` is the width of the loss grid, in epsilon.
    """

    name = "pld"

    def __init__(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE, *, interval: float | None = None) -> None:
        super().__init__(adjacency)
        self._interval = interval
        self._plan: dict[PlanEvent, int] = {}

    def _check(self, event: PlanEvent) -> None:
        """Every plan event has a dominating pair."""

    def _add(self, event: PlanEvent, count: int) -> None:
        self._plan[event] = self._plan.get(event, 0) + count

    def _epsilon(self, delta: float) -> Result:
        value = certified_epsilon(tuple(self._plan.items()), delta, interval=self._interval)
        if not math.isfinite(value):
            return Result(None, Kind.VACUOUS, "the truncated tails exceed this delta")
        return Result(value, Kind.BOUND)
