"""The Fourier accountant: a proven upper bound whose evaluation time does not depend on the number of releases.

Guarantee: never below the true epsilon of a fixed plan of Gaussian and Poisson-subsampled Gaussian releases
(theorem and proof: docs/concepts/fourier-bound.md). Adjacency: add/remove. The guarantee does not cover adaptively
chosen parameters, so this accountant serves displays and planning and admits no charges. Source: this project; the
inversion integral: Alghamdi et al. 2023.
"""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from core.accounting.contract import Accountant, Kind, Result
from core.accounting.fourier_bound import Releases, epsilon_bound
from core.accounting.plans import Gaussian, PlanAdjacency, PlanEvent, SubsampledGaussian
from core.errors import UnsupportedEvent


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


class FourierAccountant(Accountant):
    """Sums counts for each (sampling rate, noise multiplier). An update is O(1), an evaluation takes milliseconds."""

    name: ClassVar[str] = "fourier"

    def __init__(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE) -> None:
        super().__init__(adjacency)
        self._counts: dict[tuple[float, float], int] = {}

    def _check(self, event: PlanEvent) -> None:
        if not isinstance(event, Gaussian | SubsampledGaussian) or event.adjacency is not PlanAdjacency.ADD_REMOVE:
            raise UnsupportedEvent("the Fourier bound prices Gaussian steps under add-remove adjacency only")
        try:
            Releases(*_parameters(event), 1)
        except ValueError:
            raise UnsupportedEvent("the Fourier bound takes noise multipliers between 0.1 and 1000") from None

    def _add(self, event: PlanEvent, count: int) -> None:
        key = _parameters(event)
        self._counts[key] = self._counts.get(key, 0) + count

    def _epsilon(self, delta: float) -> Result:
        plan = [Releases(rate, noise, count) for (rate, noise), count in self._counts.items()]
        # The matrices are small: with several threads, synchronisation makes this about thirty times slower.
        with _threads().limit(limits=1, user_api="blas"):
            value = epsilon_bound(plan, delta)
        if not math.isfinite(value):
            return Result(None, Kind.VACUOUS, "the bound is vacuous for this plan")
        return Result(value, Kind.BOUND)


def _parameters(event: PlanEvent) -> tuple[float, float]:
    if isinstance(event, SubsampledGaussian):
        return event.sampling_rate, event.noise_multiplier
    if isinstance(event, Gaussian):
        return 1.0, event.noise_multiplier
    raise UnsupportedEvent
