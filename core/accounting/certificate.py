"""Plan accounts: one event, released a fixed number of times, and the epsilon that is certified for it.

Guarantee: (epsilon, delta)-DP of `count` releases of the event, if its parameters and the count are fixed before the
first of them. The inputs may be chosen adaptively. Adjacency: that of the event. A filter account
(`core.accounting.filters`) also allows adaptively chosen parameters and admits fewer releases.

Several bounds hold for one plan, and the least of them is certified: the exact composition of Gaussian releases and of
equal pure releases (two-sided geometric noise on two counts is two of them, `filters.divergence`), the privacy loss
distribution of Laplace noise, and the Renyi bound. The Renyi bound may use its best order because the plan is fixed.
No dominating pair of its own is known for the exponential mechanism under adaptive inputs. It composes exactly as a
pure mechanism, but its Renyi divergence, that of bounded range, usually gives a much better bound.
The functions are pure and picklable. They take milliseconds, except for Laplace noise, which may take some seconds and
must not run on an event loop.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from core.accounting.events import Adjacency, PrivacyEvent
from core.accounting.filters import divergence
from core.accounting.plans import COUNT_MAX, DELTA_MIN, Gaussian, Laplace, PlanAdjacency, PlanEvent, Pure, check_count
from core.accounting.pld import certified_epsilon
from core.amounts import FEMTO, NANO, delta_of, epsilon_of
from core.errors import OutOfRange, UnsupportedEvent

PLD_COUNT_MAX = 100_000  # takes about a second; larger counts use only the Renyi bound
_ALPHAS = tuple(1 + 10 ** (step / 40) for step in range(-12, 180))  # 1.5 to 30,000; every order gives a bound


@dataclass(frozen=True)
class PlanCertificate:
    """`count` releases cost at most `epsilon_nano` at `delta_femto`.

    `accountant` names the bound: `exact`, `pld`, `rdp` or `basic`. Epsilon is rounded up.
    """

    epsilon_nano: int
    delta_femto: int
    count: int
    accountant: str


def copies(event: PrivacyEvent) -> int:
    """Return how many releases of its `plan_event` one release of `event` consists of."""
    return 2 if event.kind == "two_geometric" else 1


def plan_event(event: PrivacyEvent) -> PlanEvent:
    """Return the dominating pair of one release, or of one of its equal `copies`, for the fixed-plan accountants.

    The plan's adjacency is replace-one, which is the adjacency of every event that has such a pair.

    Raises:
        UnsupportedEvent: the event has only an (epsilon, delta) of its own, or is under metric adjacency. There the
            pair depends on the distance, and only the sum of epsilons holds at every distance.
        OutOfRange: a parameter is outside the accountants' range.
    """
    if event.adjacency is Adjacency.METRIC:
        raise UnsupportedEvent("a plan under metric adjacency is the sum of its releases")
    if event.noise_multiplier is not None:
        return Gaussian(event.noise_multiplier, PlanAdjacency.REPLACE_ONE)
    if event.kind == "approximate" or event.delta_femto > 0:
        raise UnsupportedEvent("a plan needs an event of a pure kind or Gaussian noise")
    noise = Laplace if event.kind in ("permute_and_flip", "laplace") else Pure
    return noise(epsilon_of(event.epsilon_nano) / copies(event), PlanAdjacency.REPLACE_ONE)


def certify(event: PrivacyEvent, *, count: int, delta_femto: int) -> PlanCertificate:
    """Return the certified epsilon of `count` releases of `event` at delta.

    A pure event composes by summation if delta is below DELTA_MIN. If its epsilon is outside the range of the exact
    composition, the other bounds are used.

    Raises:
        UnsupportedEvent: as for `plan_event`.
        OutOfRange: a count or delta is out of range; or Gaussian noise is out of range or has a delta below DELTA_MIN.
    """
    check_count(count)
    plan, delta = _checked(event, delta_femto)
    answers = [_quick(event, plan, delta, count)]
    if isinstance(plan, Laplace) and delta and count <= PLD_COUNT_MAX:
        answers.append((_rounded_up(_distribution_epsilon(plan, delta, count)), "pld"))
    epsilon_nano, accountant = min(answers)
    return PlanCertificate(epsilon_nano, delta_femto, count, accountant)


def largest_count(event: PrivacyEvent, *, epsilon_nano: int, delta_femto: int) -> PlanCertificate:
    """Return the plan with the most releases whose certified epsilon is at most `epsilon_nano`, up to COUNT_MAX.

    For Laplace noise the result is within parts in 10^4 of the largest count, about the resolution of its certificate.

    Raises:
        OutOfRange: not even one release fits (field `epsilon`); else as for `certify`.
    """
    plan, delta = _checked(event, delta_femto)
    if certify(event, count=1, delta_femto=delta_femto).epsilon_nano > epsilon_nano:
        raise OutOfRange("this budget does not admit a single release", field="epsilon")

    def quick(count: int) -> int:
        return _quick(event, plan, delta, count)[0]

    low, high = 1, 2
    while high <= COUNT_MAX and quick(high) <= epsilon_nano:
        low, high = high, 2 * high
    low = _last_within(quick, epsilon_nano, low, min(high, COUNT_MAX + 1), tolerance=0)

    if isinstance(plan, Laplace) and delta and low < PLD_COUNT_MAX:

        def certified(count: int) -> int:
            return certify(event, count=count, delta_femto=delta_femto).epsilon_nano

        high = low + 1
        while certified(high) <= epsilon_nano and low < PLD_COUNT_MAX:
            low, high = high, min(math.ceil(1.3 * high), PLD_COUNT_MAX)
        if low < PLD_COUNT_MAX:
            low = _last_within(certified, epsilon_nano, low, high, tolerance=1e-4)
    return certify(event, count=low, delta_femto=delta_femto)


def _checked(event: PrivacyEvent, delta_femto: int) -> tuple[PlanEvent | None, float]:
    """Return the plan event if it is in range, and a delta: at most the requested one, or 0 if that is too small."""
    if not 0 <= delta_femto < FEMTO:
        raise OutOfRange("delta must be at least 0 and below 1", field="delta")
    delta = delta_of(delta_femto) * (1 - 2.0**-51)
    if delta < DELTA_MIN:
        if event.noise_multiplier is not None:
            raise OutOfRange(f"Gaussian noise needs a delta above {DELTA_MIN:g}", field="delta")
        delta = 0.0
    try:
        return plan_event(event), delta
    except OutOfRange:
        if event.noise_multiplier is not None:
            raise
        return None, delta


def _quick(event: PrivacyEvent, plan: PlanEvent | None, delta: float, count: int) -> tuple[int, str]:
    """Return the best of the bounds that take at most milliseconds."""
    answers: list[tuple[int, str]] = []
    if not isinstance(plan, Gaussian):
        answers.append((count * event.epsilon_nano, "basic"))
    if delta and plan is not None and not isinstance(plan, Laplace):
        exact = certified_epsilon(((plan, copies(event) * count),), delta)
        answers.append((_rounded_up(exact), "exact"))
    if delta and event.kind in ("exponential", "permute_and_flip", "laplace"):
        answers.append((_rounded_up(_renyi_epsilon(event.kind, epsilon_of(event.epsilon_nano), delta, count)), "rdp"))
    return min(answers)


def _rounded_up(epsilon: float) -> int:
    return math.ceil(epsilon * (1 + 1e-12) * NANO)


def _renyi_epsilon(kind: str, epsilon: float, delta: float, count: int) -> float:
    """Convert by Canonne, Kamath and Steinke 2020, Proposition 12, at the best order."""
    return max(
        0.0,
        min(
            count * rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
            for alpha, rho in zip(_ALPHAS, _divergences(kind, epsilon), strict=True)
        ),
    )


@lru_cache(maxsize=256)
def _divergences(kind: str, epsilon: float) -> tuple[float, ...]:
    return tuple(divergence(kind, epsilon, alpha) for alpha in _ALPHAS)


@lru_cache(maxsize=256)
def _distribution_epsilon(plan: Laplace, delta: float, count: int) -> float:
    value = certified_epsilon(((plan, count),), delta)
    return value if math.isfinite(value) else count * plan.epsilon * (1 + 1e-15)


def _last_within(cost: Callable[[int], int], limit: int, low: int, high: int, *, tolerance: float) -> int:
    """Return the last count of [low, high) with cost <= limit, to `tolerance` of it. `low` fits, `high` does not.

    The search interpolates, aims slightly beyond the root on the side that moved last, and bisects every third time.
    """
    at_low, at_high = cost(low), cost(high) if high <= COUNT_MAX else None
    past, turn = 0, 0
    while high - low > max(1, slack := int(tolerance * low)):
        turn += 1
        guess = (low + high) // 2
        if at_high is not None and turn % 3 and at_high > at_low:
            guess = low + (high - low) * (limit - at_low) // (at_high - at_low) + past * max(1, slack // 2)
        guess = min(max(guess, low + 1), high - 1)
        at_guess = cost(guess)
        if at_guess <= limit:
            low, at_low, past = guess, at_guess, 1
        else:
            high, at_high, past = guess, at_guess, -1
    return low
