"""The one interface of every accountant, and what its answers may claim.

A `bound` is never under the true epsilon of the composed plan. An `estimate` may be: it never sets noise and never
admits a charge. `vacuous` and `no-unique-root` carry no number at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from core.accounting.plans import COUNT_MAX, PlanAdjacency, PlanEvent, check_count, check_delta
from core.errors import NoUniqueRoot, OutOfRange, UnitMismatch


class Kind(StrEnum):
    """What an answer claims."""

    BOUND = "bound"
    ESTIMATE = "estimate"
    VACUOUS = "vacuous"
    NO_UNIQUE_ROOT = "no-unique-root"


class Direction(StrEnum):
    """Which of the two hockey-stick curves of a neighbouring pair: the unit removed, added, or the larger of both."""

    REMOVE = "remove"
    ADD = "add"
    MAX = "max"


@dataclass(frozen=True)
class Interval:
    """Where epsilon lies, about: `kind` is `estimate`, or `vacuous` and then both ends are None."""

    low: float | None
    high: float | None
    kind: Kind
    note: str = ""


@dataclass(frozen=True)
class Result:
    """Epsilon at a delta. `value` is None exactly for `vacuous` and `no-unique-root`."""

    value: float | None
    kind: Kind
    note: str = ""
    direction: Direction = Direction.MAX
    interval: Interval | None = None

    def require(self) -> float:
        """The number. Raises NoUniqueRoot when there is none."""
        if self.value is None:
            raise NoUniqueRoot
        return self.value


class Accountant(ABC):
    """Sums plan events of one adjacency and gives epsilon at a delta.

    `compose` checks everything before it changes anything: a refused event leaves the account as it was.
    """

    name: ClassVar[str]

    def __init__(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE) -> None:
        self.adjacency = adjacency
        self.count = 0

    def compose(self, event: PlanEvent, count: int = 1) -> Self:
        """Add `count` releases of `event`.

        Raises:
            OutOfRange: `count` is not a whole number of at least 1, or the account would pass COUNT_MAX releases.
            UnitMismatch: the event has another adjacency than the account.
            UnsupportedEvent: this accountant cannot price the event, or not beside those it holds.
        """
        check_count(count)
        if self.count + count > COUNT_MAX:
            raise OutOfRange(f"an account holds at most {COUNT_MAX} releases", field="steps")
        if event.adjacency is not self.adjacency:
            raise UnitMismatch
        self._check(event)
        self._add(event, count)
        self.count += count
        return self

    def epsilon(self, delta: float) -> Result:
        """Epsilon of everything composed so far, at `delta`. An empty account has epsilon 0. Raises OutOfRange."""
        check_delta(delta)
        if self.count == 0:
            return Result(0.0, Kind.BOUND, "nothing was composed")
        return self._epsilon(delta)

    @abstractmethod
    def _check(self, event: PlanEvent) -> None:
        """Raise UnsupportedEvent for an event that cannot be added. Changes nothing."""

    @abstractmethod
    def _add(self, event: PlanEvent, count: int) -> None:
        """Add a checked event."""

    @abstractmethod
    def _epsilon(self, delta: float) -> Result:
        """Epsilon of a non-empty account."""
