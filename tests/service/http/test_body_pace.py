"""A body that arrives too slowly gets 408, whatever the route does with it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from unittest import mock

from starlette.types import Message, Receive, Scope, Send

from service.http import middleware
from service.http.middleware import BodyPace

IDLE_S = 0.2


class InstantLoop(asyncio.SelectorEventLoop):
    """Its clock is moved to the next timer whenever nothing else can run, so that no stall of the process counts."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if timers and not self._ready:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, min(timers))
        super()._run_once()  # type: ignore[misc]


async def read_whole(receive: Receive) -> int:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    return size


class Client:
    """Sends `pieces`, each after its pause, and then nothing."""

    def __init__(self, pieces: Sequence[tuple[float, bytes]], *, ends: bool = False) -> None:
        self._messages = self._made(pieces, ends=ends)
        self.sent: list[Message] = []

    async def _made(self, pieces: Sequence[tuple[float, bytes]], *, ends: bool) -> AsyncIterator[Message]:
        for number, (pause_s, piece) in enumerate(pieces, start=1):
            await asyncio.sleep(pause_s)
            yield {"type": "http.request", "body": piece, "more_body": not (ends and number == len(pieces))}
        await asyncio.Event().wait()

    async def receive(self) -> Message:
        return await anext(self._messages)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def run(self, app: Any, *, bytes_per_s_min: int = 1000, path: str = "/any") -> None:
        with mock.patch.multiple(middleware, BODY_IDLE_S=IDLE_S, TRANSFER_BYTES_PER_S_MIN=bytes_per_s_min):
            pace = BodyPace(app)
        scope: Scope = {"type": "http", "path": path, "method": "POST", "headers": [], "state": {"request_id": "1"}}
        with asyncio.Runner(loop_factory=InstantLoop) as runner:
            runner.run(pace(scope, self.receive, self.send))


async def takes_it_whole(scope: Scope, receive: Receive, send: Send) -> None:
    await read_whole(receive)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_body_that_does_not_come_ends_as_408_and_closes() -> None:
    slow_drip = [(0.01, b"x")] * 10_000  # a tenth of the rate, without a pause
    for pieces in ([], [(0.0, b"x")], slow_drip):
        client = Client(pieces)
        client.run(takes_it_whole)
        start = client.sent[0]
        assert start["status"] == 408
        headers = dict(start["headers"])
        assert headers[b"content-type"] == b"application/problem+json"
        assert headers[b"connection"] == b"close"


def test_a_body_above_the_rate_may_take_longer_than_the_pause() -> None:
    client = Client([(IDLE_S / 4, b"x" * 100)] * 12, ends=True)
    client.run(takes_it_whole, bytes_per_s_min=1000)
    assert client.sent[0]["status"] == 200


def test_the_time_in_which_the_gateway_does_not_read_is_free() -> None:
    async def works_between(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.sleep(3 * IDLE_S)
        await takes_it_whole(scope, receive, send)

    client = Client([(0.0, b"x"), (0.0, b"x")], ends=True)

    client.run(works_between)

    assert client.sent[0]["status"] == 200


def test_an_answer_that_reads_no_body_ends_with_the_slow_body() -> None:
    ended = []

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (message := await receive())["type"] != "http.disconnect":
            continue
        ended.append(message)

    Client([(0.0, b"x")]).run(streams)

    assert ended


def test_a_stream_limits_its_pauses_itself() -> None:
    client = Client([(3 * IDLE_S, b"x")], ends=True)
    client.run(takes_it_whole, path="/sanitize/batch")
    assert client.sent[0]["status"] == 200
