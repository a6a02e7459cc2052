"""The certificate: epsilon from privacy loss distributions, rounded so that it is never below the true epsilon.

Google's `dp-accounting` discretises the loss by "connect the dots" (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi
2022), composes by FFT and truncates tails into the mass at infinity. Every grid is sound. A coarser grid is looser and
faster, and calibration uses that.
"""

import math
from typing import Any

import numpy as np
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.privacy_accountant import NeighboringRelation

from core.accounting import plans, random_allocation
from core.accounting.edgeworth import loss_moments
from core.accounting.exact import epsilon_of_gaussian, epsilon_of_pure
from core.errors import UnsupportedEvent

Other = (
    plans.SubsampledGaussian | plans.RandomAllocation | plans.Laplace | plans.Pure
)  # every event that is not an unsampled Gaussian

INTERVAL_DEFAULT = 1e-4
FINE, COARSE = 0.05, 0.3  # grid intervals as fractions of one release's standard deviation
POINTS_MAX = 1 << 18
COMPOSED_POINTS_MAX = 1 << 25  # for a composition; about 2 GB
_TAIL_MASS = 1e-15
# How much of delta rounding may hide for each release: in a single release's curve, and in the transform, whose n-th
# power multiplies its errors. Measured against the exact binomial up to 10^7 releases: .3 * 2^-53 at most.
_ROUNDING = 4 * 2.0**-53
_TAIL_X = 10.2  # standard deviations at which the library truncates a Gaussian (its log mass of -50)
_COMPOSED_REACH = 20.0


def certified_epsilon(
    plan: tuple[tuple[plans.PlanEvent, int], ...],
    delta: float,
    *,
    interval: float | None = None,
    optimistic: bool = False,
) -> float:
    """Return epsilon of `plan` at `delta`. The function is pure and picklable, so it can run in a process pool.

    Guarantee: an upper bound on the tight epsilon in both directions, for every `interval` of the loss grid
    (default: fine enough for about 4 digits, within POINTS_MAX points). `optimistic` gives a lower bound instead,
    up to the same discretisation. Without an `interval`, plans of Gaussian events only and plans of one pure event are
    solved exactly. The result is infinite if the truncated tails and the rounding alone exceed `delta`.

    Raises:
        UnsupportedEvent: the plan's distribution does not fit COMPOSED_POINTS_MAX points or a double; or an
            `optimistic` result is requested for random allocation.
    """
    plan = tuple((plans.simplest(event), count) for event, count in plan)
    mu, others = _parts(plan)
    if interval is None and not others:
        return epsilon_of_gaussian(delta, mu)
    if interval is None and mu == 0 and len(others) == 1 and isinstance(others[0][0], plans.Pure):
        return epsilon_of_pure(delta, others[0][0].epsilon, others[0][1])
    with np.errstate(over="ignore", invalid="ignore"):  # `epsilon_of` detects an overflow
        composed = compose(plan, interval or grid_interval(plan), optimistic=optimistic)
    if optimistic:
        return epsilon_of(composed, delta, optimistic=True)
    spare = delta - _ROUNDING * (1 + sum(count for _, count in others))
    return epsilon_of(composed, spare) if spare > 0 else math.inf


def compose(
    plan: tuple[tuple[plans.PlanEvent, int], ...], step: float, *, optimistic: bool = False
) -> google.PrivacyLossDistribution:
    """Return the privacy loss distribution of `plan` on a grid of `step`, rounded up, or down if `optimistic`.

    Raises UnsupportedEvent as `certified_epsilon` does.
    """
    mu, others = _parts(tuple((plans.simplest(event), count) for event, count in plan))
    try:
        parts = [_self_composed(_distribution(event, step, optimistic), count) for event, count in others]
        if mu:
            parts.append(google.from_gaussian_mechanism(1 / mu, **_options(step, optimistic)))
    except (ValueError, OverflowError):  # the library's own checks, for a curve outside the range of a double
        raise UnsupportedEvent("the privacy loss of this plan does not fit a double") from None
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _parts(plan: tuple[tuple[plans.PlanEvent, int], ...]) -> tuple[float, list[tuple[Other, int]]]:
    """Return the mu of all Gaussian releases as one (0 if there are none), and the other events."""
    noisy = [(event, count) for event, count in plan if isinstance(event, plans.Gaussian)]
    mu = math.sqrt(math.fsum(count / event.noise_multiplier**2 for event, count in noisy)) * (1 + 2.0**-51)
    return mu, [(event, count) for event, count in plan if not isinstance(event, plans.Gaussian)]


