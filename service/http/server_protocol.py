"""The HTTP/1.1 protocol of the server, with limits of what a request holds beside its body. uvicorn has none."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# A piece that the socket delivers at once, at most 256 KiB, may exceed it.
OVERHEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 128


class LimitedHttpProtocol(HttpToolsProtocol):
    """Answers 400 and closes the connection for more than `HEADERS_MAX` headers, and for more than
    `OVERHEAD_BYTES_MAX` bytes in a row that are no body: a request line, headers, chunk extensions, trailers."""

    _overhead_bytes = 0

    def on_message_begin(self) -> None:
        self._overhead_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS_MAX:
            raise ValueError("too many headers")  # the parser ends the connection
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._overhead_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._overhead_bytes = 0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._overhead_bytes += len(data)
        super().data_received(data)
        if self._overhead_bytes > OVERHEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
