"""Large requests of one tenant beyond its places wait; small ones and those of other tenants do not."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from starlette.datastructures import Headers

from core.errors import TenantLimitReached
from service.admission import LargeRequests

LARGE = Headers({"content-length": "1000000"})
SMALL = Headers({"content-length": "100"})
CHUNKED = Headers({"transfer-encoding": "chunked"})
EMPTY = Headers({})


def test_a_tenant_beyond_its_places_waits_and_nobody_else_does() -> None:
    async def main() -> None:
        requests = LargeRequests(per_tenant_max=2, wait_s=60)
        entered: list[str] = []
        leave = asyncio.Event()

        async def request(name: str, owner: str, headers: Headers) -> None:
            with ExitStack() as held:
                await requests.take(owner, headers, held)
                entered.append(name)
                await leave.wait()

        calls = [
            asyncio.create_task(request(name, owner, headers))
            for name, owner, headers in (
                ("first", "greedy", LARGE),
                ("second", "greedy", CHUNKED),
                ("third", "greedy", LARGE),
                ("small", "greedy", SMALL),
                ("empty", "greedy", EMPTY),
                ("other", "modest", LARGE),
            )
        ]
        for _ in range(3):
            await asyncio.sleep(0)
        assert entered == ["first", "second", "small", "empty", "other"]
        leave.set()
        await asyncio.gather(*calls)
        assert entered[-1] == "third"

    asyncio.run(main())


def test_a_request_that_waits_too_long_is_refused_and_frees_nothing() -> None:
    async def main() -> None:
        requests = LargeRequests(per_tenant_max=1, wait_s=0.01)
        with ExitStack() as held:
            await requests.take("tenant", LARGE, held)
            for _ in range(2):
                with pytest.raises(TenantLimitReached) as error:
                    await requests.take("tenant", LARGE, held)
                assert error.value.limit == "large_requests_per_tenant_max"
        with ExitStack() as held:
            await requests.take("tenant", LARGE, held)

    asyncio.run(main())
