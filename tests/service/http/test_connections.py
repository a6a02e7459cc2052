"""Requests as bytes on a socket: limits of connections and heads, and what is not HTTP. A real server, and an
application of a few lines."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from service.http.connections import ConnectionLimits, LimitedProtocol

HANG_S = 120.0  # a guard: nothing below takes as long
BIG = 16 * 1024 * 1024
HEAD = b"POST /size HTTP/1.1\r\nHost: g\r\n"
LONG = 20_000  # more than a head may have


class App:
    """Answers at once and reads no body. `/big`: more than the buffers of a connection hold. `/wait`: reads on.
    `/size`: reads the body, and answers its size."""

    def __init__(self) -> None:
        self.stream_ended = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/size":
            await self._size(receive, send)
            return
        size = BIG if scope["path"] == "/big" else 2
        headers = [(b"content-length", str(size).encode())] if scope["path"] != "/stream" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/wait":
            await self._until_gone(receive)
        elif scope["path"] == "/stream":
            await self._endless(receive, send)
        else:
            await send({"type": "http.response.body", "body": b"." * size})

    async def _size(self, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more and (message := await receive())["type"] == "http.request":
            size += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
        await send({"type": "http.response.body", "body": b"%8d" % size})

    async def _endless(self, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._until_gone(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b"." * 65536, "more_body": True})
            await asyncio.sleep(0)
        self.stream_ended.set()

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


class Running:
    def __init__(self, **limits: Any) -> None:
        defaults = {
            "connections_max": 100, "connections_per_address_max": 100, "request_head_s": 0.3,
            "request_head_bytes_max": 8192, "answer_idle_s": 0.3, "transfer_bytes_per_s_min": 1024,
        }  # fmt: skip
        self.app = App()
        self.open: Counter[str] = Counter()
        protocol = partial(LimitedProtocol, limits=ConnectionLimits(**(defaults | limits)), open_by_address=self.open)
        config = uvicorn.Config(
            self.app, host="127.0.0.1", port=0, http=protocol, ws="none", lifespan="off", log_config=None
        )
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        while not self.server.started:
            time.sleep(0.002)
        self.address = self.server.servers[0].sockets[0].getsockname()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=HANG_S)

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(HANG_S)


@contextlib.contextmanager
def running(**limits: Any) -> Iterator[Running]:
    server = Running(**limits)
    try:
        yield server
    finally:
        server.stop()


def until_closed(client: socket.socket) -> bytes:
    """Everything until the gateway closes; a reset counts as a close."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(1 << 20):
            received += data
    return received


def status_and_code(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    return int(head.split()[1]), json.loads(body)["code"]


def test_a_head_that_does_not_end_closes_the_connection() -> None:
    with running() as server:
        for sent in (b"", b"GET / HTTP/1.1\r\nHo", b"\r\n\r\n"):
            with server.connect() as client:
                client.sendall(sent)
                assert until_closed(client) == b""


def test_a_slow_head_gets_no_more_time_by_further_bytes() -> None:
    with running() as server, server.connect() as client:
        client.settimeout(0.02)
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        closed = False
        try:
            for _ in range(int(HANG_S / 0.02)):
                client.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    closed = client.recv(1) == b""
                    break
        except ConnectionError:
            closed = True
        assert closed


def test_a_connection_that_waits_for_its_next_request_or_the_rest_of_a_body_is_closed() -> None:
    with running(request_head_s=1.0) as server:
        for rest in (b"", b"GET / HTTP/1.1\r\n"):
            with server.connect() as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: g\r\n\r\n")
                assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
                client.sendall(rest)
                assert not until_closed(client).startswith(b"HTTP")
        with server.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 268435456\r\n\r\nx")
            assert until_closed(client).startswith(b"HTTP/1.1 200")


BAD_HEADS = {
    "a long header": (b"GET / HTTP/1.1\r\nHost: g\r\nX: " + b"x" * LONG, 431, "headers-too-large"),
    "many headers": (b"GET / HTTP/1.1\r\nHost: g\r\n" + b"a: b\r\n" * 300 + b"\r\n", 431, "headers-too-large"),
    "a long name": (HEAD + b"A" * LONG, 431, "headers-too-large"),
    "a long path": (b"GET /" + b"a" * LONG, 431, "headers-too-large"),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "malformed"),
    "a length that is no number": (HEAD + b"Content-Length: x\r\n\r\n", 400, "malformed"),
    "a length beyond 64 bits": (HEAD + b"Content-Length: 99999999999999999999999999\r\n\r\n", 400, "malformed"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "malformed"),
    "a length and chunks": (HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "malformed"),
}


