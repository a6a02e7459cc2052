"""The online privacy filter: the cost of a release, what an account admits, and how it divides its delta.

A filter account allows adaptively chosen releases, including their parameters. It has several *arms*, which are bounds
on the same history, each with a fixed cap. A release is admitted if **some** arm admits the sum of everything
committed, held and requested. An event that an arm cannot price closes that arm.

Guarantee: (epsilon, delta)-DP of everything admitted, under the adjacency of the account's events. Proof: let J be an
arm that admits the final sum. Sums never decrease (a cancelled release has disclosed nothing). Therefore arm j, run
alone, would have admitted every release of a history with J = j. Alone, it is an (epsilon, delta_j)-DP filter: basic
composition (Rogers, Roth, Ullman and Vadhan 2016), a Renyi filter of one fixed order (Feldman and Zrnic 2021),
Theorem 2 of Whitehouse, Ramdas, Rogers and Wu 2022, or the Gaussian filter below. Hence
P[E, J = j] <= e^epsilon Q[E, J = j] + delta_j for every event E, and the sum over the arms is
P[E] <= e^epsilon Q[E] + delta. This sum is the reason why the arms *share* delta: if every arm used the whole delta,
two orders would already violate the guarantee (tests/core/accounting/test_filter_counterexample.py).

**The Gaussian arm.** Releases dominated by a Gaussian one compose by the sum of their squared mu. A release is mu-GDP
if distinguishing two neighbouring inputs by it is never easier than distinguishing N(0, 1) from N(mu, 1) (Dong, Roth
and Su 2022). Releases with adaptively chosen mu are m-GDP together if the sum of mu^2 stays at most m^2: fully adaptive
composition has no extra cost for them (Smith and Thakurta 2022, arXiv 2210.17520). The arm admits a release if the sum
is at most the largest m^2 whose exact delta at the account's epsilon is the arm's share.

* Gaussian noise of `noise_multiplier` times the l2 sensitivity is mu-GDP with mu = 1 / noise_multiplier, exactly.
* A pure epsilon-DP release is mu-GDP with mu = 2 Phi^-1(1 / (1 + e^-epsilon)). Its trade-off curve lies above the two
  chords from (0, 1) and (1, 0) to the point (p, p), p = 1 / (1 + e^epsilon). The curve of mu-GDP is convex, has the
  same ends, and passes through (p, p) for this mu, so it lies below both chords. For small epsilon mu^2 is
  (pi / 2) epsilon^2. The Renyi arms, in which it costs epsilon^2, are better for accounts with pure releases only.

**The division of delta.** With the arms of `filter_arms` the shares of delta sum to at most delta. There are three
divisions, and the account's first release selects one of them. This is sound: the first release is chosen before the
account has released anything, so the division is a constant for the rest of the history, and the proof holds for each
of the three. A cancelled release has disclosed nothing, so the next release counts as the first.

An account under metric adjacency has only the basic arm, so it divides nothing. A metric event bounds the loss by
epsilon times the distance d. That bound adds linearly in d, while Renyi divergences and squares grow with d^2 and imply
no guarantee at distances other than 1.

Costs are rounded up, caps are rounded down. The front end prices requests with this module, which loads neither numpy
nor scipy. Only `gaussian_cap_nano` loads them, when an account with a Gaussian arm is opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from core.accounting.events import Adjacency, PrivacyEvent
from core.amounts import EPSILON_MAX, FEMTO, NANO

COUNTED_MAX = 2**53 - 1  # the largest integer for which the doubles of Redis' Lua are exact

FILTER_ORDERS: tuple[str, ...] = (
    *("1.5", "2", "2.5", "3", "3.5", "4", "5", "6", "8", "10", "12", "16", "24", "32", "48", "64", "128", "256", "512"),
)
_ALPHAS = tuple(float(order) for order in FILTER_ORDERS)  # all exact in binary
GAUSSIAN = "gaussian"  # the last of an account's orders; its "divergence" is mu^2
COST_ORDERS = (*FILTER_ORDERS, GAUSSIAN)


@dataclass(frozen=True)
class Cost:
    """What one event adds to an account. None marks an arm that cannot price the event. All numbers are rounded up.

    `epsilon_nano` and `delta_femto` are for basic composition (delta is 0 if epsilon is None). `square_nano` is eps^2
    in nano for Whitehouse et al. `rho_nano` is the Renyi divergence at each order of FILTER_ORDERS and then, for the
    Gaussian arm, mu^2, all in nano.
    """

    epsilon_nano: int | None
    delta_femto: int
    square_nano: int | None
    rho_nano: tuple[int, ...] | None


@lru_cache(maxsize=4096)
def cost_of(event: PrivacyEvent) -> Cost:
    """Return the cost of one release of `event` in every arm, rounded up by 2 nano or by parts in 10^6.

    An arm cannot price a number above COUNTED_MAX. An event of a pure kind with a delta counts as approximate, so only
    basic composition prices it. The same holds for an event under metric adjacency, whose epsilon is per unit of
    distance. `two_geometric` counts as two pure releases of half its epsilon in every arm.
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
    """Return alpha / (2 sigma^2) (Mironov 2017), computed in exact fractions."""
    scale = Fraction(NANO) / (2 * Fraction(noise_multiplier) ** 2)
    return tuple(math.ceil(Fraction(alpha) * scale) for alpha in _ALPHAS)


