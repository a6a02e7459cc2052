"""An account's vectors as the scripts keep them (see common.lua): integers as decimals, a blank between them.

Seven positions - releases, epsilon, delta, epsilon squared, and the releases that basic composition, the Whitehouse
arm and the Renyi arms cannot price - then the Renyi costs at the account's orders.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.accounting.filters import Arms, Sums
from core.errors import Amount

Vector = tuple[int, ...]

LARGEST = 2**53 - 1
NOT_OFFERED = -1
FIXED = 7


def pack(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def unpack(packed: str) -> Vector:
    return tuple(map(int, packed.split()))


def sums_of(numbers: Vector) -> Sums:
    count, epsilon, delta, square, no_epsilon, no_square, no_rho, *rho = numbers
    return Sums(count, epsilon, delta, square, no_epsilon, no_square, no_rho, tuple(rho))


def filter_limit(arms: Arms) -> str:
    """The limit of a filter account: one bound an arm."""
    offered = (LARGEST, arms.epsilon_nano, arms.delta_femto, arms.square_nano, 0, 0, 0)
    return pack((*offered, *arms.rho_nano))


def plan_limit(count: int, orders: tuple[str, ...]) -> str:
    """The limit of a plan account: its number of releases and no arm."""
    return pack((count, *(NOT_OFFERED,) * (FIXED - 1 + len(orders))))


def arms_of(orders: tuple[str, ...], limit: Vector) -> Arms:
    """The arms that a limit vector offers."""
    return Arms(
        epsilon_nano=limit[1], delta_femto=limit[2], square_nano=limit[3], orders=orders, rho_nano=limit[FIXED:]
    )


def amount_of(numbers: Vector) -> Amount:
    """The epsilon and delta in it."""
    return Amount(numbers[1], numbers[2])


def plus(a: Vector, b: Vector) -> Vector:
    return tuple(x + y for x, y in zip(a, b, strict=True))
