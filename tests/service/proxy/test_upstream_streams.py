"""Streams of events from upstreams: every fault, and the end of the call when nobody reads on."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tiers import cells
from upstream_kit import (
    BODY,
    MIB,
    PATH,
    RawUpstream,
    Request,
    Script,
    answer,
    certificate,
    chunked,
    resolving,
    sends,
    with_upstream,
)

from core.errors import GatewayError, QueueFull, UpstreamAnswerInvalid, UpstreamTimeout, UpstreamUnreachable
from service.proxy.client import EventStream, StreamEvent, UpstreamAnswer, UpstreamClient
from service.proxy.upstreams import Upstream

KEY = "sk-canary-5f2c"
EVENTS = 'event: a\r\ndata: {"x": "Jürgen 🙂"}\r\n\r\n: ping\n\ndata: [DONE]\n\n'.encode()
READ = [StreamEvent("a", '{"x": "Jürgen 🙂"}'), StreamEvent("", "[DONE]")]


async def opened(client: UpstreamClient, called: Upstream) -> EventStream:
    found = await client.stream(called, PATH, BODY, {})
    assert isinstance(found, EventStream)
    return found


async def to_the_end(client: UpstreamClient, called: Upstream) -> None:
    await to_the_end_of(await opened(client, called))


async def to_the_end_of(stream: EventStream) -> None:
    async for _ in stream:
        pass


def read(*scripts: Script, given: Any = None, **limit: Any) -> tuple[list[StreamEvent], GatewayError | None]:
    """The events of a stream, and the error that ended it."""

    async def use(
        client: UpstreamClient, called: Upstream, _: RawUpstream
    ) -> tuple[list[StreamEvent], GatewayError | None]:
        events: list[StreamEvent] = []
        try:
            async with await opened(client, called) as stream:
                async for event in stream:
                    events.append(event)
        except GatewayError as error:
            return events, error
        return events, None

    found: tuple[list[StreamEvent], GatewayError | None] = with_upstream(list(scripts), use, given=given, **limit)
    return found


def calls_open() -> float | None:
    return REGISTRY.get_sample_value("gateway_upstream_calls_open", {"upstream": "stub"})


def events_answer(body: bytes, **headers: str) -> bytes:
    return answer(body, content_type="text/event-stream; charset=utf-8", **headers)


def test_framings_of_a_stream() -> None:
    wire, squeezed = chunked(EVENTS), events_answer(gzip.compress(EVENTS), content_encoding="gzip")
    for script in (
        *(sends(*(whole[at : at + 1] for at in range(len(whole)))) for whole in (wire, squeezed)),
        sends(events_answer(EVENTS)),
        sends(events_answer(EVENTS, content_length=""), then="close"),
    ):
        assert read(script) == (READ, None)


@pytest.mark.parametrize("ending", ["aclose", "cancel", "cancel before the head"])
def test_a_stream_that_nobody_reads_ends_the_upstream_s_work_at_once(ending: str) -> None:
    before = calls_open() or 0.0

    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> None:
        if ending == "cancel before the head":
            task = asyncio.create_task(client.stream(called, PATH, BODY, {}))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
        else:
            stream = await opened(client, called)
            assert await anext(stream) == READ[0]
            await anext(stream)
            if ending == "aclose":
                await stream.aclose()
            else:
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0.01)
                waiting.cancel()
                await asyncio.wait([waiting])
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        await asyncio.wait_for(server.ended.wait(), 20)
        assert calls_open() == before

    head = b"" if ending == "cancel before the head" else chunked(EVENTS, end=False)
    with_upstream([sends(head, then="hang")], use)


def test_a_stream_that_is_closed_beside_its_reader_ends_the_reader_with_an_error() -> None:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> None:
        stream = await opened(client, called)
        reading = asyncio.ensure_future(to_the_end_of(stream))
        await asyncio.sleep(0.05)
        await stream.aclose()
        with pytest.raises(UpstreamAnswerInvalid):
            await asyncio.wait_for(reading, 20)
        await asyncio.wait_for(server.ended.wait(), 20)

    with_upstream([sends(chunked(EVENTS, end=False), then="hang")], use)


def test_an_error_of_the_upstream_comes_in_place_of_the_stream() -> None:
    async def use(client: UpstreamClient, called: Upstream, _: RawUpstream) -> UpstreamAnswer | EventStream:
        return await client.stream(called, PATH, BODY, {})

    found = with_upstream([sends(answer(b'{"error": 1}', status="429 Slow", retry_after="5"))], use)

    assert isinstance(found, UpstreamAnswer)
    assert (found.status, found.headers["retry-after"], found.body) == (429, "5", b'{"error": 1}')


def test_a_stream_that_breaks_off_is_an_error_after_its_events() -> None:
    for script, given, kind, reason, events in [
        (sends(answer(b"{}")), {}, UpstreamAnswerInvalid, "content-type", 0),
        (sends(chunked(EVENTS, end=False), then="close"), {}, UpstreamAnswerInvalid, "framing", 2),
        (sends(events_answer(EVENTS, content_length="999"), then="close"), {}, UpstreamAnswerInvalid, "framing", 2),
        (sends(chunked(EVENTS, b"data: {")), {}, UpstreamAnswerInvalid, "incomplete", 2),
        (sends(chunked(EVENTS, end=False) + b"zz\r\n"), {}, UpstreamAnswerInvalid, "framing", 2),
        (sends(chunked(EVENTS, b"data: \xff\n\n")), {}, UpstreamAnswerInvalid, "not-utf-8", None),
        (sends(chunked(b"data: " + b"x" * 70_000)), {}, UpstreamAnswerInvalid, "event-too-large", 0),
        (sends(chunked(EVENTS, end=False), then="hang"), {"read_timeout_s": 2.0}, UpstreamTimeout, "silent", 2),
        (sends(then="close"), {}, UpstreamUnreachable, "closed", 0),
    ]:
        before = calls_open() or 0.0
        found, error = read(script, given=given)

        assert events is None or found == READ[:events]
        assert type(error) is kind
        assert getattr(error, "reason", "") == reason
        assert calls_open() == before


async def endless_comments(_: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(chunked(EVENTS, end=False))
    while True:
        writer.write(b"8\r\n: ping\n\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


def test_a_stream_that_never_ends_has_a_total_time() -> None:
    found, error = read(endless_comments, given={"total_timeout_s": 2.0, "read_timeout_s": 120.0})
    assert found == READ
    assert isinstance(error, UpstreamTimeout)
    assert error.reason == "total"


@pytest.mark.parametrize("form", cells(["one line", "many events", "many comments", "gzip", "whole answer"]))
def test_a_gigabyte_ends_at_the_limit(form: str) -> None:
    """The upstream is stopped after little more than the limit; buffers of the system hold some megabytes."""
    block = {"one line": b"x" * 65536, "many comments": b": ping\n\n" * 8192, "whole answer": b" " * 65536}
    part = block.get(form, b"data: x\n\n" * 8192)
    written = 0

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        content_type = "application/json" if form == "whole answer" else "text/event-stream"
        more = "content-encoding: gzip\r\n" if form == "gzip" else ""
        writer.write(chunked(content_type=content_type, end=False, more=more))
        body = gzip.compress(part * 128) if form == "gzip" else part
        while written < 1024 * MIB:
            writer.write(b"%x\r\n%s\r\n" % (len(body), body))
            await writer.drain()
            written += len(body)

    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> str:
        with pytest.raises(UpstreamAnswerInvalid) as caught:
            await (client.send(called, PATH, BODY, {}) if form == "whole answer" else to_the_end(client, called))
        await asyncio.wait_for(server.ended.wait(), 20)
        return caught.value.reason

    reason = with_upstream([script], use)

    assert reason == ("event-too-large" if form == "one line" else "too-large")
    assert written < 64 * MIB


def test_a_stream_that_was_read_to_its_end_leaves_its_connection_to_the_next() -> None:
    async def use(client: UpstreamClient, called: Upstream, server: RawUpstream) -> int:
        for _ in range(3):
            async with await opened(client, called) as stream:
                assert [event async for event in stream] == READ
        return server.connections

    assert with_upstream([sends(chunked(EVENTS))], use) == 1


def test_open_streams_count_as_calls_until_they_are_closed() -> None:
    async def use(client: UpstreamClient, called: Upstream, _: RawUpstream) -> None:
        stream = await opened(client, called)
        with pytest.raises(QueueFull):
            await client.stream(called, PATH, BODY, {})
        await stream.aclose()
        await stream.aclose()
        await (await opened(client, called)).aclose()

    with_upstream([sends(chunked(EVENTS, end=False), then="hang")], use, calls_max=1)


def test_a_stream_over_tls_and_a_key_that_it_repeats(tmp_path: Path) -> None:
    made = certificate(tmp_path, "models.example")

    async def use(client: UpstreamClient, called: Upstream, _: RawUpstream) -> list[StreamEvent]:
        async with await opened(client, called) as stream:
            return [event async for event in stream]

    scripts = [sends(chunked(f"data: {KEY}\n\n".encode()))]
    given = {"private_addresses": True, "ca_file": made.ca_file, "key": KEY}
    found = with_upstream(scripts, use, given=given, tls=made, resolve=resolving("127.0.0.1"))
    assert found == [StreamEvent("", "[key]")]
