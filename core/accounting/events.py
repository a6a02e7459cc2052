"""Privacy events: what a mechanism says it costs. Accountants and the ledger consume events, never mechanisms.

An event is frozen. Its unit says *what* may be replaced or removed, its adjacency says *how*; an event of another
unit or adjacency is never summed into an account.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.errors import UnitMismatch


class Unit(StrEnum):
    """What one privacy unit is; one account a unit."""

    TOKEN = "token"  # noqa: S105 - a privacy unit, not a secret
    SENTENCE = "sentence"
    VECTOR = "vector"
    RECORD = "record"


class Adjacency(StrEnum):
    """Which pairs of inputs are neighbours."""

    REPLACE_ONE = "replace-one"
    METRIC = "metric"


class Guarantee(StrEnum):
    """The value of `privacy.guarantee` in a response."""

    PURE_DP = "pure-dp"
    APPROX_DP = "approx-dp"
    METRIC_DP = "metric-dp"
    NONE = "none"


ACCOUNT_ADJACENCY: dict[Unit, Adjacency] = {
    Unit.TOKEN: Adjacency.REPLACE_ONE,
    Unit.SENTENCE: Adjacency.REPLACE_ONE,
    Unit.VECTOR: Adjacency.METRIC,
    Unit.RECORD: Adjacency.REPLACE_ONE,
}

# A release at a coarser unit is one at every finer unit that it contains: replacing one token of a sentence is
# one way of replacing that sentence.
_DEBITED: dict[Unit, tuple[Unit, ...]] = {
    Unit.TOKEN: (Unit.TOKEN,),
    Unit.SENTENCE: (Unit.SENTENCE, Unit.TOKEN),
    Unit.VECTOR: (Unit.VECTOR,),
    Unit.RECORD: (Unit.RECORD,),
}


@dataclass(frozen=True)
class PrivacyEvent:
    """One release of one mechanism on one document.

    `kind` names the row of the accounting table that prices the event: `exponential` (bounded range),
    `permute_and_flip`, `laplace`, `gaussian`, ... `epsilon_nano` and `delta_femto` are rounded up.
    """

    mechanism: str
    kind: str
    unit: Unit
    adjacency: Adjacency
    guarantee: Guarantee
    epsilon_nano: int
    delta_femto: int = 0

    def __post_init__(self) -> None:
        if self.epsilon_nano <= 0 or self.delta_femto < 0:
            raise ValueError("an event costs a positive epsilon and a delta of at least 0")
        if ACCOUNT_ADJACENCY[self.unit] is not self.adjacency:
            raise UnitMismatch

    @property
    def debited_units(self) -> tuple[Unit, ...]:
        """The units whose accounts this event debits, the event's own unit first."""
        return _DEBITED[self.unit]
