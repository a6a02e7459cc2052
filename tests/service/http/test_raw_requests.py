"""Requests as bytes on a socket: what is beside a body is limited, and what is not HTTP gets 400."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import uvicorn

from service.http.connections import ConnectionLimits, LimitedProtocol

HEADERS_MAX, OVERHEAD_BYTES_MAX, PIPELINED = 200, 64 * 1024, 12
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
ONE_PIECE = 512 * 1024  # more than the socket delivers at once


LIMITS = ConnectionLimits(
    connections_max=100,
    connections_per_address_max=100,
    request_head_s=120.0,
    request_head_bytes_max=OVERHEAD_BYTES_MAX,
    answer_idle_s=120.0,
    transfer_bytes_per_s_min=1,
)


async def _app(scope: Any, receive: Any, send: Any) -> None:
    size = 0
    while (message := await receive())["type"] == "http.request":
        size += len(message["body"])
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
    await send({"type": "http.response.body", "body": b"%8d" % size})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(
        _app,
        port=0,
        http=partial(LimitedProtocol, limits=LIMITS, open_by_address=Counter()),
        ws="none",
        lifespan="off",
        log_level="error",
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


def _sent(port: int, content: bytes) -> bytes:
    """What the server answers to these bytes until it ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        with contextlib.suppress(OSError):  # the server may close it while this sends
            connection.sendall(content)
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except ConnectionResetError:
            pass
        return found


def test_a_usual_request_and_a_large_body_pass(port: int) -> None:
    body = b"x" * 3_000_000
    answer = _sent(port, HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"3000000")


def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    requests = b"".join(HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * size for size in range(PIPELINED))

    answer = _sent(port, requests + HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n")

    sizes = [int(part[-8:]) for part in answer.split(b"HTTP/1.1 200")[1:] if part[-8:].strip()]
    assert sizes == [*range(PIPELINED), 0]


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"A: b\r\n" * (HEADERS_MAX + 1),
        HEAD + b"A: " + b"b" * (OVERHEAD_BYTES_MAX + ONE_PIECE),
        HEAD + b"A" * (OVERHEAD_BYTES_MAX + ONE_PIECE),
        b"GET /" + b"a" * (OVERHEAD_BYTES_MAX + ONE_PIECE),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"e" * (OVERHEAD_BYTES_MAX + ONE_PIECE),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: " + b"t" * (OVERHEAD_BYTES_MAX + ONE_PIECE),
        b"\x16\x03\x01 not HTTP at all\r\n\r\n",
        HEAD + b"Content-Length: x\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999999999\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=[
        "too many headers",
        "a long value",
        "a long name",
        "a long path",
        "a long chunk extension",
        "a long trailer",
        "not HTTP",
        "a length that is no number",
        "a length beyond 64 bits",
        "two lengths",
        "a length and chunks",
    ],
)
def test_a_head_beyond_the_limits_ends_the_connection(port: int, head: bytes) -> None:
    answer = _sent(port, head)

    assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431"), answer[:100]
