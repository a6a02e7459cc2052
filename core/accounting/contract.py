"""The common interface of all accountants, and what their results may claim.

A `bound` is never below the true epsilon of the composed plan. An `estimate` may be below it, so it never sets noise
and never admits a charge. `vacuous` and `no-unique-root` contain no number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from core.accounting.plans import COUNT_MAX, PlanAdjacency, PlanEvent, check_count, check_delta
from core.errors import NoUniqueRoot, OutOfRange, UnitMismatch


class Kind(StrEnum):
    """What a result claims."""

    BOUND = "bound"
    ESTIMATE = "estimate"
    VACUOUS = "vacuous"
    NO_UNIQUE_ROOT = "no-unique-root"


class Direction(StrEnum):
    """The hockey-stick curve of a neighbouring pair: with the unit removed, added, or the larger of both."""

    REMOVE = "remove"
    ADD = "add"
    MAX = "max"


@dataclass(frozen=True)
class Interval:
    """An approximate range of epsilon. `kind` is `estimate`, or `vacuous`, in which case both ends are None."""

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
        """Return the number. Raises NoUniqueRoot if there is none."""
        if self.value is None:
            raise NoUniqueRoot
        return self.value


class Accountant(ABC):
    """Sums plan events of one adjacency and computes epsilon at a delta.

    `compose` checks everything before it changes anything, so a rejected event leaves the account unchanged.
    """

    name: ClassVar[str]

    def __init__(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE) -> None:
        self.adjacency = adjacency
        self.count = 0

    def compose(self, event: PlanEvent, count: int = 1) -> Self:
        """Add `count` releases of `event`.

        Raises:
            OutOfRange: `count` is not an integer of at least 1, or the account would exceed COUNT_MAX releases.
            UnitMismatch: the event has another adjacency than the account.
            UnsupportedEvent: this accountant cannot price the event, alone or together with the account's events.
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
        """Return epsilon of everything composed so far, at `delta`, 0 for an empty account. Raises OutOfRange."""
        check_delta(delta)
        if self.count == 0:
            return Result(0.0, Kind.BOUND, "nothing was composed")
        return self._epsilon(delta)

    @abstractmethod
    def _check(self, event: PlanEvent) -> None:
        """Raise UnsupportedEvent for an event that cannot be added. Must not change the account."""

    @abstractmethod
    def _add(self, event: PlanEvent, count: int) -> None:
        """Add a checked event."""

    @abstractmethod
    def _epsilon(self, delta: float) -> Result:
        """Return epsilon of a non-empty account."""
