"""Epsilon of a whole history of releases from running sums, in constant time whatever the history's length.

For display only. If the releases of a history were chosen adaptively, only its account's limit and basic composition
bound it. The other figures hold, or are estimates, for a history that was fixed in advance. They admit no release.
Adjacency: that of the account's events.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from core.accounting.edgeworth import estimate
from core.accounting.events import CUMULANTS, TWO_RESPONSES
from core.accounting.exact import epsilon_of_gaussian, epsilon_of_pure
from core.accounting.filters import GAUSSIAN, Sums
from core.accounting.plans import Direction, Kind, Result, check_delta
from core.amounts import NANO, delta_of, epsilon_of

FIXED_ONLY = "a bound only for a history whose releases were fixed in advance"
_BINOMIAL = f"exact: the binomial of randomised response; {FIXED_ONLY}"
_GAUSSIAN = f"exact: Gaussian releases compose to one; {FIXED_ONLY}"
BINOMIAL_COUNT_MAX = 10_000  # the cost of its tails grows with the count; for more, the expansion is within 1e-3
_VARIANCE_MIN = 1e-200  # cumulants of order 5 still fit a double


@dataclass(frozen=True)
class HistoryLine:
    """One accountant's epsilon of a history, at `delta`."""

    accountant: str
    delta: float
    epsilon: Result


@lru_cache(maxsize=1024)
def history_lines(
    *,
    sums: Sums,
    orders: tuple[str, ...],
    moments: tuple[float, ...] | None,
    pure_epsilon_nano: int | None,
    delta: float,
) -> tuple[HistoryLine, ...]:
    """Return the basic, RDP and Edgeworth figures of a history, in this order. Does no I/O; takes less than 1 ms.

    Results are cached, because the accounts of one release often have equal sums.

    Args:
        sums: the sums over the history, with the Renyi sums at `orders`.
        moments: the sum of `events.moments_of` over the history; None if one of its events has none.
        pure_epsilon_nano: the value of `events.pure_epsilon_nano` if it is the same for all events, else None.
        delta: the delta of RDP and Edgeworth; basic composition has the sum of the releases' deltas.

    Raises: OutOfRange for a delta outside the accountants' range.
    """
    check_delta(delta)
    return (
        HistoryLine("basic", delta_of(sums.delta_femto), _basic(sums)),
        HistoryLine("rdp", delta, _renyi(sums, orders, delta)),
        HistoryLine("edgeworth", delta, _edgeworth(sums.count, moments, pure_epsilon_nano, delta)),
    )


def _basic(sums: Sums) -> Result:
    if sums.no_epsilon:
        return Result(None, Kind.VACUOUS, f"{sums.no_epsilon} releases have no epsilon of their own")
    return Result(epsilon_of(sums.epsilon_nano), Kind.BOUND, "the sum")


def _renyi(sums: Sums, orders: tuple[str, ...], delta: float) -> Result:
    """Convert by Canonne, Kamath and Steinke 2020, Proposition 12, at the best of the account's orders."""
    if sums.no_rho:
        return Result(None, Kind.VACUOUS, f"{sums.no_rho} releases have no Renyi divergence")
    if sums.count == 0:
        return Result(0.0, Kind.BOUND, "nothing was released")
    value, best = min(
        (rho / NANO + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1), order)
        for rho, order, alpha in _renyi_orders(sums, orders)
    )
    return Result(max(0.0, value), Kind.ESTIMATE, f"order {best}; {FIXED_ONLY}")


def _renyi_orders(sums: Sums, orders: tuple[str, ...]) -> list[tuple[int, str, float]]:
    both = zip(sums.rho_nano, orders, strict=True)
    return [(rho, order, float(order)) for rho, order in both if order != GAUSSIAN]


def _edgeworth(count: int, moments: tuple[float, ...] | None, pure_nano: int | None, delta: float) -> Result:
    if count == 0:
        return Result(0.0, Kind.BOUND, "nothing was released")
    if pure_nano is not None and count <= BINOMIAL_COUNT_MAX:
        copies, epsilon_nano = (1, pure_nano) if pure_nano < TWO_RESPONSES else (2, pure_nano - TWO_RESPONSES)
        value = epsilon_of_pure(delta, epsilon_of(epsilon_nano) / copies, copies * count)
        return Result(value, Kind.ESTIMATE, _BINOMIAL)
    if moments is None:
        return Result(None, Kind.VACUOUS, "not every release has a privacy loss that is known")
    x, y = np.array(moments[:CUMULANTS]), np.array(moments[CUMULANTS:])
    if not (np.isfinite(moments).all() and min(x[1], y[1]) > _VARIANCE_MIN):
        return Result(None, Kind.VACUOUS, "the privacy loss has no variance that fits a double")
    if not (x[2:].any() or y[2:].any()):
        return Result(epsilon_of_gaussian(delta, math.sqrt(y[1])), Kind.ESTIMATE, _GAUSSIAN)
    for order in (3, 2, 1):
        answer = estimate(x, y, order, delta, Direction.REMOVE)  # the pairs are symmetric: `add` has the same curve
        if answer.value is not None:
            return replace(answer, note=f"order {order}; {answer.note}")
    return answer
