"""Plan accounts: one event, released a fixed number of times, and the epsilon that is certified for it.

Guarantee: (epsilon, delta)-DP of `count` releases of the event, its parameters and the count frozen before the first
of them; the inputs may be chosen adaptively. Adjacency: that of the event. A filter account (`core.accounting.filters`)
lets the parameters be chosen on the way and admits fewer releases.

Several bounds hold for one plan and the least is certified: the exact composition of Gaussian and of equal pure
releases (two-sided geometric noise on two counts is two of them, `filters.divergence`), the privacy loss distribution
of Laplace noise, and the Renyi bound, whose least order may be taken because the plan is fixed. The exponential
mechanism has no known dominating pair of its own under adaptive inputs: as a pure mechanism it composes exactly, and
its Renyi divergence, that of bounded range, is usually the better bound by far.
Evaluations are pure and picklable, milliseconds but for Laplace noise: up to some seconds, so not on an event loop.
"""

from __future__ import annotations

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

PLD_COUNT_MAX = 100_000  # about a second; beyond, only the Renyi bound
_ALPHAS = tuple(1 + 10 ** (step / 40) for step in range(-12, 180))  # 1.5 to 30,000; any order gives a bound


@dataclass(frozen=True)
class PlanCertificate:
    """`count` releases cost at most `epsilon_nano` at `delta_femto`.

    `accountant` says by which bound: `exact`, `pld`, `rdp` or `basic`. Epsilon is rounded up.
    """

    epsilon_nano: int
    delta_femto: int
    count: int
    accountant: str


def copies(event: PrivacyEvent) -> int:
    """How many releases of its `plan_event` one release is."""
    return 2 if event.kind == "two_geometric" else 1


def plan_event(event: PrivacyEvent) -> PlanEvent:
    """The dominating pair of one release, or of one of its equal `copies`, for the fixed-plan accountants.

    The plan's adjacency is replace-one, that of every event that has such a pair.

    Raises:
        UnsupportedEvent: an event with an (epsilon, delta) of its own and nothing else, or under metric adjacency,
            where the pair depends on the distance and only the sum of epsilons holds at every distance.
        OutOfRange: a parameter outside what the accountants compute with.
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
    """The certified epsilon of `count` releases of `event` at delta.

    A pure event is composed by summing where delta is under DELTA_MIN, and without the exact composition where its
    epsilon is outside what that takes.

    Raises:
        UnsupportedEvent: as `plan_event`.
        OutOfRange: a count or delta out of range; Gaussian noise out of range or with a delta under DELTA_MIN.
    """
    check_count(count)
    plan, delta = _checked(event, delta_femto)
    answers = [_quick(event, plan, delta, count)]
    if isinstance(plan, Laplace) and delta and count <= PLD_COUNT_MAX:
        answers.append((_rounded_up(_distribution_epsilon(plan, delta, count)), "pld"))
    epsilon_nano, accountant = min(answers)
    return PlanCertificate(epsilon_nano, delta_femto, count, accountant)


def largest_count(event: PrivacyEvent, *, epsilon_nano: int, delta_femto: int) -> PlanCertificate:
    """The plan with the most releases whose certified epsilon is at most `epsilon_nano`, up to COUNT_MAX.

    For Laplace noise within parts in 10^4 of the largest count, which is about what its certificate can tell apart.

    Raises:
        OutOfRange: not one release fits (field `epsilon`); else as `certify`.
    """
    plan, delta = _checked(event, delta_femto)
    if certify(event, count=1, delta_femto=delta_femto).epsilon_nano > epsilon_nano:
        raise OutOfRange("not one release fits in this budget", field="epsilon")

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
    """The plan event, if there is one in range, and a delta: not above the one asked for, 0 if it is too small."""
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
    """The best bound that takes no more than milliseconds."""
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
    """Canonne, Kamath and Steinke 2020, Proposition 12, at the best order."""
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
    """The last count of [low, high) with cost <= limit, to `tolerance` of it; `low` fits, `high` does not.

    Interpolation, aimed a little past the root on the side that moved last, and a bisection every third time.
    """
    at_low, at_high = cost(low), cost(high) if high <= COUNT_MAX else None
    past, turn = 0, 0
    while high - low > max(1, slack := int(tolerance * low)):
        turn += 1
        guess = (low + high) // 2
        if at_high is not None and turn % 3 and at_high > at_low:
            guess = low + (high - low) * (limit - at_low) // (at_high - at_low) + past * max(1, slack // 2)
        guess = min(max(guess, low + 1), high - 1)
        here = cost(guess)
        if here <= limit:
            low, at_low, past = guess, here, 1
        else:
            high, at_high, past = guess, here, -1
    return low
