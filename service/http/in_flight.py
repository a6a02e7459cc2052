"""Limits how many requests of one tenant are in work at once, so that no tenant takes all the time of the event loop.

A request takes its place after authentication and before its body is read. It has the place until its answer has been
sent completely, so a client that reads slowly occupies places of its own tenant alone. A request without a free place
waits, in the order of arrival. The operator's requests and those without a key take no place.

An answer without an end (the events of a job, the lines of a stream of documents) gives its place back when it starts.
Otherwise a tenant with as many open streams as places could do nothing else. Uploads of jobs have their places while
they arrive: `JOBS_PER_TENANT_MAX` limits them to fewer.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from fastapi import Request
from starlette.datastructures import Headers

from core.errors import TenantLimitReached
from service.http.exchange import Exchange
from service.http.strict import whole_number
from service.preparation import IN_LOOP_SIZE_MAX


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


class LargeRequests:
    """Limits how many large requests of one tenant are in work at once. Others wait, and their bodies are not read yet.

    A large body costs the gateway's process time before the engine's queue can refuse it. Without this limit, the
    bodies of one tenant with many connections would take all of that time. A request has its place until its answer has
    been sent. Used on the event loop only, without locks.
    """

    def __init__(self, *, per_tenant_max: int, wait_s: float) -> None:
        self._places = TenantPlaces(per_tenant_max, wait_s=wait_s, limit="large_requests_per_tenant_max")

    async def take(self, owner: str, headers: Headers, held: ExitStack) -> None:
        """Have a place until `held` is closed, if the request of `owner` with these headers is large.

        Raises TenantLimitReached if the tenant has no free place for `wait_s` seconds.
        """
        if is_large(headers):
            await self._places.take(owner)
            held.callback(self._places.give_back, owner)


def is_large(headers: Headers) -> bool:
    """A body of unknown length counts as large."""
    announced = whole_number(headers.get("content-length"))
    return "transfer-encoding" in headers if announced is None else announced > IN_LOOP_SIZE_MAX


class InFlight:
    """Used on the event loop only, without locks."""

    def __init__(self, *, per_tenant_max: int, wait_s: float) -> None:
        self._places = TenantPlaces(per_tenant_max, wait_s=wait_s, limit="requests_in_flight_per_tenant_max")

    async def take(self, request: Request, tenant: str) -> None:
        """Have a place until the exchange gives it back.

        Raises TenantLimitReached if the tenant has no free place for `wait_s` seconds, ClientGone if the client leaves
        before. For a request with a large body, which is not read yet, that is noticed when it has its place.
        """
        exchange: Exchange = request.state.exchange
        if self._places.is_full(tenant):
            await exchange.waited(self._take(exchange, tenant), reads=not is_large(request.headers))
        else:
            await self._take(exchange, tenant)

    async def _take(self, exchange: Exchange, tenant: str) -> None:
        await self._places.take(tenant)
        exchange.place.callback(self._places.give_back, tenant)