def _rho_nano(kind: str, epsilon_nano: int, alpha: float) -> int:
    """Return an upper bound of `divergence` in nano. The 1e-5 exceeds the rounding error of the product near 0."""
    rho = divergence(kind, epsilon_nano / NANO, alpha)
    return min(math.ceil(rho * (1 + 1e-15) * NANO + 1e-5), epsilon_nano)


def divergence(kind: str, epsilon: float, alpha: float) -> float:
    """Return an upper bound, tight to parts in 10^12 or 1e-14, on the Renyi divergence of order `alpha` of a pure kind.

    Error analysis: the functions below add epsilon to logarithms of numbers that expm1 and log1p compute to a few units
    of rounding, and the divisor alpha - 1 is at least 1/2. The absolute error is below 1e-14 for epsilon < 90. For
    larger epsilon the result is above epsilon - 2 and the relative error is below 1e-12. Both margins are added. No
    exponential overflows, because every argument is negative. At every order the divergence is at most epsilon (van
    Erven and Harremoes 2014).
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
    """Return the largest divergence of a pure mechanism, that of randomised response (Mironov 2017, Proposition 5).

    It is also exactly that of two-sided geometric noise Z, P(Z = z) proportional to e^(-epsilon |z|), on a number that
    moves by 1: the loss epsilon (|z - 1| - |z|) is epsilon for z <= 0, which has probability 1 / (1 + e^-epsilon), and
    otherwise -epsilon. For two numbers with independent noise the divergences add.
    """
    ratio = math.log1p(math.exp(-epsilon)) - math.log1p(math.exp(-(2 * alpha - 1) * epsilon))
    return epsilon - ratio / (alpha - 1)


def _laplace(epsilon: float, alpha: float) -> float:
    """Return the divergence of Laplace noise of scale 1/epsilon times the sensitivity (Mironov 2017, Proposition 6).

    Permute-and-flip with scores u, sensitivity D and acceptance e^(r (u_i - u_max)), r = epsilon / (2 D), is priced as
    Laplace noise of scale D / epsilon on a number of sensitivity D, because its whole privacy curve lies below that one
    (McKenna and Sheldon 2020 prove pure epsilon-DP). The proof:

    As noisy scores. Sample every coin; the choice is uniform among the heads. Let E_i be independent exponential
    variables of rate r. The index i has u_i + E_i > u_max with probability e^(r (u_i - u_max)), independently of the
    others, and given that, the excess over u_max is again exponential of rate r. So the index of the largest u_i + E_i
    is uniform among those that exceed u_max, as the choice of permute-and-flip (Ding et al. 2021).

    The hazard of a maximum. Let M be the largest of u_i + E_i over some indices, and x above all their u_i. The density
    of M at x is the sum over i of f_i(x) times the product of F_j(x) over the other j, where f_i = r (1 - F_i). That is
    r times the probability that exactly one of the variables exceeds x, hence at most r P[M > x]. Below the largest u_i
    the density is 0.

    The gap. Let S be a set of indices, neither empty nor all, B the largest noisy score in S, A the largest outside S.
    They are independent. Let G = A - B with distribution function F and density g. Conditioning on B, then on A:
    g(x) = E[f_A(x + B)] <= r P[A - B > x] = r (1 - F(x)), and g(x) = E[f_B(A - x)] <= r P[A - B < x] = r F(x). So
    F' <= r min(F, 1 - F). The choice lies in S if G < 0, so P[S] = F(0), which is neither 0 nor 1.

    The worst neighbour. With scores u' within D of u and the same E_i, B' <= B + D and A' >= A - D. If A' < B', then
    G = A - B < 2 D. So P'[S] <= F(2 D).

    Laplace noise satisfies the equation. The Laplace distribution function L(y) = e^y / 2 for y < 0, 1 - e^-y / 2 for
    y >= 0, has L' = min(L, 1 - L). So h = L^-1(F) has h' = F' / min(F, 1 - F) <= r, hence h(2 D) <= h(0) + 2 D r =
    h(0) + epsilon, and P'[S] <= T(P[S]) with T(p) = L(L^-1(p) + epsilon).

    Domination. For every t, P'[S] - e^t P[S] <= sup over p of T(p) - e^t p. Take Laplace noise of scale 1 on 0 or on
    epsilon: the half-line above c has the probabilities p = L(-c) and T(p) = L(epsilon - c). So the supremum is at most
    the hockey-stick divergence of that pair. For S empty or all, P'[S] = P[S] and the inequality holds too. Neighbours
    are symmetric, so Laplace noise is a dominating pair: it bounds adaptive compositions (Zhu, Dong and Wang 2022,
    Theorem 10) and Renyi divergences. With two candidates G is a Laplace variable and T is attained at every p, so no
    smaller bound holds.
    """
    falling = (alpha - 1) * math.expm1(-(2 * alpha - 1) * epsilon) / (2 * alpha - 1)
    return epsilon + math.log1p(falling) / (alpha - 1)


def _bounded_range(epsilon: float, alpha: float) -> float:
    """Return the largest divergence under epsilon-bounded range, for the exponential mechanism.

    Source: Dong, Durfee and Rogers 2020.
    """
    whole, most, one = (-math.expm1(-power * epsilon) for power in (alpha, alpha - 1, 1.0))
    return epsilon + math.log((alpha - 1) * whole / (alpha * most)) + math.log(whole / (alpha * one)) / (alpha - 1)


@dataclass(frozen=True)
class Arms:
    """The caps of a filter account, rounded down. -1 marks an arm that is not offered.

    `epsilon_nano` and `delta_femto` cap basic composition, and `square_nano` caps the sum of eps^2. `rho_nano` caps the
    Renyi divergence at each order of `orders`: at most 4 of FILTER_ORDERS, and GAUSSIAN, whose cap limits mu^2.
    """

    epsilon_nano: int
    delta_femto: int
    square_nano: int
    orders: tuple[str, ...]
    rho_nano: tuple[int, ...]


@dataclass(frozen=True)
class Sums:
    """The sums of costs of an account or of one charge, and how many events each arm could not price."""

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
        """Return the charge of one event to an account with these orders."""
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
        """Return the sums of an account without releases."""
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

    This function defines the rule; the ledger's script must agree with it.
    """
    if sums.no_epsilon == 0 and sums.epsilon_nano <= arms.epsilon_nano and sums.delta_femto <= arms.delta_femto:
        return True
    if sums.no_square == 0 and sums.square_nano <= arms.square_nano:
        return True
    return sums.no_rho == 0 and any(rho <= cap for rho, cap in zip(sums.rho_nano, arms.rho_nano, strict=True))


