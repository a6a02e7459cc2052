"""A spy on every ASGI `send`: when the first message of a charged answer leaves, its commit is in the ledger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from gateway_kit import DOCUMENT
from inprocess_kit import inline_engine

from core.amounts import epsilon_of
from core.errors import GatewayError
from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import socket_path
from core.ledger.ledger import Ledger
from service.app import create_app
from service.config.settings import Settings
from service.gateway import Gateway

READY_S_MAX = 120.0

Message = dict[str, Any]
Spy = Callable[[], Awaitable[Any]]


async def until_ready(gateway: Gateway) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while True:
        try:
            await gateway.readiness.check()
            return
        except GatewayError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def post(
    app: Any, path: str, key: str, body: Any, *, spy: Spy, headers: Mapping[str, str] | None = None
) -> tuple[list[Message], list[Any]]:
    """POST to the application as a server would: its messages, and what `spy` saw before each of them left."""
    messages: list[Message] = []
    seen: list[Any] = []
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    requests = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if requests:
            return requests.pop()
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: Message) -> None:
        seen.append(await spy())
        messages.append(message)

    names = {"authorization": f"Bearer {key}", "content-type": "application/json", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return messages, seen


def content(messages: list[Message]) -> Any:
    return orjson.loads(b"".join(message.get("body", b"") for message in messages))


async def check_stream(app: Any, key: str, second: Ledger) -> None:
    """Each message of a stream leaves when all rows up to its own are committed, and nothing else is held."""
    terms = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 0.25}}
    lines = b"\n".join(orjson.dumps(line) for line in [terms, *[{"text": "one two"}] * 5])

    async def amounts() -> tuple[float, float]:
        state = await second.account("acme", "acme/vector")
        return epsilon_of(state.committed.epsilon_nano), epsilon_of(state.reserved.epsilon_nano)

    headers = {"content-type": "application/x-ndjson"}
    messages, seen = await post(app, "/sanitize/batch", key, lines, spy=amounts, headers=headers)
    rows = 0
    for message, state in zip(messages, seen, strict=True):
        rows += message.get("body", b"").count(b'"release_id"')
        assert state == (0.25 * rows, 0.0)
    assert rows == 5
    assert len([message for message in messages if b"release_id" in message.get("body", b"")]) > 1, "several groups"


def test_the_first_message_leaves_after_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    settings = Settings(data_dir=tmp_path, stream_group_max=2)

    async def scenario() -> None:
        gateway = Gateway(settings, engine=inline_engine(settings))
        second = Ledger(LedgerClient(connect(socket_path=socket_path(tmp_path))), gateway.master_key)

        async def amounts() -> tuple[float, float]:
            state = await second.account("acme", "acme/sentence")
            return epsilon_of(state.committed.epsilon_nano), epsilon_of(state.reserved.epsilon_nano)

        try:
            await gateway.start()
            await until_ready(gateway)
            app = create_app(gateway)
            admin_key = (tmp_path / "admin.key").read_text().strip()
            tenant = {"name": "acme", "epsilon": 10}
            opened, _ = await post(app, "/admin/tenants", admin_key, tenant, spy=second.tenants)
            key = content(opened)["key"]
            committed = 0.0
            for documents, headers, cost in (
                ([{"text": DOCUMENT}], {"idempotency-key": "one"}, 1.0),
                ([{"text": DOCUMENT}] * 4, {}, 4.0),
                ([{"text": DOCUMENT}], {"idempotency-key": "one"}, 0.0),  # the stored answer
            ):
                body = {"documents": documents, "epsilon": 1.0}
                messages, seen = await post(app, "/embed/sentdp", key, body, spy=amounts, headers=headers)
                committed += cost
                assert messages[0]["type"] == "http.response.start"
                assert messages[0]["status"] == 200
                assert seen == [(committed, 0.0)] * len(messages)
                assert len(content(messages)["data"]) == len(documents)
            await check_stream(app, key, second)
        finally:
            await second.close()
            await gateway.stop()

    asyncio.run(scenario())