def _self_composed(one: google.PrivacyLossDistribution, count: int) -> google.PrivacyLossDistribution:
    """Compose `one` with itself, `count` times, unless that needs too many points."""
    for pmf in _pmfs(one):
        low, high = common.compute_self_convolve_bounds(pmf.to_dense_pmf()._probs, count, _TAIL_MASS)
        if high - low >= COMPOSED_POINTS_MAX:
            raise UnsupportedEvent("the privacy loss distribution of this plan is too large")
    return one.self_compose(count, _TAIL_MASS)


def _pmfs(distribution: google.PrivacyLossDistribution) -> list[Any]:
    return [distribution._pmf_remove] if distribution._symmetric else [distribution._pmf_remove, distribution._pmf_add]


def epsilon_of(distribution: google.PrivacyLossDistribution, delta: float, *, optimistic: bool = False) -> float:
    """Return the least epsilon >= 0 with delta(eps) <= `delta`, the larger of both directions, or infinity.

    An optimistic value of 0 is vacuous. It is the result if the distribution does not fit a double.

    The library's own search computes e^-loss in a double, which overflows or loses its digits from epsilon 700 on, and
    it loops in Python. This search sums in logarithms. It reads private fields, hence the pinned minor version.
    """
    return max(_epsilon_of_pmf(pmf.to_dense_pmf(), delta, optimistic) for pmf in _pmfs(distribution))


def _epsilon_of_pmf(pmf: Any, delta: float, optimistic: bool) -> float:
    at_infinity = float(pmf._infinity_mass)
    probs = np.maximum(np.asarray(pmf._probs, dtype=np.float64), 0.0)
    if not (math.isfinite(at_infinity) and np.isfinite(probs).all()):
        return 0.0 if optimistic else math.inf
    if not optimistic:
        # Probability that rounding lost may have been anywhere, so it counts as an infinite loss.
        at_infinity += max(0.0, 1.0 - at_infinity - float(probs.sum()))
    if at_infinity > delta:
        return math.inf
    losses = pmf._discretization * (pmf._lower_loss + np.arange(probs.size, dtype=np.float64))
    keep = losses > 0
    probs, losses = probs[keep][::-1], losses[keep][::-1]  # descending
    if not probs.size:
        return 0.0
    unit = 0.0 if optimistic else probs.size * 2.0**-53  # rounding error of a sum of this many positive terms
    upper = at_infinity + np.cumsum(probs) * (1 + unit)
    with np.errstate(divide="ignore"):
        log_lower = np.logaddexp.accumulate(np.log(probs) - losses)
        log_lower -= unit * (2 + np.abs(log_lower, where=np.isfinite(log_lower), out=np.zeros_like(log_lower)).max())
        # delta at each next loss, the last one 0: the sum of p_i (1 - e^(eps - l_i)) over the larger losses
        following = np.append(losses[1:], 0.0)
        above = upper - np.exp(np.minimum(following + log_lower, 0.0)) > delta
    if not above.any():
        return 0.0
    first = int(np.argmax(above))
    epsilon = math.log(upper[first] - delta) - log_lower[first] if math.isfinite(log_lower[first]) else losses[first]
    return float(max(0.0, epsilon))


