"""Large requests of one tenant beyond its places wait; small ones and those of other tenants do not."""

import asyncio
from contextlib import ExitStack

import pytest
from starlette.datastructures import Headers

from core.errors import TenantLimitReached
from gpu_workers.engine.fairness import Turns
from service.admission import is_large

LARGE = Headers({"content-length": "1000000"})
SMALL = Headers({"content-length": "100"})
CHUNKED = Headers({"transfer-encoding": "chunked"})
EMPTY = Headers({})


def places(tenant_places: int, *, wait_s: float) -> Turns:
    return Turns(tenant_places=tenant_places, wait_s=wait_s, limit="large_requests_per_tenant_max")


async def take(requests: Turns, owner: str, headers: Headers, held: ExitStack) -> None:
    """As a route does that takes a body."""
    if is_large(headers):
        held.enter_context(await requests.wait(owner))


def test_a_tenant_beyond_its_places_waits_and_nobody_else_does() -> None:
    async def main() -> None:
        requests = places(2, wait_s=60)
        entered: list[str] = []
        leave = asyncio.Event()

        async def request(name: str, owner: str, headers: Headers) -> None:
            with ExitStack() as held:
                await take(requests, owner, headers, held)
                entered.append(name)
                await leave.wait()

        calls = [
            asyncio.create_task(request(name, owner, headers))
            for name, owner, headers in (
                ("first", "greedy", LARGE), ("second", "greedy", CHUNKED), ("third", "greedy", LARGE),
                ("small", "greedy", SMALL), ("empty", "greedy", EMPTY), ("other", "modest", LARGE),
            )
        ]  # fmt: skip
        for _ in range(3):
            await asyncio.sleep(0)
        assert entered == ["first", "second", "small", "empty", "other"]
        leave.set()
        await asyncio.gather(*calls)
        assert entered[-1] == "third"

    asyncio.run(main())


def test_a_request_that_waits_too_long_is_refused_and_frees_nothing() -> None:
    async def main() -> None:
        requests = places(1, wait_s=0.01)
        with ExitStack() as held:
            await take(requests, "tenant", LARGE, held)
            for _ in range(2):
                with pytest.raises(TenantLimitReached) as error:
                    await take(requests, "tenant", LARGE, held)
                assert error.value.limit == "large_requests_per_tenant_max"
        with ExitStack() as held:
            await take(requests, "tenant", LARGE, held)

    asyncio.run(main())
