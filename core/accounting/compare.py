"""Compares all accountants on one plan. Each result states what it claims.

The functions are pure, with picklable arguments. The certificate takes up to some seconds, so a service runs them in a
process pool.
"""

from __future__ import annotations

from core.accounting.answers import Line
from core.accounting.basic import BasicAccountant
from core.accounting.contract import Accountant, Direction, Kind, Result
from core.accounting.edgeworth import EdgeworthAccountant
from core.accounting.fourier import FourierAccountant
from core.accounting.plans import PlanEvent, check_count, check_delta
from core.accounting.pld import PldCertificate
from core.accounting.rdp import RdpAccountant
from core.errors import CalculationTimeout, UnsupportedEvent

ORDERS = (1, 2, 3)


def compare(event: PlanEvent, steps: int, delta: float, *, interval: float | None = None) -> tuple[Line, ...]:
    """Return epsilon at `delta` of `steps` releases of `event` by every accountant, including the certificate.

    If an accountant cannot price the event, its result is `vacuous` with the reason. The same holds if the caller's
    deadline interrupts the certificate with CalculationTimeout. `interval` is the loss grid of the certificate
    (default: its own choice). Adjacency: the event's. Assumes a fixed plan.

    Raises:
        OutOfRange: `steps` or `delta` is outside its range.
    """
    check_count(steps)
    check_delta(delta)
    bounds: list[Accountant] = [
        BasicAccountant(event.adjacency),
        RdpAccountant(event.adjacency),
        FourierAccountant(event.adjacency),
    ]
    lines = [Line(account.name, _price(account, event, steps, delta)) for account in bounds]
    for order in ORDERS:
        found = {
            direction: _price(
                EdgeworthAccountant(event.adjacency, order=order, direction=direction), event, steps, delta
            )
            for direction in Direction
        }
        lines.append(
            Line(
                EdgeworthAccountant.name,
                found[Direction.MAX],
                order=order,
                remove=found[Direction.REMOVE],
                add=found[Direction.ADD],
            )
        )
    # The certificate runs last, so that a timeout does not affect the other results.
    certificate = PldCertificate(event.adjacency, interval=interval)
    try:
        certified = _price(certificate, event, steps, delta)
    except CalculationTimeout as late:
        certified = Result(None, Kind.VACUOUS, late.detail)
    return (*lines[: len(bounds)], Line(certificate.name, certified), *lines[len(bounds) :])


def _price(account: Accountant, event: PlanEvent, steps: int, delta: float) -> Result:
    try:
        return account.compose(event, steps).epsilon(delta)
    except UnsupportedEvent as refusal:
        return Result(None, Kind.VACUOUS, refusal.detail)
