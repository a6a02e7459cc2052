"""How a filter account divides its delta among its arms, and the resulting caps.

Guarantee: with the arms of `filter_arms` the filter of `core.accounting.filters` is (epsilon, delta)-DP, since their
shares of delta sum to at most delta. There are three divisions, and the account's first release selects one of them.
This is sound: the first release is chosen before the account has released anything, so the division is a constant for
the rest of the history, and the proof holds for each of the three. A cancelled release has disclosed nothing, so the
next release counts as the first.

Under metric adjacency there is no division, because such an account has only the basic arm.

This module loads scipy for an account with a Gaussian arm. The front end uses it to open accounts, not to price
releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from enum import StrEnum
from functools import lru_cache

from core.accounting.events import Adjacency
from core.accounting.filters import FILTER_ORDERS, GAUSSIAN, Arms
from core.accounting.gaussian_arm import gaussian_cap_nano
from core.amounts import EPSILON_MAX, FEMTO, NANO

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

    Guarantee: that of `core.accounting.filters`. The shares of delta are a public function of the arguments and sum to
    at most delta, in whole femto. Renyi arms: Canonne, Kamath and Steinke 2020, Proposition 12, solved for rho at a
    fixed order. Square arm: sqrt(2 L s) + s/2 <= epsilon with L = ln(1/share), solved for s (Whitehouse et al. 2022,
    Theorem 2; pure events only). Gaussian arm: `core.accounting.gaussian_arm`. Without delta the account offers only
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
