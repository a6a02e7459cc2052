"""What a calculation hands back across a process border: plain frozen data, light to import."""

from __future__ import annotations

from dataclasses import dataclass

from core.accounting.contract import Result


@dataclass(frozen=True)
class Certificate:
    """The certified epsilon of a plan: never under the truth. `loss_interval` is the grid (0: solved exactly)."""

    epsilon: float
    delta: float
    loss_interval: float


@dataclass(frozen=True)
class CalibratedNoise:
    """The least certified noise for a target, to 1e-3 (absolute below 1, relative above)."""

    noise_multiplier: float
    certificate: Certificate
    seed: float
    evaluations: int


@dataclass(frozen=True)
class CalibratedSteps:
    """The largest number of steps whose certificate, on its loss grid, meets the target; 0 if not even one does."""

    steps: int
    certificate: Certificate | None
    evaluations: int


@dataclass(frozen=True)
class Line:
    """One accountant's epsilon of a plan. `order` and the two directions are those of the Edgeworth accountant."""

    name: str
    result: Result
    order: int | None = None
    remove: Result | None = None
    add: Result | None = None
