"""What a request occupies is held until its answer has been sent, and a large answer is sent in pieces."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from exchange_kit import Exchange
from inprocess_kit import Gateway, module_gateway
from starlette.types import Message, Receive, Scope, Send

from service.http import exchange
from service.http.exchange import PIECE_BYTES

LARGE = orjson.dumps({"documents": [{"text": "All quiet. " * 7000}]})


single = module_gateway(LARGE_REQUESTS_PER_TENANT_MAX="1")


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 3 * PIECE_BYTES + 7])
def test_an_answer_of_any_size_arrives_whole_and_in_small_pieces(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    sent: list[Message] = []
    held: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["exchange"].held.callback(held.append, "released")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
        assert not held

    async def receive() -> Message:
        raise AssertionError("nothing reads the request")

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(exchange.Exchange({"type": "http"}, receive, send).run(app))
    assert held == ["released"]
    pieces = [message["body"] for message in sent[1:]]
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert len(pieces) == max(1, -(-size // PIECE_BYTES))
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(pieces) - 1) + [False]


def test_the_place_of_a_large_request_is_held_until_its_answer_was_read(single: Gateway) -> None:
    tenant = single.tenant()

    def ask_large() -> Exchange:
        made = Exchange(single, tenant.key, "POST", "/sanitize", media_type="application/json", size=len(LARGE))
        made.body.put_nowait(LARGE)
        made.body.put_nowait(None)
        return made

    async def ask() -> None:
        slow = ask_large()
        slow.reads = False
        await slow.begun()
        next_one = ask_large()
        small = Exchange(single, tenant.key, "GET", "/budget")
        await small.ended()
        assert not next_one.messages
        slow.read.set()
        await slow.ended()
        await next_one.ended()
        assert (slow.status, next_one.status) == (200, 200)

    single.on_loop(ask())