def largest_pure_nano(arms: Arms, sums: Sums) -> int:
    """Return the largest epsilon, in nano, of one further event of kind `pure` that would be admitted, or 0."""
    largest = 0
    if sums.no_epsilon == 0 and sums.delta_femto <= arms.delta_femto:
        largest = arms.epsilon_nano - sums.epsilon_nano
    if sums.no_square == 0 and sums.square_nano <= arms.square_nano:
        largest = max(largest, math.isqrt((arms.square_nano - sums.square_nano) * NANO))
    if sums.no_rho == 0:
        largest = max(largest, 0)
        for order, cap, rho in zip(arms.orders, arms.rho_nano, sums.rho_nano, strict=True):
            # Most orders admit no more than another arm does, which one price shows: a price grows with epsilon.
            if largest < EPSILON_MAX * NANO and cap > rho and _pure_cost(order)(largest + 1) <= cap - rho:
                largest = max(largest, _pure_within(cap - rho, order))
    return min(max(largest, 0), EPSILON_MAX * NANO)


def _pure_cost(order: str) -> Callable[[int], int]:
    if order == GAUSSIAN:
        return pure_square_nano
    return lambda epsilon_nano: _rho_nano("pure", epsilon_nano, float(order))


def _pure_within(rest_nano: int, order: str) -> int:
    """Return the largest pure epsilon, in nano, whose cost at `order` is at most `rest_nano`. Uses bisection."""
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


