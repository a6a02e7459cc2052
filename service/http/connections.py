"""Limits of connections, below the application: uvicorn limits none of these.

* How many are open, in total and from one address, or from one network of IPv6.
* How long a client may take to send the head of a request, or the rest of a body that the answer did not wait for.
  While a request is in work, `service/http/middleware.py` limits how slowly its body arrives.
* How large a head is, how many headers it has, and how many requests wait behind one another (pipelining).
* How slowly a client may read an answer.

A connection beyond a limit is closed. Where no answer has begun, it gets a problem document before.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http import problems
from service.http.middleware import TRANSFER_BYTES_PER_S_MIN
from service.http.strict import client_network

_HEADERS_MAX = 200
_PIPELINED_MAX = 16
_JOINED_BYTES_MAX = 64 * 1024


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections are open, by the settings of the same names, and what slow clients may do, which a reverse
    proxy can limit further."""

    connections_max: int
    connections_per_address_max: int
    # To send a head, or the rest of a body after its answer. A head is a few packets.
    request_head_s: float = 20.0
    request_head_bytes_max: int = 64 * 1024  # uvicorn has no limit; a key and cookies need less
    # The interval in which a client that reads an answer must read `transfer_bytes_per_s_min` bytes a second.
    answer_idle_s: float = 60.0
    transfer_bytes_per_s_min: int = TRANSFER_BYTES_PER_S_MIN


class _JoiningTransport:
    """A transport that sends small pieces of one turn of the event loop together: uvicorn writes the head of an answer
    and its body apart. Everything but writing is that of `transport`."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes | memoryview) -> None:
        if self._size + len(data) > _JOINED_BYTES_MAX:
            self._flush()
            self._transport.write(data)
            return
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(bytes(data))
        self._size += len(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        pieces, self._pieces, self._size = self._pieces, [], 0
        if pieces and not self._transport.is_closing():
            self._transport.write(b"".join(pieces))


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol for one connection, with limits. `open_by_address` is shared by all connections.

    It adds to what uvicorn's callbacks do and replaces nothing of them. No limit is left to a reverse proxy, because a
    gateway also runs without one.
    """

    def __init__(self, *arguments: Any, limits: ConnectionLimits, open_by_address: Counter[str], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._open_by_address = open_by_address
        self._address = ""
        self._head_bytes = 0  # received since the last complete head or piece of a body
        self._refusal = 400  # the status for what the parser rejects
        self._waiting: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _JoiningTransport(transport, self.loop)))
        self._address = client_network(self.client[0]) if self.client else ""
        self._open_by_address[self._address] += 1
        if (
            self._open_by_address.total() > self._limits.connections_max
            or self._open_by_address[self._address] > self._limits.connections_per_address_max
        ):
            self._refuse(problems.block(503, "too-many-connections", "Too many connections are open."))
        self._await_client()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_by_address[self._address] -= 1
        if self._open_by_address[self._address] == 0:
            del self._open_by_address[self._address]
        for timer in (self._waiting, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    # What the client sends

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_bytes > self._limits.request_head_bytes_max:
            self._refuse(problems.http_block(431))
        elif not self._in_work:
            self._await_client()
        elif self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _HEADERS_MAX:
            self._refusal = 431
            raise ValueError("too many headers")  # the parser stops, and `send_400_response` answers
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _PIPELINED_MAX:
            raise ValueError("too many pipelined requests")
        self._head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_work:
            self._await_client()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own answer is not a problem document
        self._refuse(problems.http_block(self._refusal))

    @property
    def _in_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, problem: dict[str, Any]) -> None:
        """Answer without the application, unless another answer is being sent, and close the connection."""
        if self._in_work:
            self.transport.abort()
            return
        content = orjson.dumps(problem)
        status = HTTPStatus(problem["status"])
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(content)}\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + content)
        self.transport.close()

    def _await_client(self) -> None:
        """Close the connection unless a request is in work within `request_head_s`. Further bytes give no more time."""
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._limits.request_head_s, self._waited)

    def _waited(self) -> None:
        self._waiting = None
        if self._unread is not None:
            self._await_client()  # the client still reads the last answer
        elif self.transport.is_closing():
            self.transport.abort()  # it did not read the last bytes either
        else:
            self.transport.close()
            self._await_client()

    # What the client reads

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _watch_reader(self) -> None:
        size = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self._limits.answer_idle_s, self._check_reader, size)

    def _check_reader(self, before: int) -> None:
        """Nothing is added to a full buffer, so it has shrunk by what the client has read."""
        self._unread = None
        read = before - self.transport.get_write_buffer_size()
        if read < self._limits.transfer_bytes_per_s_min * self._limits.answer_idle_s:
            self.transport.abort()
        else:
            self._watch_reader()
