"""The online privacy filter: what a release costs, what an account admits.

A filter account holds for adaptively chosen releases, parameters included. It has several *arms*, bounds on the same
history, each with a fixed cap; a release is admitted while **some** arm admits the sum of everything committed, held
and asked for. An arm takes only events that it can price; an event that it cannot price closes it.

Guarantee: (epsilon, delta)-DP of everything admitted, under the adjacency of the account's events. Proof: let J be an
arm that admits the final sum. No sum ever falls (a cancelled release has shown nothing), so arm j, run alone, would
have admitted every release of a history with J = j; alone, it is an (epsilon, delta_j)-DP filter: basic composition
(Rogers, Roth, Ullman and Vadhan 2016), a Renyi filter of one fixed order (Feldman and Zrnic 2021), Theorem 2 of
Whitehouse, Ramdas, Rogers and Wu 2022, or the Gaussian filter of `core.accounting.gaussian_arm`. Hence
P[E, J = j] <= e^epsilon Q[E, J = j] + delta_j for every event E, and summed over the arms
P[E] <= e^epsilon Q[E] + delta. That sum is why the arms *share* delta: with the whole delta for each of them two orders
already break it (tests/core/accounting/test_filter_counterexample.py).

How delta is shared, and the caps that follow, are in `core.accounting.divisions`.

An account under metric adjacency has the basic arm alone. A metric event bounds the loss by epsilon times the distance
d; that bound adds up linearly in d, while Renyi divergences and squares grow with d^2 and say nothing of the promise at
distances other than 1.

Only `math`: the front end prices a request with this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from core.accounting.events import Adjacency, PrivacyEvent
from core.accounting.gaussian_arm import gaussian_square_nano, pure_square_nano
from core.amounts import EPSILON_MAX, NANO

COUNTED_MAX = 2**53 - 1  # Redis' Lua counts in doubles

FILTER_ORDERS: tuple[str, ...] = (
    *("1.5", "2", "2.5", "3", "3.5", "4", "5", "6", "8", "10", "12", "16", "24", "32", "48", "64", "128", "256", "512"),
)
_ALPHAS = tuple(float(order) for order in FILTER_ORDERS)  # all exact in binary
GAUSSIAN = "gaussian"  # stands last among an account's orders; its "divergence" is mu^2
COST_ORDERS = (*FILTER_ORDERS, GAUSSIAN)


@dataclass(frozen=True)
class Cost:
    """What one event adds to an account. None: that arm cannot price the event. Everything is rounded up.

    `epsilon_nano` and `delta_femto` for basic composition (delta 0 where epsilon is None), `square_nano` is eps^2 in
    nano for Whitehouse et al., `rho_nano` the Renyi divergence of each order of FILTER_ORDERS and then, for the
    Gaussian arm, mu^2 in nano.
    """

    epsilon_nano: int | None
    delta_femto: int
    square_nano: int | None
    rho_nano: tuple[int, ...] | None


@lru_cache(maxsize=4096)
def cost_of(event: PrivacyEvent) -> Cost:
    """The cost of one release of `event` on every arm: never below the true one, above it by 2 nano or parts in 10^6.

    A number above COUNTED_MAX is one that its arm cannot price. An event of a pure kind that carries a delta is
    approximate: basic composition only. So is an event under metric adjacency, whose epsilon is per unit of distance.
    `two_geometric` is two pure releases of half its epsilon, on every arm.
    """
    basic = 0 < event.epsilon_nano <= COUNTED_MAX and event.delta_femto <= COUNTED_MAX
    square: int | None = None
    rho: tuple[int, ...] | None = None
    if event.adjacency is Adjacency.METRIC:
        pass
    elif event.noise_multiplier is not None:
        rho = (*_gaussian_nano(event.noise_multiplier), gaussian_square_nano(event.noise_multiplier))
    elif event.kind != "approximate" and event.delta_femto == 0:
        parts = 2 if event.kind == "two_geometric" else 1
        square = -(-(event.epsilon_nano**2) // (parts * NANO))
        rho = (
            *(_rho_nano(event.kind, event.epsilon_nano, alpha) for alpha in _ALPHAS),
            parts * pure_square_nano(-(-event.epsilon_nano // parts)),
        )
    return Cost(
        epsilon_nano=event.epsilon_nano if basic else None,
        delta_femto=event.delta_femto if basic else 0,
        square_nano=square if square is not None and square <= COUNTED_MAX else None,
        rho_nano=rho if rho is not None and max(rho) <= COUNTED_MAX else None,
    )


def _gaussian_nano(noise_multiplier: float) -> tuple[int, ...]:
    """alpha / (2 sigma^2) (Mironov 2017), in exact fractions."""
    scale = Fraction(NANO) / (2 * Fraction(noise_multiplier) ** 2)
    return tuple(math.ceil(Fraction(alpha) * scale) for alpha in _ALPHAS)


def _rho_nano(kind: str, epsilon_nano: int, alpha: float) -> int:
    """An upper bound of `divergence` in nano; the 1e-5 outweighs the rounding of the product near 0."""
    rho = divergence(kind, epsilon_nano / NANO, alpha)
    return min(math.ceil(rho * (1 + 1e-15) * NANO + 1e-5), epsilon_nano)


def divergence(kind: str, epsilon: float, alpha: float) -> float:
    """An upper bound, tight to parts in 10^12 or 1e-14, on the Renyi divergence of order `alpha` of a pure kind.

    The rows below add epsilon to logarithms of numbers that expm1 and log1p give to a few units of rounding, and the
    divisor alpha - 1 is at least 1/2: an absolute error below 1e-14 while epsilon < 90, a relative one below 1e-12
    from there on, where the result is above epsilon - 2. Both are added. No exponential overflows: every argument is
    negative. The divergence is at most epsilon at every order (van Erven and Harremoes 2014).
    """
    if kind == "exponential":
        rho = _bounded_range(epsilon, alpha)
    elif kind in ("permute_and_flip", "laplace"):
        rho = _laplace(epsilon, alpha)
    elif kind == "two_geometric":
        rho = 2 * _randomised_response(epsilon / 2, alpha)
    else:
        rho = _randomised_response(epsilon, alpha)
    return min(rho * (1 + 1e-12) + 1e-14, epsilon)


def _randomised_response(epsilon: float, alpha: float) -> float:
    """The largest divergence of a pure mechanism, that of randomised response (Mironov 2017, Proposition 5).

    Also exactly that of two-sided geometric noise Z, P(Z = z) proportional to e^(-epsilon |z|), on a number that moves
    by 1: the loss epsilon (|z - 1| - |z|) is epsilon for z <= 0, which has probability 1 / (1 + e^-epsilon), else
    -epsilon. On two numbers with independent noise the divergences add up.
    """
    ratio = math.log1p(math.exp(-epsilon)) - math.log1p(math.exp(-(2 * alpha - 1) * epsilon))
    return epsilon - ratio / (alpha - 1)


def _laplace(epsilon: float, alpha: float) -> float:
    """Laplace noise of scale 1/epsilon times the sensitivity (Mironov 2017, Proposition 6).

    Permute-and-flip is dominated by it. It returns the index with the largest score plus exponential noise of rate
    r = epsilon / (2 Delta). For a set S of indices let A be the largest noisy score outside S, B inside, and F the
    distribution function of A - B. A maximum of shifted exponential variables has a hazard of at most r, hence
    F' <= r min(F, 1 - F): the slope of the Laplace distribution function L at the same height, times r. A neighbour
    moves the difference by at most 2 Delta, so P'[S] <= F(2 Delta) <= L(L^-1(P[S]) + epsilon), which Laplace noise
    attains for a half-line. In full: docs/concepts/accounting.md.
    """
    falling = (alpha - 1) * math.expm1(-(2 * alpha - 1) * epsilon) / (2 * alpha - 1)
    return epsilon + math.log1p(falling) / (alpha - 1)


def _bounded_range(epsilon: float, alpha: float) -> float:
    """The largest divergence under epsilon-bounded range (Dong, Durfee and Rogers 2020): the exponential mechanism."""
    whole, most, one = (-math.expm1(-power * epsilon) for power in (alpha, alpha - 1, 1.0))
    return epsilon + math.log((alpha - 1) * whole / (alpha * most)) + math.log(whole / (alpha * one)) / (alpha - 1)


@dataclass(frozen=True)
class Arms:
    """The caps of a filter account. Rounded down; -1: the arm is not offered.

    `epsilon_nano` and `delta_femto` cap basic composition, `square_nano` the sum of eps^2, `rho_nano` the Renyi
    divergence of each order of `orders`: at most 4 out of FILTER_ORDERS, and GAUSSIAN, whose cap is one of mu^2.
    """

    epsilon_nano: int
    delta_femto: int
    square_nano: int
    orders: tuple[str, ...]
    rho_nano: tuple[int, ...]


@dataclass(frozen=True)
class Sums:
    """What an account has counted, or one charge: sums of costs, and how many events each arm could not price."""

    count: int
    epsilon_nano: int
    delta_femto: int
    square_nano: int
    no_epsilon: int
    no_square: int
    no_rho: int
    rho_nano: tuple[int, ...]

    @classmethod
    def of(cls, cost: Cost, orders: tuple[str, ...]) -> Sums:
        """The charge of one event to an account with these orders."""
        rho = (0,) * len(orders)
        if cost.rho_nano is not None:
            rho = tuple(cost.rho_nano[COST_ORDERS.index(order)] for order in orders)
        return cls(
            count=1,
            epsilon_nano=cost.epsilon_nano or 0,
            delta_femto=cost.delta_femto,
            square_nano=cost.square_nano or 0,
            no_epsilon=int(cost.epsilon_nano is None),
            no_square=int(cost.square_nano is None),
            no_rho=int(cost.rho_nano is None),
            rho_nano=rho,
        )

    @classmethod
    def zero(cls, orders: tuple[str, ...]) -> Sums:
        """An account in which nothing was counted."""
        return cls(0, 0, 0, 0, 0, 0, 0, (0,) * len(orders))

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            count=self.count + other.count,
            epsilon_nano=self.epsilon_nano + other.epsilon_nano,
            delta_femto=self.delta_femto + other.delta_femto,
            square_nano=self.square_nano + other.square_nano,
            no_epsilon=self.no_epsilon + other.no_epsilon,
            no_square=self.no_square + other.no_square,
            no_rho=self.no_rho + other.no_rho,
            rho_nano=tuple(mine + theirs for mine, theirs in zip(self.rho_nano, other.rho_nano, strict=True)),
        )


def admits(arms: Arms, sums: Sums) -> bool:
    """Whether some arm admits `sums`: committed, held and the candidate together.

    The rule itself: what the ledger's script must agree with.
    """
    if sums.no_epsilon == 0 and sums.epsilon_nano <= arms.epsilon_nano and sums.delta_femto <= arms.delta_femto:
        return True
    if sums.no_square == 0 and sums.square_nano <= arms.square_nano:
        return True
    return sums.no_rho == 0 and any(rho <= cap for rho, cap in zip(sums.rho_nano, arms.rho_nano, strict=True))


def largest_pure_nano(arms: Arms, sums: Sums) -> int:
    """The largest epsilon, in nano, of one further event of kind `pure` that would be admitted; 0 if none would."""
    largest = 0
    if sums.no_epsilon == 0 and sums.delta_femto <= arms.delta_femto:
        largest = arms.epsilon_nano - sums.epsilon_nano
    if sums.no_square == 0 and sums.square_nano <= arms.square_nano:
        largest = max(largest, math.isqrt((arms.square_nano - sums.square_nano) * NANO))
    if sums.no_rho == 0:
        for order, cap, rho in zip(arms.orders, arms.rho_nano, sums.rho_nano, strict=True):
            largest = max(largest, _pure_within(cap - rho, order))
    return min(max(largest, 0), EPSILON_MAX * NANO)


def _pure_cost(order: str) -> Callable[[int], int]:
    if order == GAUSSIAN:
        return pure_square_nano
    return lambda epsilon_nano: _rho_nano("pure", epsilon_nano, float(order))


def _pure_within(rest_nano: int, order: str) -> int:
    """The largest pure epsilon, in nano, found by bisection, whose cost at `order` is at most `rest_nano`."""
    if rest_nano <= 0:
        return 0
    cost = _pure_cost(order)
    low, high = 0, rest_nano
    while high <= EPSILON_MAX * NANO and cost(high) <= rest_nano:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if cost(middle) <= rest_nano:
            low = middle
        else:
            high = middle
    return low
