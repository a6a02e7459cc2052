"""Finds overdue holds. A tenant whose journal has not changed and whose deadlines lie ahead costs nothing.

Guarantee: every hold whose deadline has passed is given to `expire`, however often a round fails or is repeated. A hold
begins with a journal entry, so a tenant without new entries has no deadline that this process does not have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from core.errors import HoldNotOpen
from core.ledger import names
from core.ledger.activity import Done, TenantPosition
from core.ledger.client import LedgerClient
from core.ledger.tenant_rounds import over_tenants

SWEEP_BATCH = 256

Expire = Callable[[str, str], Awaitable[object]]  # tenant and release


class OverdueHolds:
    """The holds of all tenants by deadline, for one process. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient, expire: Expire) -> None:
        self._client = client
        self._expire = expire
        self._done = Done()
        self._next_ms: dict[str, float] = {}  # the first deadline of each tenant that has an open hold

    async def expire_all(self, positions: Mapping[str, TenantPosition], now_ms: int) -> int:
        """Expire every hold that is overdue at `now_ms`. Returns their number."""
        changed = set(self._done.pending(positions))
        due = {tenant for tenant, deadline in self._next_ms.items() if deadline <= now_ms and tenant in positions}

        async def work(tenant: str) -> int:
            expired = await self.expire_of(tenant, now_ms)
            first = await self._client.call(
                "ZRANGEBYSCORE", names.overdue_key(tenant), "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1
            )
            self._next_ms.pop(tenant, None)
            if first:
                self._next_ms[tenant] = float(first[1])
            self._done.note(tenant, positions[tenant])
            return expired

        return await over_tenants(sorted(changed | due), work)

    async def expire_of(self, tenant: str, now_ms: int) -> int:
        """Expire every overdue hold of one tenant."""
        expired = 0
        while True:
            overdue = await self._client.call(
                "ZRANGEBYSCORE", names.overdue_key(tenant), 0, now_ms, "LIMIT", 0, SWEEP_BATCH
            )
            before = expired
            for release_id in overdue:
                try:
                    await self._expire(tenant, release_id.decode())
                except HoldNotOpen:
                    continue  # settled in the meantime, which also removed it from this list
                expired += 1
            if len(overdue) < SWEEP_BATCH or expired == before:
                return expired
