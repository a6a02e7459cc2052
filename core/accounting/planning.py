"""Questions about a plan: which noise or how many steps meet a target, and what every accountant says of it.

Every value that a calibration returns is certified: its certified epsilon is at most the target. The Edgeworth estimate
seeds a search on the PLD certificate, and only saves evaluations. `compare` runs all accountants; each result states
what it claims.

All functions are pure and picklable. An evaluation of the certificate takes tens of milliseconds, and for large plans
some seconds, so a service runs them in a process pool.
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

from core.accounting import plans
from core.accounting.additive import BasicAccountant, RdpAccountant
from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.exact import delta_of_gaussian, epsilon_of_gaussian
from core.accounting.fourier import FourierAccountant
from core.accounting.pld import COARSE, FINE, PldCertificate, certified_epsilon, grid_interval
from core.errors import CalculationTimeout, NoUniqueRoot, OutOfRange, UnsupportedEvent

EPSILON_MIN, EPSILON_MAX = 1e-3, 1e3
_SLACK = 2e-4  # the certified epsilon may be below the target by this relative amount
_EVALUATIONS_MAX = 40


def _check_target(epsilon: float, delta: float) -> None:
    plans.check_number(epsilon, field="epsilon", low=EPSILON_MIN, high=EPSILON_MAX)
    plans.check_delta(delta)


def _mu_for(epsilon: float, delta: float) -> float:
    """Return the largest mu for which a Gaussian release is (epsilon, delta)-DP."""
    low, high = 1e-12, 1.0
    while delta_of_gaussian(epsilon, high) <= delta and high < 1e6:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if delta_of_gaussian(epsilon, middle) <= delta else (low, middle)
    return low


def estimated_noise(epsilon: float, delta: float, *, sampling_rate: float, steps: int) -> float:
    """Return the noise multiplier at which the Edgeworth *estimate* is `epsilon`. It needs a certificate before use.

    This noise may be too small. The multipliers of Table I of the EW-Tune paper (Behnia et al. 2022) are this number,
    to .001, with order 1, direction remove, delta 1e-6 and 20 epochs at a batch of 2,000 (SST-2: of 68,800 rows).

    Raises:
        OutOfRange: an argument is outside its range.
        NoUniqueRoot: the estimate has no single epsilon near the solution.
    """
    _check_target(epsilon, delta)
    plans.check_count(steps)

    def gap(log_noise: float) -> float:
        account = EdgeworthAccountant(order=1, direction=plans.Direction.REMOVE)
        account.compose(plans.SubsampledGaussian(sampling_rate, math.exp(log_noise)), steps)
        return account.epsilon(delta).require() - epsilon

    centre = math.log(_central_limit_noise(epsilon, delta, sampling_rate, steps))
    low, high = centre - 0.05, centre + 0.05
    for _ in range(12):
        if gap(low) > 0:
            break
        low -= 0.15
    for _ in range(12):
        if gap(high) < 0:
            break
        high += 0.15
    if not gap(low) > 0 > gap(high):
        raise NoUniqueRoot
    return math.exp(float(brentq(gap, low, high, xtol=1e-7)))


def _central_limit_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the closed-form seed: mu = q sqrt(m (e^(1/sigma^2) - 1)), Bu, Dong, Long and Su 2020."""
    mu = _mu_for(epsilon, delta)
    noise = 1 / math.sqrt(math.log1p(mu * mu / (steps * rate * rate)))
    return min(max(noise, 2 * plans.NOISE_MULTIPLIER_MIN), plans.NOISE_MULTIPLIER_MAX / 2)


class _Search:
    """Finds the noise for a target by evaluations of the certified epsilon, within a bracket."""

    def __init__(self, epsilon: float, delta: float, event: Callable[[float], plans.PlanEvent], count: int) -> None:
        """`event` returns the plan event, released `count` times, for a noise multiplier within `range`."""
        self.target, self.delta, self.event, self.count = epsilon, delta, event, count
        self.range = (plans.NOISE_MULTIPLIER_MIN, plans.NOISE_MULTIPLIER_MAX)
        self.evaluations = 0

    def epsilon(self, noise: float, share: float) -> tuple[float, float]:
        plan = ((self.event(min(max(noise, self.range[0]), self.range[1])), self.count),)
        interval = grid_interval(plan, share)
        self.evaluations += 1
        return certified_epsilon(plan, self.delta, interval=interval), interval

    def solve(self, seed: float, share: float, slack: float, slope: float) -> tuple[float, float, float, float]:
        """Return noise, its certified epsilon in [target (1 - slack), target], the grid and d ln(eps) / d ln(noise).

        The search takes secant steps on logarithms, limited to the bracket.
        """
        low, high = map(math.log, self.range)
        aim = math.log(self.target) - slack / 2
        log_noise = math.log(seed)
        before: tuple[float, float] | None = None
        for _ in range(_EVALUATIONS_MAX):
            noise = min(
                max(math.exp(log_noise), plans.NOISE_MULTIPLIER_MIN), plans.NOISE_MULTIPLIER_MAX
            )  # exp may exceed the ends
            value, interval = self.epsilon(noise, share)
            if self.target * (1 - slack) <= value <= self.target:
                return noise, value, interval, slope
            if value > self.target:
                low = max(low, log_noise)
            else:
                high = min(high, log_noise)
            if high - low < 1e-5 and value <= self.target:
                return noise, value, interval, slope
            height = math.log(value) if 0 < value < math.inf else math.nan
            if before is not None and math.isfinite(before[1]) and log_noise != before[0] and height != before[1]:
                slope = min(-0.05, (height - before[1]) / (log_noise - before[0]))
            before = (log_noise, height)
            step = (aim - height) / slope
            proposal = log_noise + max(-1.0, min(1.0, step)) if math.isfinite(step) else math.nan
            if not low < proposal < high:
                wide = high - low > 2.0
                proposal = log_noise + math.copysign(1.0, value - self.target) if wide else (low + high) / 2
            log_noise = min(max(proposal, low), high)
            if high - low < 1e-5:
                log_noise = high
        raise OutOfRange("no noise multiplier in range meets this target", field="target")


