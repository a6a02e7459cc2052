"""Streams of language models end with their client, with their key and with the gateway, and fail closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from gateway_kit import Gateway
from upstream_kit import RawUpstream, answer, chunked, sends

FIRST = b'data: {"choices": [{"index": 0, "delta": {"content": "Hello. "}, "finish_reason": null}]}\n\n'
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "I am Maria Keller."}]}


@contextmanager
def gateway_before(upstream: RawUpstream, folder: Path, **settings: str) -> Iterator[Gateway]:
    served = {"raw": {"base_url": upstream.url, "kind": "openai", "models": ["m"], "read_timeout_s": 20}}
    environment = {"PRIVACY_GATEWAY_UPSTREAMS": json.dumps(served)}
    gateway = Gateway(
        folder / "data", environment | {f"PRIVACY_GATEWAY_{name}": text for name, text in settings.items()}
    )
    try:
        yield gateway
    finally:
        gateway.stop()


def asking(gateway: Gateway, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


@pytest.mark.slow("process")
def test_a_stream_ends_with_its_client_and_with_its_key(tmp_path: Path) -> None:
    async def run() -> None:
        hanging = sends(chunked(FIRST, end=False), then="hang")
        async with RawUpstream([hanging]) as upstream:
            with gateway_before(upstream, tmp_path, STREAM_KEY_CHECK_S="0.2") as gateway:
                tenant = await asyncio.to_thread(gateway.tenant)
                async with asking(gateway, tenant.key) as client:
                    async with client.stream("POST", "/v1/chat/completions", json=BODY) as stream:
                        assert "Hello" in await anext(stream.aiter_text())
                    await asyncio.wait_for(upstream.ended.wait(), 30)

                    upstream.ended.clear()
                    async with client.stream("POST", "/v1/chat/completions", json=BODY) as stream:
                        lines = stream.aiter_lines()
                        assert "Hello" in await anext(lines)
                        key_id = tenant.key.split("_")[1]
                        revoked = await asyncio.to_thread(
                            gateway.admin.delete, f"/admin/tenants/{tenant.name}/keys/{key_id}"
                        )
                        assert revoked.status_code in (200, 204), revoked.text
                        rest = [line async for line in lines]
                    assert "event: error" in rest
                    assert any("unauthorized" in line for line in rest)
                    await asyncio.wait_for(upstream.ended.wait(), 30)

    asyncio.run(run())


@pytest.mark.slow("process")
def test_an_upstream_that_fails_is_an_error_and_nothing_is_repeated(tmp_path: Path) -> None:
    async def run() -> None:
        scripts = [
            sends(chunked(FIRST, end=False), then="abort"),
            sends(then="close"),
            sends(answer(b"<p>Maria</p>", content_type="text/html")),
            sends(answer(b"{", content_type="application/json")),
        ]
        async with RawUpstream(scripts) as upstream:
            with gateway_before(upstream, tmp_path) as gateway:
                tenant = await asyncio.to_thread(gateway.tenant)
                async with asking(gateway, tenant.key) as client:
                    async with client.stream("POST", "/v1/chat/completions", json=BODY) as stream:
                        lines = [line async for line in stream.aiter_lines()]
                    assert "Hello" in lines[0]
                    assert "event: error" in lines
                    for code in ("upstream-unreachable", "upstream-answer-invalid", "upstream-answer-invalid"):
                        failed = await client.post("/v1/chat/completions", json=BODY | {"stream": False})
                        assert failed.status_code == 502
                        assert failed.json()["error"]["code"] == code
                        assert "Maria" not in failed.text
                assert len(upstream.requests) == len(scripts)
                assert all(b"Maria" not in request.body for request in upstream.requests)

    asyncio.run(run())