_SMALL_EPSILON = 1e-3
_ROUND_UP = 1 + 1e-12  # above the error of inv_cdf, which is a few units of rounding
_STEP_DOWN = 1 - 2.0**-40


def gaussian_square_nano(noise_multiplier: float) -> int:
    """Return mu^2 of Gaussian noise, in nano, computed in exact fractions and rounded up."""
    return math.ceil(Fraction(NANO) / Fraction(noise_multiplier) ** 2)


@lru_cache(maxsize=4096)
def pure_square_nano(epsilon_nano: int) -> int:
    """Return the mu^2 that dominates a pure release of `epsilon_nano`, in nano, rounded up. It increases with epsilon.

    Below epsilon = 1e-3 the code uses mu <= epsilon sqrt(pi / 2): Phi^-1(1/2 + x) = sqrt(2 pi) (x + pi x^3 / 3 + ...)
    at x = tanh(epsilon / 2) / 2 = epsilon / 4 - epsilon^3 / 48 + .... The cubic terms sum to less than 0, and computing
    1/2 + x itself would lose digits. Above epsilon = 40 the code uses mu^2 <= 8 epsilon: 1 - Phi(t) <= e^(-t^2 / 2) / 2
    gives Phi^-1(1 - p) <= sqrt(2 ln(1 / 2p)), and 2p >= e^-epsilon.
    """
    epsilon = epsilon_nano / NANO
    if epsilon < _SMALL_EPSILON:
        mu = epsilon * math.sqrt(math.pi / 2)
    elif epsilon > 40.0:
        mu = math.sqrt(8 * epsilon)
    else:
        mu = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon)))
    return math.ceil(mu * mu * _ROUND_UP * NANO)