def calibrate_noise(epsilon: float, delta: float, *, sampling_rate: float, steps: int) -> plans.CalibratedNoise:
    """Return the smallest noise multiplier, to 1e-3, with which `steps` Poisson-sampled steps are (epsilon, delta)-DP.

    Guarantee: the certified epsilon at the returned noise is at most `epsilon`. Adjacency: add-remove, both
    directions. Assumes a fixed plan. The Edgeworth estimate gives the seed. Evaluations on coarse loss grids, which are
    sound and loose by some parts in a thousand, approach the solution. Two or three on a fine grid certify it.

    Raises:
        OutOfRange: an argument is outside its range, or no noise multiplier within range meets the target.
    """
    _check_target(epsilon, delta)
    plans.check_count(steps)
    plans.SubsampledGaussian(sampling_rate, 1.0)
    if sampling_rate == 1.0:
        return _gaussian_noise(epsilon, delta, steps)
    try:
        seed = estimated_noise(epsilon, delta, sampling_rate=sampling_rate, steps=steps)
    except (NoUniqueRoot, OutOfRange):
        seed = _central_limit_noise(epsilon, delta, sampling_rate, steps)
    return _solved(_Search(epsilon, delta, lambda noise: plans.SubsampledGaussian(sampling_rate, noise), steps), seed)


def calibrate_allocation(epsilon: float, delta: float, *, steps: int, epochs: int) -> plans.CalibratedNoise:
    """Return the smallest noise multiplier, to 1e-3, with which `epochs` epochs of allocation are (epsilon, delta)-DP.

    Guarantee: as for `calibrate_noise`, for random allocation over `steps` steps in each epoch. The multiplier is never
    below ALLOCATION_NOISE_MIN. Takes some seconds.

    Raises:
        OutOfRange: an argument is outside its range, or no noise multiplier within range meets the target.
    """
    _check_target(epsilon, delta)
    plans.check_count(epochs)
    search = _Search(epsilon, delta, lambda noise: plans.RandomAllocation(steps, noise), epochs)
    search.range = low, high = plans.ALLOCATION_NOISE_MIN, plans.ALLOCATION_NOISE_MAX
    if search.epsilon(low, COARSE)[0] <= epsilon:
        certified, interval = search.epsilon(low, FINE)
        return plans.CalibratedNoise(low, plans.Certificate(certified, delta, interval), low, search.evaluations)
    seed = _central_limit_noise(epsilon, delta, 1 / steps, steps * epochs)
    return _solved(search, min(max(seed, 1.1 * low), high / 1.1))


def _solved(search: _Search, seed: float) -> plans.CalibratedNoise:
    epsilon, delta = search.target, search.delta
    coarse, coarse_epsilon, _, slope = search.solve(seed, COARSE, 0.01, -2.0)
    fine_epsilon, _ = search.epsilon(coarse, FINE)
    shift = (math.log(epsilon) - _SLACK / 2 - math.log(max(fine_epsilon, 1e-300))) / slope
    start = coarse * math.exp(max(-0.5, min(0.5, shift))) if coarse_epsilon > 0 else coarse
    noise, certified, interval, _ = search.solve(start, FINE, _SLACK, slope)
    return plans.CalibratedNoise(noise, plans.Certificate(certified, delta, interval), seed, search.evaluations)


def _gaussian_noise(epsilon: float, delta: float, steps: int) -> plans.CalibratedNoise:
    noise = math.sqrt(steps) / _mu_for(epsilon, delta)
    for _ in range(60):
        plans.check_number(noise, field="target", low=plans.NOISE_MULTIPLIER_MIN, high=plans.NOISE_MULTIPLIER_MAX)
        certified = epsilon_of_gaussian(delta, math.sqrt(steps) / noise)
        if certified <= epsilon:
            return plans.CalibratedNoise(noise, plans.Certificate(certified, delta, 0.0), noise, 1)
        noise *= 1 + 1e-9
    raise OutOfRange("no noise multiplier in range meets this target", field="target")


