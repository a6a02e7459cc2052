"""Which requests take a place of those that a tenant has for large ones: by their body, and by their texts."""

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


def test_a_large_body_and_one_of_unknown_length_are_large() -> None:
    for headers, large in (
        ({"content-length": "1000000"}, True), ({"content-length": "100"}, False),
        ({"transfer-encoding": "chunked"}, True), ({}, False),
    ):  # fmt: skip
        assert is_large(Headers(headers)) == large


def test_a_small_body_of_many_texts_takes_a_place_until_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        parts = Parts()
        limits = SimpleNamespace(
            large_requests=Turns(tenant_places=1, wait_s=0.01, limit="large_requests_per_tenant_max")
        )
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
