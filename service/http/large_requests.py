"""Limits how many large requests of one tenant are in work at once. Others wait, and their bodies are not read yet.

A large body costs the gateway's process time before the engine's queue can refuse it. Without this limit, the bodies of
one tenant with many connections would take all of that time. A request has its place until its answer has been sent.
"""

from __future__ import annotations

from contextlib import ExitStack

from starlette.datastructures import Headers

from service.http.numbers import whole_number
from service.http.tenant_places import TenantPlaces
from service.preparation import IN_LOOP_SIZE_MAX


class LargeRequests:
    """Used on the event loop only, without locks."""

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
