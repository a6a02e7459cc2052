"""Accountants whose costs add over releases: basic composition and Renyi accounting.

Basic composition is the loosest bound and the only one that needs no fixed plan.

Renyi accounting (Mironov 2017) adds rho(alpha) at every order alpha. The costs of standard events come from Google's
`dp-accounting`. The conversion is that of Canonne, Kamath and Steinke 2020, Proposition 12. It uses the best order,
which is sound for a plan that was fixed first.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from absl import logging
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant as GoogleRdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS, compute_epsilon

from core.accounting import plans
from core.accounting.exact import epsilon_of_gaussian
from core.errors import UnsupportedEvent

_Priced = plans.Gaussian | plans.SubsampledGaussian | plans.Laplace | plans.Pure


class BasicAccountant(plans.Accountant):
    """Guarantee: (sum eps_i, sum delta_i)-DP, also an upper bound under adaptive choice.

    Pure and Laplace events spend no delta. Events with Gaussian noise share the target delta evenly. Each costs its
    exact epsilon (Balle and Wang 2018) at its share. Poisson sampling under add-remove adjacency amplifies it:
    eps = ln(1 + q(e^eps' - 1)) at delta = q delta' (Balle, Barthe and Gaboardi 2018, Theorem 8).
    """

    name = "basic"

    def __init__(self, adjacency: plans.PlanAdjacency = plans.PlanAdjacency.ADD_REMOVE) -> None:
        super().__init__(adjacency)
        self._counts: dict[_Priced, int] = {}

    def _check(self, event: plans.PlanEvent) -> None:
        event = plans.simplest(event)
        if isinstance(event, plans.RandomAllocation):
            raise UnsupportedEvent("basic composition does not price random allocation")
        if isinstance(event, plans.SubsampledGaussian) and event.adjacency is plans.PlanAdjacency.REPLACE_ONE:
            raise UnsupportedEvent("basic composition prices Poisson sampling under add-remove adjacency only")

    def _add(self, event: plans.PlanEvent, count: int) -> None:
        event = plans.simplest(event)
        if not isinstance(event, plans.RandomAllocation):  # `_check` rejects these
            self._counts[event] = self._counts.get(event, 0) + count

    def _epsilon(self, delta: float) -> plans.Result:
        noisy = sum(count for event, count in self._counts.items() if not isinstance(event, plans.Pure | plans.Laplace))
        share = delta / max(noisy, 1)
        total = math.fsum(count * _one(event, share) for event, count in self._counts.items())
        return plans.Result(total * (1 + 1e-15), plans.Kind.BOUND)


def _one(event: _Priced, delta: float) -> float:
    if isinstance(event, plans.Pure | plans.Laplace):
        return event.epsilon
    mu = 1 / event.noise_multiplier
    if isinstance(event, plans.Gaussian):
        return epsilon_of_gaussian(delta, mu)
    rate = event.sampling_rate
    if delta >= rate:
        return 0.0
    inner = epsilon_of_gaussian(delta / rate, mu)
    if inner > 500.0:
        return inner
    return math.log1p(rate * math.expm1(inner)) * (1 + 1e-14)


Array = npt.NDArray[np.float64]

ORDERS: Array = np.asarray(DEFAULT_RDP_ORDERS, dtype=np.float64)
# ln(1 + tiny) / (alpha - 1) loses amounts below rounding, and a plan multiplies this loss by its number of steps.
_SLACK = 2.0**-51


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library's log line for each fractional order that does not converge. Such orders are left out."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@lru_cache(maxsize=4096)
def _rho(event: plans.PlanEvent) -> tuple[float, ...]:
    if isinstance(event, plans.Pure):
        # the Renyi divergence of randomised response, the worst pure mechanism
        e = event.epsilon
        rho = e - (np.log1p(np.exp(-e)) - np.log1p(np.exp(-(2 * ORDERS - 1) * e))) / (ORDERS - 1)
    else:
        google = GoogleRdpAccountant(ORDERS.tolist())
        if isinstance(event, plans.Gaussian):
            google.compose(GaussianDpEvent(event.noise_multiplier))
        elif isinstance(event, plans.Laplace):
            google.compose(LaplaceDpEvent(1 / event.epsilon))
        elif isinstance(event, plans.SubsampledGaussian):
            with _quiet():
                google.compose(PoissonSampledDpEvent(event.sampling_rate, GaussianDpEvent(event.noise_multiplier)))
        else:
            raise UnsupportedEvent
        rho = google.rdp
    rho = np.where(np.isfinite(rho), np.maximum(rho, 0.0), np.inf) + _SLACK / (ORDERS - 1)
    return tuple(rho.tolist())


class RdpAccountant(plans.Accountant):
    """Guarantee: an upper bound on epsilon for a fixed plan, in either direction of the adjacency.

    Assumes add-remove adjacency for Poisson sampling. Updating the account is O(1) in the number of releases.
    """

    name = "rdp"

    def __init__(self, adjacency: plans.PlanAdjacency = plans.PlanAdjacency.ADD_REMOVE) -> None:
        super().__init__(adjacency)
        self._rho = np.zeros_like(ORDERS)

    def _check(self, event: plans.PlanEvent) -> None:
        event = plans.simplest(event)
        if isinstance(event, plans.RandomAllocation):
            raise UnsupportedEvent("the Renyi cost of random allocation is not computed")
        if isinstance(event, plans.SubsampledGaussian) and event.adjacency is plans.PlanAdjacency.REPLACE_ONE:
            raise UnsupportedEvent("the Renyi cost of Poisson sampling is known under add-remove adjacency only")

    def _add(self, event: plans.PlanEvent, count: int) -> None:
        with np.errstate(all="ignore"):
            self._rho += count * np.asarray(_rho(plans.simplest(event)))

    def _epsilon(self, delta: float) -> plans.Result:
        usable = np.isfinite(self._rho)
        if not usable.any():
            return plans.Result(None, plans.Kind.VACUOUS, "no order has a finite cost")
        value, order = compute_epsilon(ORDERS[usable].tolist(), self._rho[usable].tolist(), delta)
        return plans.Result(float(value), plans.Kind.BOUND, f"order {order:g}")
