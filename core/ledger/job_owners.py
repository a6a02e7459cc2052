"""Who may have unfinished jobs, so that a search for them does not read every tenant.

Guarantee: an owner is listed before its job exists, and as long as it has an unfinished job, while `refresh` runs
somewhere. Owners without one leave the list after minutes. A job that outlived all gateways is found by the
`refresh` of a start, which reads every tenant once.
"""

from __future__ import annotations

from core.ledger import names
from core.ledger.activity import TENANT_BATCH
from core.ledger.client import LedgerClient

LISTED_MS = 120_000  # many times what a creation takes


class JobOwners:
    """The list. Methods raise LedgerUnavailable."""

    def __init__(self, client: LedgerClient) -> None:
        self._client = client

    async def add(self, owner: str) -> None:
        """List an owner. Call this before its job is created."""
        await self._client.run("job_owner", key=names.JOB_OWNERS_BASE_KEY, args={"owner": names.check_owner(owner)})

    async def listed(self) -> list[str]:
        """Return every owner that may have an unfinished job, sorted."""
        found = await self._client.call("ZRANGEBYSCORE", names.JOB_OWNERS_KEY, "-inf", "+inf")
        return sorted(name.decode() for name in found)

    async def refresh(self, *, all_tenants: bool = False) -> None:
        """List owners of unfinished jobs again, then remove what is older than LISTED_MS.

        Call this at intervals below LISTED_MS / 2. `all_tenants`: look at every tenant.
        """
        now_ms = await self._client.now_ms()
        if all_tenants:
            owners = [names.SHARED_OWNER, *await self._client.tenants()]
        else:
            aging = ("ZRANGEBYSCORE", names.JOB_OWNERS_KEY, "-inf", now_ms - LISTED_MS // 2)
            owners = [name.decode() for name in await self._client.call(*aging)]
        for start in range(0, len(owners), TENANT_BATCH):
            batch = owners[start : start + TENANT_BATCH]
            counts = await self._client.call_many([("ZCARD", names.open_jobs_key(owner)) for owner in batch])
            for owner, count in zip(batch, counts, strict=True):
                if count:
                    await self.add(owner)
        await self._client.call("ZREMRANGEBYSCORE", names.JOB_OWNERS_KEY, "-inf", now_ms - LISTED_MS)
