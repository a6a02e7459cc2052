"""The gauges of the ledgers. With several ledgers, each shows the worst value, or the sum, over all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from prometheus_client import Gauge

from service import metrics


class LedgerGauge:
    """One gauge. `combine` makes its value from those of the ledgers."""

    def __init__(self, gauge: Gauge, combine: Callable[[Collection[float]], float]) -> None:
        self._gauge = gauge
        self._combine = combine
        self._values: dict[str, float] = {}

    def set(self, ledger: str, value: float) -> None:
        self._values[ledger] = value
        self._gauge.set(self._combine(self._values.values()))


OPEN = metrics.LEDGER_OPEN
DURABLE = LedgerGauge(metrics.LEDGER_DURABLE, min)
SEALED_AT = LedgerGauge(metrics.SEALED_AT, min)
GATEWAYS_PRESENT = LedgerGauge(metrics.GATEWAYS_PRESENT, max)
HOLDS_DUTIES = LedgerGauge(metrics.HOLDS_DUTIES, sum)
BUDGETS_EXHAUSTED = LedgerGauge(metrics.BUDGETS_EXHAUSTED, sum)
