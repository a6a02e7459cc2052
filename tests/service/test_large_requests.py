"""Large requests of one tenant beyond its places wait; small ones and those of other tenants do not."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import Request
from starlette.datastructures import Headers

from core.errors import TenantLimitReached
from gpu_workers.engine.fairness import Turns
from service.admission import LoadLimits, is_large
from service.config.settings import Settings
from service.http.body import take_large_place
from service.parts import Parts

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


def test_a_small_body_of_many_texts_takes_a_place_until_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        parts = Parts()
        limits = SimpleNamespace(large_requests=places(1, wait_s=0.01))
        parts.offer({Settings: lambda _: Settings(data_dir=tmp_path), LoadLimits: lambda _: limits})
        with ExitStack() as held:
            scope = {
                "type": "http",
                "headers": [(b"content-length", b"100")],
                "app": SimpleNamespace(state=SimpleNamespace(parts=parts)),
                "state": {"exchange": SimpleNamespace(held=held)},
            }
            for texts in (1, 256, 257, 256):
                await take_large_place(Request(scope), "tenant", texts=texts)
            with pytest.raises(TenantLimitReached):
                await take_large_place(Request(scope), "tenant", texts=2048)
            await take_large_place(Request(scope), "other", texts=2048)
        with ExitStack() as held:
            held.enter_context(await limits.large_requests.wait("tenant"))

    asyncio.run(main())
