"""Answers of upstreams, restored for the client: whole ones, errors, and streams."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import orjson
from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from core.errors import GatewayError, UpstreamAnswerInvalid
from service.http import problems
from service.http.exchange import OpenStream
from service.http.ndjson import LineStream
from service.preparation import Preparation
from service.proxy.client import EventStream, UpstreamAnswer
from service.proxy.dialects.protocol import Event
from service.proxy.restorers import MappingRestorers
from service.proxy.service import OutgoingCall

JSON = "application/json"
EVENTS = "text/event-stream"
_RESTORE_WORK = 4  # the time to restore a byte, against one of plain JSON
_NOT_REPEATED = ("content-type", "content-length")


async def whole(answer: UpstreamAnswer, request: OutgoingCall, preparation: Preparation, *, tenant: str) -> Response:
    """A whole answer, or an upstream's error, restored. Raises UpstreamAnswerInvalid for a body that is not JSON, and
    as `Keeping.answered`."""
    body, answer_id, said = await preparation.run(tenant, _RESTORE_WORK * len(answer.body), _restored, answer, request)
    if request.keeping is not None:
        await request.keeping.answered(answer_id, said)
    return Response(body, status_code=answer.status, headers=shown(answer.headers), media_type=JSON)


def shown(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an upstream's answer that go on, with a body of our own."""
    return {name: value for name, value in headers.items() if name not in _NOT_REPEATED}


def _restored(answer: UpstreamAnswer, request: OutgoingCall) -> tuple[bytes, str | None, str]:
    """The body, the identifier by which the answer may be continued, and what it says, as the upstream wrote it."""
    restorers = MappingRestorers(request.surrogates, request.pseudonyms)
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        if not answer.is_error:
            raise UpstreamAnswerInvalid(reason="content-type") from None
        body = {"error": {"message": answer.body.decode(errors="replace"), "type": "upstream_error"}}
    if answer.is_error:
        request.dialect.restore_error(body, restorers)
        return orjson.dumps(body), None, ""
    said = request.dialect.said(body)
    request.dialect.restore(body, restorers, structured=request.structured)
    return orjson.dumps(body), request.dialect.answer_id(body), said


async def events(stream: EventStream, request: OutgoingCall, open_: OpenStream) -> AsyncGenerator[bytes, None]:
    """The events of a stream, restored. A failure after the first byte is an event, which ends the stream."""
    restorers = MappingRestorers(request.surrogates, request.pseudonyms)
    restorer = request.dialect.stream(restorers, structured=request.structured)
    async with stream:
        try:
            while (event := await _next(stream, open_)) is not None:
                name, data = _parsed(event.name, event.data)
                if request.keeping is not None:
                    await request.keeping.answered(request.dialect.answer_id(data), request.dialect.said(data))
                for written in restorer.event(name, data):
                    yield _written(written)
        except (GatewayError, HTTPException) as error:
            for written in restorer.end():
                yield _written(written)
            yield _written(error_event(problems.block_of(error), request.dialect.path))
            return
        for written in restorer.end():
            yield _written(written)


async def _next(stream: EventStream, open_: OpenStream) -> Any:
    """The next event; None at the end. Raises what ends the answer: the end of its key, or of the gateway."""
    if open_.error is not None:
        raise open_.error
    arriving: asyncio.Task[Any] = asyncio.ensure_future(anext(stream, None))
    ended = asyncio.create_task(open_.ended.wait())
    try:
        await asyncio.wait({arriving, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not arriving.done() and open_.error is not None:
            raise open_.error
        return await arriving
    finally:
        ended.cancel()
        arriving.cancel()


class EventAnswer(LineStream):
    """A stream of events that ends, with the call of the upstream, when its client closes the connection."""

    def __init__(self, stream: AsyncGenerator[bytes, None], *, idle_s: float) -> None:
        super().__init__(stream, idle_s=idle_s, media_type=EVENTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(super().__call__(scope, receive, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def error_event(problem: dict[str, Any], path: str) -> Event:
    """The event by which the SDKs of a format learn of an error in a stream."""
    if path == problems.ANTHROPIC_PATH:
        return "error", problems.anthropic_body(problem)
    return "error", problems.openai_body(problem)


def _parsed(name: str, data: str) -> Event:
    try:
        return name or None, orjson.loads(data)
    except orjson.JSONDecodeError:
        return name or None, data


def _written(event: Event) -> bytes:
    name, data = event
    text = data if isinstance(data, str) else orjson.dumps(data).decode()
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"{f'event: {name}' + chr(10) if name else ''}{lines}\n".encode()