def _distribution(event: Other, step: float, optimistic: bool) -> google.PrivacyLossDistribution:
    options = _options(step, optimistic)
    if isinstance(event, plans.SubsampledGaussian):
        relation = (
            NeighboringRelation.ADD_OR_REMOVE_ONE
            if event.adjacency is plans.PlanAdjacency.ADD_REMOVE
            else NeighboringRelation.REPLACE_ONE
        )
        return google.from_gaussian_mechanism(
            event.noise_multiplier, sampling_prob=event.sampling_rate, neighboring_relation=relation, **options
        )
    if isinstance(event, plans.RandomAllocation):
        if optimistic:
            raise UnsupportedEvent("random allocation has no lower bound")
        return random_allocation.distribution(event, step)
    if isinstance(event, plans.Laplace):
        return google.from_laplace_mechanism(1 / event.epsilon, **options)
    # The worst pure mechanism is binary randomised response, which keeps the true value with odds e^eps.
    flip = 2 / (1 + math.exp(event.epsilon))
    return google.from_randomized_response(
        flip,
        2,
        pessimistic_estimate=not optimistic,
        value_discretization_interval=step,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )


def _options(step: float, optimistic: bool) -> dict[str, Any]:
    return {
        "pessimistic_estimate": not optimistic,
        "value_discretization_interval": step,
        "use_connect_dots": not optimistic,
    }


def grid_interval(plan: tuple[tuple[plans.PlanEvent, int], ...], share: float | None = None) -> float:
    """Return a loss interval for `plan`: the fraction `share` of the smallest standard deviation of a release.

    Default: FINE, and at most INTERVAL_DEFAULT. The interval is large enough that the grids of one release and of the
    composition have at most POINTS_MAX points.
    """
    mu, others = _parts(tuple((plans.simplest(event), count) for event, count in plan))
    spreads = [(*_spread(event), count) for event, count in others]
    if mu:
        spreads.append((mu, mu * (2 * _TAIL_X + mu), 1))  # all Gaussian releases count as one
    smallest = min(deviation for deviation, _, _ in spreads)
    widest = max(width for _, width, _ in spreads)
    reach = _COMPOSED_REACH * math.sqrt(math.fsum(count * deviation**2 for deviation, _, count in spreads))
    wanted = min(FINE * smallest, INTERVAL_DEFAULT) if share is None else share * smallest
    return max(wanted, widest / POINTS_MAX, (widest + reach) / POINTS_MAX)


def _spread(event: Other) -> tuple[float, float]:
    """Return standard deviation and reach of the loss of one release."""
    if isinstance(event, plans.Pure | plans.Laplace):
        return event.epsilon * (0.5 if isinstance(event, plans.Pure) else 0.4), 2 * event.epsilon
    if isinstance(event, plans.RandomAllocation):
        loss = random_allocation.spread(event)
        return loss.deviation, 2 * loss.reach
    mu = 1 / event.noise_multiplier
    if event.adjacency is plans.PlanAdjacency.REPLACE_ONE:
        return event.sampling_rate * mu, 4 * mu * (_TAIL_X + mu)
    top = mu * _TAIL_X + mu * mu / 2
    width = top + math.log(event.sampling_rate) if top > 500 else math.log1p(event.sampling_rate * math.expm1(top))
    width -= math.log1p(-event.sampling_rate)
    return math.sqrt(loss_moments(event).y.cumulants[1]), width


class PldCertificate(plans.Accountant):
    """Guarantee: an upper bound on epsilon for a fixed plan, tight to about four digits. Not for adaptive plans.

    Adjacency: that of the account, in both directions. `interval` is the width of the loss grid, in epsilon.
    """

    name = "pld"

    def __init__(
        self, adjacency: plans.PlanAdjacency = plans.PlanAdjacency.ADD_REMOVE, *, interval: float | None = None
    ) -> None:
        super().__init__(adjacency)
        self._interval = interval
        self._plan: dict[plans.PlanEvent, int] = {}

    def _check(self, event: plans.PlanEvent) -> None:
        """Accept every plan event: each has a dominating pair."""

    def _add(self, event: plans.PlanEvent, count: int) -> None:
        self._plan[event] = self._plan.get(event, 0) + count

    def _epsilon(self, delta: float) -> plans.Result:
        value = certified_epsilon(tuple(self._plan.items()), delta, interval=self._interval)
        if not math.isfinite(value):
            return plans.Result(None, plans.Kind.VACUOUS, "the truncated tails exceed this delta")
        return plans.Result(value, plans.Kind.BOUND)