def calibrate_steps(
    epsilon: float, delta: float, *, sampling_rate: float, noise_multiplier: float
) -> plans.CalibratedSteps:
    """Return the largest number of steps that is certified (epsilon, delta)-DP, at most COUNT_MAX.

    Guarantee: on the loss grid of the certificate, the certified epsilon of the returned number is at most `epsilon`,
    and that of one more step exceeds it. Adjacency: add-remove, both directions. Assumes a fixed plan.

    Raises:
        OutOfRange: an argument is outside its range.
    """
    _check_target(epsilon, delta)
    event: plans.PlanEvent = plans.SubsampledGaussian(sampling_rate, noise_multiplier)
    if sampling_rate == 1.0:
        event = plans.Gaussian(noise_multiplier)
    seen: dict[int, float] = {}

    def interval(steps: int) -> float:
        return 0.0 if isinstance(event, plans.Gaussian) else grid_interval(((event, steps),), FINE)

    def certified(steps: int) -> float:
        if steps not in seen:
            seen[steps] = certified_epsilon(((event, steps),), delta, interval=interval(steps) or None)
        return seen[steps]

    if certified(1) > epsilon:
        return plans.CalibratedSteps(0, None, len(seen))
    mu = _mu_for(epsilon, delta)
    per_step = sampling_rate**2 * math.expm1(min(700.0, noise_multiplier**-2)) or math.inf
    low, high = 1, plans.COUNT_MAX + 1
    guess = round(min(max(mu * mu / per_step, 2), plans.COUNT_MAX))
    for _ in range(200):
        if high - low <= 1:
            break
        guess = min(max(guess, low + 1), high - 1)
        value = certified(guess)
        if value <= epsilon:
            low = guess
        else:
            high = guess
        guess = _next_guess(low, high, seen, epsilon)
    return plans.CalibratedSteps(low, plans.Certificate(seen[low], delta, interval(low)), len(seen))


def _next_guess(low: int, high: int, seen: dict[int, float], epsilon: float) -> int:
    """Interpolate by the power law through the bracket's ends, away from them. Double while there is no upper end."""
    if high not in seen:
        return min(2 * low, (low + high) // 2) if low > 1 else low + 1
    if low == 1 or not 0 < seen[low] < seen[high] < math.inf:
        return max(low + 1, high // 2) if low == 1 else (low + high) // 2
    power: float = math.log(seen[high] / seen[low]) / math.log(high / low)
    guess = round(low * math.exp(math.log(epsilon / seen[low]) / power))
    margin = (high - low) // 50
    return min(max(guess, low + margin), high - margin)


ORDERS = (1, 2, 3)


def compare(
    event: plans.PlanEvent, steps: int, delta: float, *, interval: float | None = None
) -> tuple[plans.Line, ...]:
    """Return epsilon at `delta` of `steps` releases of `event` by every accountant, including the certificate.

    If an accountant cannot price the event, its result is `vacuous` with the reason. The same holds if the caller's
    deadline interrupts the certificate with CalculationTimeout. `interval` is the loss grid of the certificate
    (default: its own choice). Adjacency: the event's. Assumes a fixed plan.

    Raises:
        OutOfRange: `steps` or `delta` is outside its range.
    """
    plans.check_count(steps)
    plans.check_delta(delta)
    bounds: list[plans.Accountant] = [
        BasicAccountant(event.adjacency),
        RdpAccountant(event.adjacency),
        FourierAccountant(event.adjacency),
    ]
    lines = [plans.Line(account.name, _price(account, event, steps, delta)) for account in bounds]
    for order in ORDERS:
        found = {
            direction: _price(
                EdgeworthAccountant(event.adjacency, order=order, direction=direction), event, steps, delta
            )
            for direction in plans.Direction
        }
        lines.append(
            plans.Line(
                EdgeworthAccountant.name,
                found[plans.Direction.MAX],
                order=order,
                remove=found[plans.Direction.REMOVE],
                add=found[plans.Direction.ADD],
            )
        )
    # The certificate runs last, so that a timeout does not affect the other results.
    certificate = PldCertificate(event.adjacency, interval=interval)
    try:
        certified = _price(certificate, event, steps, delta)
    except CalculationTimeout as late:
        certified = plans.Result(None, plans.Kind.VACUOUS, late.detail)
    return (*lines[: len(bounds)], plans.Line(certificate.name, certified), *lines[len(bounds) :])


def _price(account: plans.Accountant, event: plans.PlanEvent, steps: int, delta: float) -> plans.Result:
    try:
        return account.compose(event, steps).epsilon(delta)
    except UnsupportedEvent as refusal:
        return plans.Result(None, plans.Kind.VACUOUS, refusal.detail)
