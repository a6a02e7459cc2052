"""A spy on every ASGI `send`: when the first message of a charged answer leaves, its commit is in the ledger."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from gateway_kit import DOCUMENT

from core.amounts import epsilon_of
from core.errors import GatewayError
from core.ledger.embedded import socket_path
from core.ledger.ledger import Ledger
from service.app import create_app
from service.house import House
from service.ledger_access import build_ledger
from service.settings import Settings
from service.tenants import TenantPlan, open_tenant

READY_S_MAX = 120.0

# each message that was sent, with what the ledger held as committed and as reserved just before
Sent = list[tuple[dict[str, Any], tuple[float, float]]]


async def until_ready(here: House) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while True:
        try:
            await here.check_ready()
            return
        except GatewayError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def post(app: Any, ledger: Ledger, tenant: str, key: str, body: bytes, headers: dict[str, str]) -> Sent:
    """POST to the application as a server would, with a spy where its answer leaves."""
    sent: Sent = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if requests:
            return requests.pop()
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        state = await ledger.account(tenant, f"{tenant}/sentence")
        sent.append((message, (epsilon_of(state.committed.epsilon_nano), epsilon_of(state.reserved.epsilon_nano))))

    names = {"authorization": f"Bearer {key}", "content-type": "application/json"} | headers
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/embed/sentdp",
        "raw_path": b"/embed/sentdp",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return sent


def test_the_first_message_leaves_after_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    settings = Settings(data_dir=tmp_path)

    async def scenario() -> None:
        here = House(settings)
        second, _ = build_ledger(settings, here.master_key, socket=socket_path(tmp_path))
        try:
            await here.open()
            key = await open_tenant(here.ledger, here.keys, TenantPlan(name="acme", epsilon=10))
            await until_ready(here)
            app = create_app(here)
            committed = 0.0
            for documents, headers, cost in (
                ([{"text": DOCUMENT}], {"idempotency-key": "one"}, 1.0),
                ([{"text": DOCUMENT}] * 4, {}, 4.0),
                ([{"text": DOCUMENT}], {"idempotency-key": "one"}, 0.0),  # the stored answer
            ):
                body = orjson.dumps({"documents": documents, "epsilon": 1.0})
                sent = await post(app, second, "acme", key, body, headers)
                committed += cost
                assert sent[0][0]["type"] == "http.response.start"
                assert sent[0][0]["status"] == 200
                assert [amounts for _, amounts in sent] == [(committed, 0.0)] * len(sent)
                answer = orjson.loads(b"".join(message.get("body", b"") for message, _ in sent))
                assert len(answer["data"]) == len(documents)
        finally:
            await second.close()
            await here.close()

    asyncio.run(scenario())
