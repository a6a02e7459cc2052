"""Vectors of an account: its counters and its limits. common.lua names the same positions.

The first seven positions are the releases, epsilon, delta, epsilon squared, and the numbers of releases without a price
in basic composition, in the Whitehouse arm and in the Renyi arms. The Renyi costs at the account's orders follow.
"""

from collections.abc import Sequence

from core.accounting.filters import Arms, Sums, admits
from core.amounts import Amount

Vector = tuple[int, ...]

COUNT, EPSILON, DELTA, SQUARE, NO_EPSILON, NO_SQUARE, NO_RHO, FIXED = range(8)
LARGEST = 2**53 - 1  # the largest integer for which Lua's doubles are exact
NOT_OFFERED = -1


def sums_of(vector: Vector) -> Sums:
    count, epsilon, delta, square, no_epsilon, no_square, no_rho, *rho = vector
    return Sums(count, epsilon, delta, square, no_epsilon, no_square, no_rho, tuple(rho))


def vector_of(sums: Sums) -> Vector:
    fixed = (sums.count, sums.epsilon_nano, sums.delta_femto, sums.square_nano)
    return (*fixed, sums.no_epsilon, sums.no_square, sums.no_rho, *sums.rho_nano)


def filter_limit(arms: Arms) -> Vector:
    """Return the limit of a filter account: one bound for each arm. The number of releases is not limited."""
    return (0, arms.epsilon_nano, arms.delta_femto, arms.square_nano, 0, 0, 0, *arms.rho_nano)


def plan_limit(count: int, orders: tuple[str, ...]) -> Vector:
    """Return the limit of a plan account: its number of releases, and no arm."""
    return (count, *(NOT_OFFERED,) * (FIXED - 1 + len(orders)))


def arms_of(orders: tuple[str, ...], limit: Vector) -> Arms:
    """Return the arms that a limit vector offers."""
    return Arms(
        epsilon_nano=limit[EPSILON],
        delta_femto=limit[DELTA],
        square_nano=limit[SQUARE],
        orders=orders,
        rho_nano=limit[FIXED:],
    )


def amount_of(vector: Sequence[int]) -> Amount:
    """Return the epsilon and delta of a vector."""
    return Amount(vector[EPSILON], vector[DELTA])


def plus(a: Sequence[int], b: Sequence[int]) -> Vector:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def admits_vector(limit: Vector, total: Vector) -> bool:
    """Whether a filter account with this limit admits a total. The orders do not matter for the answer."""
    return admits(arms_of((), limit), sums_of(total))
