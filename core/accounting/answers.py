"""Results of calculations in a form that crosses process boundaries: frozen data, cheap to import."""

from __future__ import annotations

from dataclasses import dataclass

from core.accounting.contract import Result


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
