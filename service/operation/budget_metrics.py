"""Metrics of the budgets that are used most, so that Prometheus can warn before they run out.

Only the tenants' own accounts are measured. The number of series is bounded: an account that is no longer among the
fullest loses its series.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping

from core.ledger.activity import Done, TenantPosition
from core.ledger.ledger import Ledger
from core.ledger.records import AccountState
from core.ledger.tenant_rounds import over_tenants
from service import metrics

_Labels = tuple[str, str]  # tenant and unit


class BudgetMetrics:
    """Measures the `accounts_max` accounts with the largest used share. `measure` is called regularly."""

    def __init__(self, ledger: Ledger, *, accounts_max: int) -> None:
        self._ledger = ledger
        self._accounts_max = accounts_max
        self._shown: set[_Labels] = set()
        self._done = Done()
        self._shares: dict[str, list[tuple[float, _Labels]]] = {}

    async def measure(self, positions: Mapping[str, TenantPosition]) -> None:
        """Read the own accounts of the tenants that have changed. Raises LedgerUnavailable."""
        for tenant in self._shares.keys() - positions.keys():
            del self._shares[tenant]
        self._done.keep(positions)
        await over_tenants(self._done.pending(positions), lambda tenant: self._read(tenant, positions[tenant]))
        shares = [row for rows in self._shares.values() for row in rows]
        metrics.BUDGETS_EXHAUSTED.set(sum(share >= 1 for share, _ in shares))
        self._show(heapq.nlargest(self._accounts_max, shares))

    def clear(self) -> None:
        """Show nothing: another gateway measures."""
        if self._shown:
            metrics.BUDGETS_EXHAUSTED.set(0)
            self._show(())

    async def _read(self, tenant: str, position: TenantPosition) -> int:
        if position.seq:  # else it is the name of an interrupted `open_tenant`
            states = await self._ledger.own_accounts(tenant)
            self._shares[tenant] = await asyncio.to_thread(_shares, states)
        self._done.note(tenant, position)
        return 1

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
