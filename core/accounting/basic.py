"""Basic composition: epsilons and deltas add. It is the loosest bound and the only one that needs no fixed plan."""

from __future__ import annotations

import math

from core.accounting.contract import Accountant, Kind, Result
from core.accounting.gaussian import epsilon_of_gaussian
from core.accounting.plans import (
    Gaussian,
    Laplace,
    PlanAdjacency,
    PlanEvent,
    Pure,
    RandomAllocation,
    SubsampledGaussian,
    simplest,
)
from core.errors import UnsupportedEvent

_Priced = Gaussian | SubsampledGaussian | Laplace | Pure


class BasicAccountant(Accountant):
    """Guarantee: (sum eps_i, sum delta_i)-DP, also an upper bound under adaptive choice.

    Pure and Laplace events spend no delta. Events with Gaussian noise share the target delta evenly. Each costs its
    exact epsilon (Balle and Wang 2018) at its share. Poisson sampling under add-remove adjacency amplifies it:
    eps = ln(1 + q(e^eps' - 1)) at delta = q delta' (Balle, Barthe and Gaboardi 2018, Theorem 8).
    """

    name = "basic"

    def __init__(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE) -> None:
        super().__init__(adjacency)
        self._counts: dict[_Priced, int] = {}

    def _check(self, event: PlanEvent) -> None:
        event = simplest(event)
        if isinstance(event, RandomAllocation):
            raise UnsupportedEvent("basic composition does not price random allocation")
        if isinstance(event, SubsampledGaussian) and event.adjacency is PlanAdjacency.REPLACE_ONE:
            raise UnsupportedEvent("basic composition prices Poisson sampling under add-remove adjacency only")

    def _add(self, event: PlanEvent, count: int) -> None:
        event = simplest(event)
        if not isinstance(event, RandomAllocation):  # `_check` rejects these
            self._counts[event] = self._counts.get(event, 0) + count

    def _epsilon(self, delta: float) -> Result:
        noisy = sum(count for event, count in self._counts.items() if not isinstance(event, Pure | Laplace))
        share = delta / max(noisy, 1)
        total = math.fsum(count * _one(event, share) for event, count in self._counts.items())
        return Result(total * (1 + 1e-15), Kind.BOUND)


def _one(event: _Priced, delta: float) -> float:
    if isinstance(event, Pure | Laplace):
        return event.epsilon
    mu = 1 / event.noise_multiplier
    if isinstance(event, Gaussian):
        return epsilon_of_gaussian(delta, mu)
    rate = event.sampling_rate
    if delta >= rate:
        return 0.0
    inner = epsilon_of_gaussian(delta / rate, mu)
    if inner > 500.0:
        return inner
    return math.log1p(rate * math.expm1(inner)) * (1 + 1e-14)