def test_a_head_that_cannot_be_taken_gets_a_problem_document_and_ends_the_connection() -> None:
    with running(request_head_s=HANG_S) as server:
        for case, (sent, *expected) in BAD_HEADS.items():
            with server.connect() as client:
                client.sendall(sent)
                assert status_and_code(until_closed(client)) == tuple(expected), case


def test_what_a_body_has_beside_its_bytes_is_limited() -> None:
    with running() as server:
        for endless in (b"1;a=", b"0\r\na: "):  # an extension of a chunk, a trailer
            with server.connect() as client:
                client.sendall(b"POST /wait HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n" + endless)
                sent = 0
                with contextlib.suppress(ConnectionError):
                    while sent < BIG:
                        client.sendall(b"x" * 65536)
                        sent += 65536
                assert sent < BIG


def test_pipelined_requests_are_answered_in_order_and_limited() -> None:
    sizes = [*range(12), 3_000_000]
    with running(request_head_s=2.0) as server, server.connect() as client:
        client.sendall(b"".join(HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * size for size in sizes))
        client.sendall(b"GET / HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
        *answers, last = until_closed(client).split(b"HTTP/1.1 200")[1:]
        assert [int(answer[-8:]) for answer in answers] == sizes
        assert last.endswith(b"..")
    with running() as server, server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: g\r\n\r\n" * 5000)
        assert until_closed(client).count(b"HTTP/1.1 200") < 100


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_address_max"])
def test_open_connections_are_limited_and_free_again(limit: str) -> None:
    with running(**{limit: 2}, request_head_s=HANG_S) as server:
        first, second = server.connect(), server.connect()
        while server.open.total() < 2:
            time.sleep(0.002)
        with server.connect() as third:
            assert status_and_code(until_closed(third)) == (503, "too-many-connections")
        first.close()
        while server.open.total() > 1:
            time.sleep(0.002)
        with server.connect() as fourth:
            fourth.sendall(b"GET / HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
            assert until_closed(fourth).startswith(b"HTTP/1.1 200")
        second.close()


class Peer(asyncio.Transport):
    """A transport with a client at an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self.closed = False

    def write(self, data: object) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_the_addresses_of_one_network_of_ipv6_count_as_one() -> None:
    async def main() -> list[bool]:
        config = uvicorn.Config(App(), http=LimitedProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        limits, opened = ConnectionLimits(connections_max=100, connections_per_address_max=2), Counter[str]()
        refused = []
        for address in ("2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1", "192.0.2.1"):
            protocol = LimitedProtocol(
                config, server_state=uvicorn.server.ServerState(), app_state={}, limits=limits, open_by_address=opened
            )
            peer = Peer(address)
            protocol.connection_made(peer)
            refused.append(peer.closed)
        return refused

    assert asyncio.run(main()) == [False, False, True, False, False]


def test_a_stream_whose_client_does_not_read_ends() -> None:
    with running() as server, server.connect() as client:
        client.sendall(b"GET /stream HTTP/1.1\r\nHost: g\r\n\r\n")
        assert server.app.stream_ended.wait(HANG_S)


@pytest.mark.parametrize("path", [b"/big", b"/"])
def test_an_answer_that_is_not_read_does_not_keep_its_connection(path: bytes) -> None:
    with running() as server, server.connect() as client:
        client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: g\r\n\r\n")
        for _ in range(int(HANG_S * 100)):
            if not server.open and server.server.server_state.total_requests:
                break
            time.sleep(0.01)
        assert not server.open


def test_a_large_answer_may_take_longer_than_the_pause() -> None:
    with running(answer_idle_s=2.0, transfer_bytes_per_s_min=1) as server, server.connect() as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
        received = pauses = 0
        while data := client.recv(1 << 20):
            received += len(data)
            if received > pauses * BIG // 50:
                pauses += 1
                time.sleep(0.06)
        assert received > BIG
