"""Privacy events: what the releases of mechanisms cost. Accountants and the ledger depend on events, not on mechanisms.

An event is frozen. Its unit defines *what* may be replaced or removed, its adjacency defines *how*. An account never
sums events of another unit or adjacency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.amounts import delta_of, epsilon_of
from core.errors import UnitMismatch


class Unit(StrEnum):
    """What one privacy unit is. There is one account for each unit."""

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

# The known facts about a release. They determine its price (see `core.accounting.filters`):
KINDS = frozenset(
    {
        "exponential",  # exponential mechanism with weights e^(eps u / 2 Delta): eps-bounded range
        "permute_and_flip",  # pure eps, not bounded range: priced as Laplace
        "two_geometric",  # two-sided geometric noise of eps / 2 on two numbers, each of which moves by 1
        "laplace",  # Laplace noise on one number, scale = sensitivity / eps
        "pure",  # pure eps, no further property known
        "metric",  # metric DP in a domain whose diameter D is enforced by clipping: pure at eps * D
        "gaussian",  # Gaussian noise of `noise_multiplier` times the l2 sensitivity
        "approximate",  # only an (eps, delta): basic composition only
    }
)

# A release at a coarser unit also debits the finer units inside it. This debit is a guarantee where replacing one finer
# unit is one way of replacing a coarser one, such as a token inside a sentence that the caller sent. It is not a
# guarantee where the gateway segments the text, because one token can change the number of sentences
# (`core.mechanisms.sentences.protection`). The finer account is debited in that case too, so that it never counts less
# than what it covers.
_DEBITED: dict[Unit, tuple[Unit, ...]] = {
    Unit.TOKEN: (Unit.TOKEN,),
    Unit.SENTENCE: (Unit.SENTENCE, Unit.TOKEN),
    Unit.VECTOR: (Unit.VECTOR,),
    Unit.RECORD: (Unit.RECORD,),
}


@dataclass(frozen=True)
class PrivacyEvent:
    """One release of one mechanism on one document.

    `kind` names the row of the accounting table that prices the event, one of KINDS. `epsilon_nano` and `delta_femto`
    are rounded up. A `gaussian` event has a `noise_multiplier` (standard deviation over the l2 sensitivity under the
    event's adjacency, a lower bound of the value used). Its epsilon and delta are either both 0, or both positive; in
    the latter case it satisfies that (epsilon, delta). No other kind has a noise multiplier.

    Raises: ValueError for anything else; UnitMismatch if the adjacency is not that of the unit's accounts.
    """

    mechanism: str
    kind: str
    unit: Unit
    adjacency: Adjacency
    guarantee: Guarantee
    epsilon_nano: int
    delta_femto: int = 0
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError("unknown kind of event")
        if self.kind == "gaussian":
            noise = self.noise_multiplier
            if noise is None or not math.isfinite(noise) or noise <= 0:
                raise ValueError("a gaussian event has a positive, finite noise multiplier")
            if min(self.epsilon_nano, self.delta_femto) < 0 or (self.epsilon_nano == 0) != (self.delta_femto == 0):
                raise ValueError("a gaussian event has an epsilon and a delta of its own, or neither")
        elif self.noise_multiplier is not None:
            raise ValueError("only a gaussian event has a noise multiplier")
        elif self.epsilon_nano <= 0 or self.delta_femto < 0:
            raise ValueError("an event costs a positive epsilon and a delta of at least 0")
        if ACCOUNT_ADJACENCY[self.unit] is not self.adjacency:
            raise UnitMismatch

    def privacy_block(self) -> dict[str, Any]:
        """Return the guarantee as responses and jobs show it."""
        return {
            "guarantee": self.guarantee.value,
            "unit": self.unit.value,
            "adjacency": self.adjacency.value,
            "epsilon": epsilon_of(self.epsilon_nano),
            "delta": delta_of(self.delta_femto),
            "mechanism": self.mechanism,
        }

    @property
    def debited_units(self) -> tuple[Unit, ...]:
        """The units whose accounts this event debits, the event's own unit first."""
        return _DEBITED[self.unit]
