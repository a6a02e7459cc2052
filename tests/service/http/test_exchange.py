"""What a request occupies is held until its answer has been sent, and no longer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from exchange_kit import Exchange
from inprocess_kit import Gateway, module_gateway
from kept_kit import Request, assert_lets_go
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.types import Message, Receive, Scope, Send

from core.errors import InvalidInput
from gpu_workers.engine.fairness import MemoryShares
from service.config.settings import Settings
from service.http.exchange import OpenStream, OpenStreams, StreamGuard
from service.http.ndjson import LineReader, LineStream
from service.proxy.answers import EventAnswer

LARGE = orjson.dumps({"documents": [{"text": "All quiet. " * 7000}]})


single = module_gateway(changes={"large_requests_per_tenant_max": 1})


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


async def silent() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def ignored(_: Message) -> None:
    pass


async def fails_at_work(request: Request) -> None:
    async def work(_: Request) -> None:
        raise InvalidInput("wrong")

    await OpenStream().finished(work(request), abandon=lambda: None)


async def sends_too_many_lines(request: Request) -> None:
    async def lines() -> Message:
        return {"type": "http.request", "body": b"{}\n" * 5, "more_body": True}

    class FewLines(Settings):
        stream_lines_max = 3  # type: ignore[misc]

    memory = MemoryShares(bytes_max=1000, owner_bytes_max=1000, limit="a_setting").opened("tenant")
    reader = LineReader(HttpRequest({"type": "http", "request": request}, lines), FewLines(), memory)
    try:
        while True:
            await reader.take(10, stream=OpenStream())
    finally:
        reader.close()


async def guarded(request: Request, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
    async def refusal(_: Any) -> HTTPException:
        return HTTPException(401)

    guard = StreamGuard(app, streams=OpenStreams(refusal, interval_s=0.01))
    await guard({"type": "http", "state": {}, "request": request}, silent, ignored)


async def fails(request: Request) -> None:
    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise InvalidInput("wrong")

    await guarded(request, app)


@pytest.mark.parametrize("call", [fails_at_work, sends_too_many_lines, fails])
def test_a_request_that_fails_is_let_go_at_once(call: Callable[[Request], Awaitable[None]]) -> None:
    asyncio.run(assert_lets_go(call, InvalidInput))


def test_no_line_is_made_for_a_client_that_has_left() -> None:
    made = 0

    async def endless() -> AsyncGenerator[bytes, None]:
        nonlocal made
        while True:
            made += 1
            yield b"{}\n"
            await asyncio.sleep(0)

    async def main() -> None:
        messages = [{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}]

        async def receive() -> Message:
            await asyncio.sleep(0)
            return messages.pop(0)

        async with asyncio.timeout(60):
            await LineStream(endless(), idle_s=60)({"type": "http", "method": "GET"}, receive, ignored)

    asyncio.run(main())
    assert made < 20


async def left() -> Message:
    return {"type": "http.disconnect"}


async def blocked(_: Message) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("kind", "receive", "send"),
    [(LineStream, silent, blocked), (EventAnswer, left, ignored), (EventAnswer, left, blocked)],
)
def test_an_answer_that_is_cut_off_at_its_head_gives_back_what_it_holds(
    kind: type[LineStream], receive: Receive, send: Send
) -> None:
    given_back = []

    async def lines() -> AsyncGenerator[bytes, None]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            await asyncio.sleep(0)
            given_back.append(True)

    async def main() -> None:
        sending = asyncio.ensure_future(kind(lines(), idle_s=60)({"type": "http", "method": "GET"}, receive, send))
        await asyncio.sleep(0.05)
        sending.cancel()
        await asyncio.wait({sending})
        await asyncio.sleep(0.05)
        assert given_back == [True]

    asyncio.run(main())
