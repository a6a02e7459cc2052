"""Privacy amounts as integers: epsilon in nano (1e-9), delta in femto (1e-15).

Redis' Lua computes in doubles, so every sum must stay below 2**53. With nano-epsilon that limits a single
amount to `EPSILON_MAX` = 4e6 (two of them still add exactly). A delta of 1 is 1e15 femto.
Amounts are parsed with `Decimal(repr(x))`, the shortest decimal that represents the float. The binary value of 0.1
times 1e9 would round up to 100000001, and a budget of 5 x 0.1 would admit only four releases.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

NANO = 10**9
FEMTO = 10**15
EPSILON_MAX = 4_000_000
BASIC, SQUARES, RENYI, GAUSSIAN = "basic", "squares", "renyi", "gaussian"


@dataclass(frozen=True)
class Amount:
    """A privacy cost in ledger units: epsilon in nano, delta in femto."""

    epsilon_nano: int
    delta_femto: int = 0


@dataclass(frozen=True)
class ArmState:
    """One rule by which a filter account may admit a release, in floats, for display.

    `spent` counts what is committed and held, in the arm's own measure: epsilon, epsilon squared, Renyi divergence at
    `order`, or mu squared. Deltas are those of basic composition. `is_open`: it has priced everything so far and is
    within its limit. `requested` is what a refused release asks of it, None where the arm cannot price that release.
    """

    name: str
    order: float | None
    spent: float
    limit: float
    is_open: bool
    spent_delta: float = 0.0
    limit_delta: float = 0.0
    requested: float | None = None


def _scaled(value: float | int | str | Decimal, *, unit: int, maximum: int, rounding: str) -> int:
    try:
        amount = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except ArithmeticError:
        raise ValueError("not a number") from None
    if not amount.is_finite() or amount < 0 or amount > maximum:
        raise ValueError(f"must be a finite number between 0 and {maximum}")
    return int((amount * unit).to_integral_value(rounding=rounding))


@lru_cache(maxsize=1024, typed=True)
def cost_nano(epsilon: float | int | str | Decimal) -> int:
    """Convert epsilon to a cost in nano-epsilon, rounded **up**. Raises ValueError outside [0, EPSILON_MAX]."""
    return _scaled(epsilon, unit=NANO, maximum=EPSILON_MAX, rounding=ROUND_CEILING)


def limit_nano(epsilon: float | int | str | Decimal) -> int:
    """Convert epsilon to a limit in nano-epsilon, rounded **down**. Raises ValueError outside [0, EPSILON_MAX]."""
    return _scaled(epsilon, unit=NANO, maximum=EPSILON_MAX, rounding=ROUND_FLOOR)


def limit_femto(delta: float | int | str | Decimal) -> int:
    """Convert delta to a limit in femto-delta, rounded **down**. Raises ValueError outside [0, 1]."""
    return _scaled(delta, unit=FEMTO, maximum=1, rounding=ROUND_FLOOR)


def epsilon_of(nano: int) -> float:
    """Convert nano-epsilon to the nearest float, for display."""
    return nano / NANO


def delta_of(femto: int) -> float:
    """Convert femto-delta to the nearest float, for display."""
    return femto / FEMTO
