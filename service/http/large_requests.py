"""Limits how many large requests of one tenant are in work at once. Others wait, and their bodies are not read yet.

A large body costs the gateway's process time before the engine's queue can refuse it. Without this limit, the bodies of
one tenant with many connections would take all of that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import Headers

from core.errors import TenantLimitReached
from service.http.numbers import whole_number
from service.preparation import IN_LOOP_SIZE_MAX


class _Places:
    """The places of one tenant. `users`: requests that have one or wait for one."""

    def __init__(self, places: int) -> None:
        self.free = asyncio.Semaphore(places)
        self.users = 0


class LargeRequests:
    """Used on the event loop only, without locks."""

    def __init__(self, *, per_tenant_max: int, wait_s: float) -> None:
        self._per_tenant_max = per_tenant_max
        self._wait_s = wait_s
        self._tenants: dict[str, _Places] = {}

    @asynccontextmanager
    async def place(self, owner: str, headers: Headers) -> AsyncIterator[None]:
        """Have a place during the block, if the request of `owner` with these headers is large.

        Raises TenantLimitReached if the tenant has no free place for `wait_s` seconds.
        """
        if not _is_large(headers):
            yield
            return
        own = self._tenants.setdefault(owner, _Places(self._per_tenant_max))
        own.users += 1
        try:
            try:
                async with asyncio.timeout(self._wait_s):
                    await own.free.acquire()
            except TimeoutError:
                raise TenantLimitReached(limit="large_requests_per_tenant_max") from None
            try:
                yield
            finally:
                own.free.release()
        finally:
            own.users -= 1
            if own.users == 0:
                del self._tenants[owner]


def _is_large(headers: Headers) -> bool:
    """A body of unknown length counts as large."""
    announced = whole_number(headers.get("content-length"))
    return "transfer-encoding" in headers if announced is None else announced > IN_LOOP_SIZE_MAX