def gaussian_cap_nano(epsilon_nano: int, delta_femto: int) -> int:
    """Return the largest sum of mu^2, in nano, that is (epsilon, delta)-DP, rounded down; -1 if there is no such arm.

    An account without delta has no Gaussian arm. The value is found on the exact curve of Balle and Wang 2018 and then
    lowered until the rounded-up epsilon of `core.accounting.exact` fits.
    """
    if delta_femto == 0 or epsilon_nano == 0:
        return -1
    from core.accounting.exact import delta_of_gaussian, epsilon_of_gaussian  # imported late: loads scipy

    epsilon, delta = epsilon_nano / NANO, delta_femto / FEMTO
    if delta >= 1.0:
        return -1  # basic composition admits everything at this delta
    low, high = 0.0, 1.0
    while delta_of_gaussian(epsilon, high) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if delta_of_gaussian(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    mu = low
    while mu > 0 and epsilon_of_gaussian(delta, mu) > epsilon:
        mu *= _STEP_DOWN
    return math.floor(Fraction(mu) ** 2 * NANO)


_PERMILLE = 1000
_RATIOS = (1.5, 3.0, 8.0)  # a further order is the first one that is at least this multiple of the main one
_DISPLAY_DELTA_FEMTO = FEMTO // 10**6  # selects the orders of an account without delta


class Division(StrEnum):
    """How an account divides its delta among the arms. The first release selects one (`chosen_limit` in reserve.lua).

    It is the division for the release's kind, or BASIC if that division does not admit the release but basic
    composition with the whole delta does. Therefore an account admits every single release that its limit covers.
    """

    PURE = "pure"  # releases of pure kinds: the Renyi orders
    GAUSSIAN = "gaussian"  # Gaussian releases: the Gaussian arm
    BASIC = "basic"  # releases with only an (epsilon, delta): basic composition gets all of delta


@dataclass(frozen=True)
class _Shares:
    """Thousandths of delta: main order, further orders, sum of squares, Gaussian arm, basic composition."""

    main: int
    others: tuple[int, int, int]
    square: int
    gaussian: int
    basic: int


# PURE: nearly all of delta goes to the order that is best for many small releases. The other orders serve fewer, larger
# releases. The Renyi divergence of those saturates, hence the higher orders. A share of 1 % costs an order
# 4.6 / (alpha - 1) of epsilon, so small shares suffice. GAUSSIAN: mu^2 decreases by 2 to 3 % when the share decreases
# from 1 to .79.
_SHARES = {
    Division.PURE: _Shares(main=870, others=(30, 20, 10), square=20, gaussian=0, basic=50),
    Division.GAUSSIAN: _Shares(main=50, others=(5, 3, 2), square=10, gaussian=790, basic=140),
    Division.BASIC: _Shares(main=0, others=(0, 0, 0), square=0, gaussian=0, basic=1000),
}


@lru_cache(maxsize=4096)
def filter_arms(
    epsilon_nano: int,
    delta_femto: int,
    *,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    basic_delta_femto: int | None = None,
    division: Division = Division.PURE,
    orders_epsilon_nano: int | None = None,
) -> Arms:
    """Return the arms of a filter account of (epsilon, delta) for `division`.

    `basic_delta_femto` sets the share of basic composition in the divisions PURE and GAUSSIAN; the other arms then
    share the rest in proportion. None selects the division's own share. `orders_epsilon_nano` selects the orders for
    another epsilon; None selects them for this one.

    Guarantee: that of this module. The shares of delta are a public function of the arguments and sum to at most delta,
    in whole femto. Renyi arms: Canonne, Kamath and Steinke 2020, Proposition 12, solved for rho at a
    fixed order. Square arm: sqrt(2 L s) + s/2 <= epsilon with L = ln(1/share), solved for s (Whitehouse et al. 2022,
    Theorem 2; pure events only). Gaussian arm: `gaussian_cap_nano`. Without delta the account offers only
    basic composition, and the orders serve the display. Under metric adjacency it offers only basic composition.

    Raises: ValueError unless 0 <= epsilon <= EPSILON_MAX and 0 <= basic delta <= delta <= 1.
    """
    if not (0 <= epsilon_nano <= EPSILON_MAX * NANO and 0 <= (basic_delta_femto or 0) <= delta_femto <= FEMTO):
        raise ValueError("a filter needs an epsilon in range and 0 <= basic delta <= delta <= 1")
    if adjacency is Adjacency.METRIC:
        return Arms(epsilon_nano, delta_femto, -1, (), ())
    shares = _SHARES[division]
    basic = delta_femto * shares.basic // _PERMILLE
    if basic_delta_femto is not None and division is not Division.BASIC:
        basic = basic_delta_femto
    rest, parts = delta_femto - basic, _PERMILLE - shares.basic

    def part(share: int) -> int:
        return rest * share // parts if parts else 0

    epsilon = Decimal(epsilon_nano) / NANO
    orders_epsilon = epsilon if orders_epsilon_nano is None else Decimal(orders_epsilon_nano) / NANO
    orders = _orders(orders_epsilon, delta_femto or _DISPLAY_DELTA_FEMTO)
    deltas = [part(share) for share in (shares.main, *shares.others)]
    return Arms(
        epsilon_nano=epsilon_nano,
        delta_femto=basic,
        square_nano=_floor_nano(_square_cap(epsilon, part(shares.square))),
        orders=(*orders, GAUSSIAN),
        rho_nano=(
            *(
                _floor_nano(_rho_cap(epsilon, delta, order))
                for order, delta in zip(orders, deltas[: len(orders)], strict=True)
            ),
            gaussian_cap_nano(epsilon_nano, part(shares.gaussian)),
        ),
    )


def _orders(epsilon: Decimal, delta_femto: int) -> list[str]:
    """Return the main order, which is the best one for many small releases, and up to three higher ones."""
    main = max(FILTER_ORDERS, key=lambda order: _rho_cap(epsilon, delta_femto, order) / Decimal(order))
    orders = [main]
    for ratio in _RATIOS:
        higher = [order for order in FILTER_ORDERS if float(order) >= ratio * float(main) and order not in orders]
        orders += higher[:1]
    return orders


def divisions(
    epsilon_nano: int,
    delta_femto: int,
    *,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    basic_delta_femto: int | None = None,
) -> dict[Division, Arms]:
    """Return the arms of the account for each division. They have the same orders. Raises as `filter_arms`."""
    return {
        division: filter_arms(
            epsilon_nano, delta_femto, adjacency=adjacency, basic_delta_femto=basic_delta_femto, division=division
        )
        for division in Division
    }


_DIGITS = 50
_NOT_OFFERED = Decimal(-1)


def _rho_cap(epsilon: Decimal, delta_femto: int, order: str) -> Decimal:
    """Return B(alpha): a Renyi divergence up to this at `order` gives (epsilon, delta)-DP. Negative if none does."""
    if delta_femto == 0:
        return _NOT_OFFERED
    with localcontext() as context:
        context.prec = _DIGITS
        alpha, delta = Decimal(order), Decimal(delta_femto) / FEMTO
        return epsilon - ((alpha - 1) / alpha).ln() + (delta.ln() + alpha.ln()) / (alpha - 1)


def _square_cap(epsilon: Decimal, delta_femto: int) -> Decimal:
    if delta_femto == 0:
        return _NOT_OFFERED
    with localcontext() as context:
        context.prec = _DIGITS
        twice = -2 * (Decimal(delta_femto) / FEMTO).ln()
        return ((twice + 2 * epsilon).sqrt() - twice.sqrt()) ** 2


def _floor_nano(cap: Decimal) -> int:
    """Round down after subtracting a margin of 1e-30 for the last of 50 digits. Returns -1 for a negative cap."""
    if cap < 0:
        return -1
    with localcontext() as context:
        context.prec = _DIGITS
        return max(0, int(((cap - Decimal("1e-30")) * NANO).to_integral_value(rounding=ROUND_FLOOR)))
