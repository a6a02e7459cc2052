"""A number of places for each tenant. Those who find none free wait in the order of their arrival."""

from __future__ import annotations

import asyncio

from core.errors import TenantLimitReached


class _Places:
    """The places of one tenant. `users`: requests that have one or wait for one."""

    def __init__(self, places: int) -> None:
        self.free = asyncio.Semaphore(places)
        self.users = 0


class TenantPlaces:
    """Used on the event loop only, without locks. Keeps nothing of a tenant that has no places.

    `limit`: the name of the setting that `per_tenant_max` comes from. `wait_s`: the longest time that a request waits.
    """

    def __init__(self, per_tenant_max: int, *, wait_s: float, limit: str) -> None:
        self._per_tenant_max = per_tenant_max
        self._wait_s = wait_s
        self._limit = limit
        self._tenants: dict[str, _Places] = {}

    def is_full(self, tenant: str) -> bool:
        """Whether `take` would wait."""
        own = self._tenants.get(tenant)
        return own is not None and own.free.locked()

    async def take(self, tenant: str) -> None:
        """Have a place until `give_back`. Raises TenantLimitReached after `wait_s` seconds without one."""
        own = self._tenants.get(tenant)
        if own is None:
            own = self._tenants[tenant] = _Places(self._per_tenant_max)
        own.users += 1
        try:
            if own.free.locked():
                async with asyncio.timeout(self._wait_s):
                    await own.free.acquire()
            else:
                await own.free.acquire()  # returns at once
        except TimeoutError:
            self._leave(tenant, own)
            raise TenantLimitReached(limit=self._limit) from None
        except BaseException:
            self._leave(tenant, own)
            raise

    def give_back(self, tenant: str) -> None:
        """Give the place to the tenant's next request."""
        own = self._tenants[tenant]
        own.free.release()
        self._leave(tenant, own)

    def _leave(self, tenant: str, own: _Places) -> None:
        own.users -= 1
        if own.users == 0:
            del self._tenants[tenant]
