"""Why the orders of a filter share its delta: an adversary who breaks the rule that gives each order the whole of it.

The rule "admit while the conversion of some order, at the whole delta, still fits" is sound for releases that were
fixed beforehand. An adversary who chooses each release by the outcomes of the earlier ones beats it with two orders
a < b. First comes a mechanism of two outcomes. The rare one has a high loss: it uses up much of order b, nothing of
order a. After it, the adversary spends what is left of order b; after the other outcome, what is left of order a, each
time on the mechanism of two outcomes for which that order's conversion is tight. Either way some order admits, and each
way the history alone fails with the whole delta.

Every mechanism is a pair of two-point distributions, so that the true delta is a sum over four histories.
"""

import itertools
import math
from dataclasses import dataclass

import mpmath

from core.accounting.filters import filter_arms
from core.amounts import FEMTO, NANO

DELTA = 1e-5
Caps = dict[float, float]


@dataclass(frozen=True)
class TwoPoint:
    """Outcome "rare" has probability `p` under P and `q` under Q."""

    p: float
    q: float

    def outcomes(self) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
        p, q = mpmath.mpf(self.p), mpmath.mpf(self.q)
        return [(p, q), (1 - p, 1 - q)]

    def divergence(self, order: float) -> float:
        """Renyi, the larger of both directions."""

        def moment(p: float, q: float) -> float:
            rare, other = (order * math.log(one) + (1 - order) * math.log(two) for one, two in ((p, q), (1 - p, 1 - q)))
            return max(rare, other) + math.log1p(math.exp(-abs(rare - other)))

        return max(moment(self.p, self.q), moment(self.q, self.p)) / (order - 1)


@dataclass(frozen=True)
class Strategy:
    """The first mechanism, and the one that follows its rare or its other outcome, if any fits."""

    first: TwoPoint
    then: tuple[TwoPoint | None, TwoPoint | None]
    orders: tuple[float, float]  # which order admits after the rare outcome, and after the other

    def true_delta(self, epsilon: float) -> mpmath.mpf:
        """The exact hockey-stick divergence of the whole interaction, the larger of both directions."""
        paths = []
        for (p, q), second in zip(self.first.outcomes(), self.then, strict=True):
            following = second.outcomes() if second else [(mpmath.mpf(1), mpmath.mpf(1))]
            paths += [(p * p2, q * q2) for p2, q2 in following]
        bound = mpmath.exp(epsilon)
        one_way = mpmath.fsum(max(p - bound * q, 0) for p, q in paths)
        return max(one_way, mpmath.fsum(max(q - bound * p, 0) for p, q in paths))

    def is_admitted(self, caps: Caps) -> bool:
        """Whether the rule admits the first mechanism, and then each follower by its order."""
        if all(self.first.divergence(order) > cap for order, cap in caps.items()):
            return False
        return all(
            second is None or self.first.divergence(order) + second.divergence(order) <= caps[order]
            for second, order in zip(self.then, self.orders, strict=True)
        )


def worst_follower(epsilon: float, so_far: float, order: float, rest: float) -> TwoPoint | None:
    """The mechanism that brings the total loss to where the conversion of `order` is tight, and uses up `rest`."""
    loss = epsilon + math.log(order / (order - 1)) - so_far
    low, high = 0.0, 1 - 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        if TwoPoint(middle, middle * math.exp(-loss)).divergence(order) <= rest:
            low = middle
        else:
            high = middle
    return TwoPoint(low, low * math.exp(-loss)) if low > 0 else None


def strongest(epsilon: float, caps: Caps) -> Strategy:
    """The best strategy of the family on a coarse grid: pairs of orders, probability and loss of the rare outcome."""
    found: list[Strategy] = []
    for low, high in itertools.combinations([order for order, cap in caps.items() if cap > 0], 2):
        for part, log_p in itertools.product(range(1, 8), range(2, 12)):
            p, loss = math.exp(-1.25 * log_p), epsilon * part / 12
            first = TwoPoint(p, p * math.exp(-loss))
            other_loss = math.log1p(-first.p) - math.log1p(-first.q)
            then = tuple(
                worst_follower(epsilon, so_far, order, caps[order] - first.divergence(order))
                for so_far, order in ((loss, high), (other_loss, low))
            )
            found.append(Strategy(first, (then[0], then[1]), (high, low)))
    return max((plan for plan in found if plan.is_admitted(caps)), key=lambda plan: plan.true_delta(epsilon))


def test_two_orders_at_the_whole_delta_are_broken_and_ours_are_not() -> None:
    for epsilon in [2, 4, 10]:
        arms = filter_arms(epsilon * NANO, round(DELTA * FEMTO))
        whole = {
            order: epsilon - math.log((order - 1) / order) + (math.log(DELTA) + math.log(order)) / (order - 1)
            for order in map(float, arms.orders[:-1])
        }
        shared = {float(order): cap / NANO for order, cap in zip(arms.orders[:-1], arms.rho_nano[:-1], strict=True)}

        with mpmath.workdps(40):
            attack = strongest(epsilon, whole)
            assert attack.is_admitted(whole)
            assert attack.true_delta(epsilon) > 1.9 * DELTA

            assert not attack.is_admitted(shared)
            defended = strongest(epsilon, shared)
            assert 0.85 * DELTA < defended.true_delta(epsilon) <= DELTA
