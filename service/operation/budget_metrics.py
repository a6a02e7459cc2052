"""Metrics of the budgets that are used most, so that Prometheus can warn before they run out.

Only the tenants' own accounts are measured. The number of series is bounded: an account that is no longer among the
fullest loses its series.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable

from core.errors import UnknownTenant
from core.ledger.ledger import Ledger
from core.ledger.records import AccountState
from service import metrics

_Labels = tuple[str, str]  # tenant and unit


class BudgetMetrics:
    """Measures the `accounts_max` accounts with the largest used share. `measure` is called regularly."""

    def __init__(self, ledger: Ledger, *, accounts_max: int) -> None:
        self._ledger = ledger
        self._accounts_max = accounts_max
        self._shown: set[_Labels] = set()

    async def measure(self) -> None:
        """Read every tenant's own accounts, one tenant after the other. Raises LedgerUnavailable."""
        fullest: list[tuple[float, _Labels]] = []
        exhausted = 0
        for tenant in await self._ledger.tenants():
            try:
                states = await self._ledger.own_accounts(tenant.name)
            except UnknownTenant:
                continue
            shares = await asyncio.to_thread(_shares, states)
            exhausted += sum(share >= 1 for share, _ in shares)
            fullest = heapq.nlargest(self._accounts_max, [*fullest, *shares])
        metrics.BUDGETS_EXHAUSTED.set(exhausted)
        self._show(fullest)

    def _show(self, fullest: Iterable[tuple[float, _Labels]]) -> None:
        shown = {labels: share for share, labels in fullest}
        for labels in self._shown - shown.keys():
            metrics.BUDGET_USED.remove(*labels)
        for labels, share in shown.items():
            metrics.BUDGET_USED.labels(*labels).set(share)
        self._shown = set(shown)


def _shares(states: Iterable[AccountState]) -> list[tuple[float, _Labels]]:
    """The accounts that are in use."""
    shares = [(state.used_share, (state.account.partition("/")[0], state.unit.value)) for state in states]
    return [(share, labels) for share, labels in shares if share > 0]
