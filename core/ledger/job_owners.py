"""Who may have unfinished jobs, so that a search for them does not read every tenant.

Guarantee: an owner is in the list before its job exists, and stays there. A job of a version without the list is found
by the first search of a process, which reads every tenant once.
"""

from __future__ import annotations

from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.activity import TENANT_BATCH
from core.ledger.client import LedgerClient


class JobOwners:
    """The list, for one process. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client
        self._added: set[str] = set()
        self._has_searched = False

    async def add(self, owner: str) -> None:
        """Put an owner on the list. Call this before its job is created."""
        if owner in self._added:
            return
        try:
            await self._client.call("SADD", names.JOB_OWNERS_KEY, names.check_owner(owner))
        except LedgerUnavailable:  # the reply was lost: the command may be repeated
            await self._client.call("SADD", names.JOB_OWNERS_KEY, owner)
        self._added.add(owner)

    async def listed(self) -> list[str]:
        """Return every owner that may have an unfinished job, sorted."""
        if not self._has_searched:
            await self._search()
            self._has_searched = True
        found = {name.decode() for name in await self._client.call("SMEMBERS", names.JOB_OWNERS_KEY)}
        return sorted(found | {names.SHARED_OWNER})

    async def _search(self) -> None:
        tenants = sorted(name.decode() for name in await self._client.call("SMEMBERS", names.TENANTS_KEY))
        for start in range(0, len(tenants), TENANT_BATCH):
            batch = tenants[start : start + TENANT_BATCH]
            counts = await self._client.call_many([("ZCARD", names.open_jobs_key(tenant)) for tenant in batch])
            for tenant, count in zip(batch, counts, strict=True):
                if count:
                    await self.add(tenant)
