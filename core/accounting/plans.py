"""Plan events for the fixed-plan accountants, the interface of these accountants, and their results.

A plan event describes one release of what a mechanism will run; an accountant composes it `count` times. In a fixed
plan, no parameter depends on earlier outputs. The Edgeworth estimate and the PLD certificate hold only for fixed plans.

Adjacency. With `ADD_REMOVE` two inputs are neighbours if one has one more privacy unit than the other, with
`REPLACE_ONE` if one unit has another value. A parameter refers to the sensitivity under the stated adjacency, so
`Gaussian`, `Laplace` and `Pure` have the same price under both. Poisson sampling does not: `SubsampledGaussian` states
its adjacency.

Results. A `bound` is never below the true epsilon of the composed plan. An `estimate` may be below it, so it never sets
noise and never admits a charge. `vacuous` and `no-unique-root` contain no number. Results are frozen data, cheap to
import, because they cross process boundaries.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from core.errors import NoUniqueRoot, OutOfRange, UnitMismatch

NOISE_MULTIPLIER_MIN = 0.05
NOISE_MULTIPLIER_MAX = 1e7
SAMPLING_RATE_MIN = 1e-9
ALLOCATION_NOISE_MIN, ALLOCATION_NOISE_MAX = 0.2, 1e3  # the range for which the grids of `random_allocation` are made
EPOCH_STEPS_MAX = 1_000_000
PURE_EPSILON_MIN = 1e-6
PURE_EPSILON_MAX = 100.0
COUNT_MAX = 10**9
DELTA_MIN = 1e-13


class PlanAdjacency(StrEnum):
    """Which pairs of inputs are neighbours under a plan."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


def check_number(value: float, *, field: str, low: float, high: float) -> None:
    """Raise OutOfRange unless `value` is a finite number with low <= value <= high."""
    if isinstance(value, bool) or not math.isfinite(value) or not low <= value <= high:
        raise OutOfRange(f"{field} must be between {low:g} and {high:g}", field=field)


def check_count(count: int) -> None:
    """Raise OutOfRange unless 1 <= count <= COUNT_MAX."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
        raise OutOfRange(f"steps must be a whole number between 1 and {COUNT_MAX}", field="steps")


def check_delta(delta: float) -> None:
    """Raise OutOfRange unless DELTA_MIN <= delta < 1."""
    if isinstance(delta, bool) or not math.isfinite(delta) or not DELTA_MIN <= delta < 1:
        raise OutOfRange(f"delta must be at least {DELTA_MIN:g} and below 1", field="delta")


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of standard deviation `noise_multiplier` times the l2 sensitivity.

    Raises OutOfRange below NOISE_MULTIPLIER_MIN / 2. The factor 1/2 is needed because a full batch under replace-one
    adjacency is such an event, and its sensitivity is two clipping norms (`simplest`).
    """

    noise_multiplier: float
    adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        check_number(
            self.noise_multiplier, field="noise_multiplier", low=NOISE_MULTIPLIER_MIN / 2, high=NOISE_MULTIPLIER_MAX
        )


@dataclass(frozen=True)
class SubsampledGaussian:
    """One step of DP-SGD: each unit joins independently with probability `sampling_rate`, the sum gets Gaussian noise.

    Assumes Poisson sampling, not shuffled or fixed-size batches. `noise_multiplier` is the standard deviation over the
    clipping norm of one unit, under either adjacency. Raises OutOfRange.
    """

    sampling_rate: float
    noise_multiplier: float
    adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        check_number(self.sampling_rate, field="sampling_rate", low=SAMPLING_RATE_MIN, high=1.0)
        check_number(
            self.noise_multiplier, field="noise_multiplier", low=NOISE_MULTIPLIER_MIN, high=NOISE_MULTIPLIER_MAX
        )


@dataclass(frozen=True)
class RandomAllocation:
    """One epoch of DP-SGD: each unit joins one of `steps` steps, chosen uniformly; each sum gets Gaussian noise.

    Units join independently of each other. `noise_multiplier` is defined as in `SubsampledGaussian`. Raises OutOfRange.
    """

    steps: int
    noise_multiplier: float
    adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= EPOCH_STEPS_MAX:
            raise OutOfRange(f"an epoch has between 1 and {EPOCH_STEPS_MAX} steps", field="steps")
        low, high = ALLOCATION_NOISE_MIN, ALLOCATION_NOISE_MAX
        check_number(self.noise_multiplier, field="noise_multiplier", low=low, high=high)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise on one number, scale = sensitivity / `epsilon`. Raises OutOfRange."""

    epsilon: float
    adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        check_number(self.epsilon, field="epsilon", low=PURE_EPSILON_MIN, high=PURE_EPSILON_MAX)


@dataclass(frozen=True)
class Pure:
    """Any release with pure `epsilon`-DP and no further known property. Raises OutOfRange."""

    epsilon: float
    adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        check_number(self.epsilon, field="epsilon", low=PURE_EPSILON_MIN, high=PURE_EPSILON_MAX)


PlanEvent = Gaussian | SubsampledGaussian | RandomAllocation | Laplace | Pure


def simplest(event: PlanEvent) -> PlanEvent:
    """Return the event, but replace Poisson sampling at rate 1 by the Gaussian event that it equals exactly.

    One additional unit moves a sum of clipped units by one clipping norm. Another value of a unit moves it by up to
    two.
    """
    if isinstance(event, SubsampledGaussian) and event.sampling_rate == 1.0:
        norms = 1 if event.adjacency is PlanAdjacency.ADD_REMOVE else 2
        return Gaussian(event.noise_multiplier / norms, event.adjacency)
    return event


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


@dataclass(frozen=True)
class Certificate:
    """The certified epsilon of a plan, never below the true one. `loss_interval`: the loss grid (0: solved exactly)."""

    epsilon: float
    delta: float
    loss_interval: float


@dataclass(frozen=True)
class CalibratedNoise:
    """The smallest certified noise for a target, to 1e-3 (absolute below 1, relative above)."""

    noise_multiplier: float
    certificate: Certificate
    seed: float
    evaluations: int


@dataclass(frozen=True)
class CalibratedSteps:
    """The largest number of steps whose certificate, on its loss grid, meets the target; 0 if one step exceeds it."""

    steps: int
    certificate: Certificate | None
    evaluations: int


@dataclass(frozen=True)
class Line:
    """One accountant's epsilon of a plan. `order` and the two directions are set by the Edgeworth accountant only."""

    name: str
    result: Result
    order: int | None = None
    remove: Result | None = None
    add: Result | None = None
