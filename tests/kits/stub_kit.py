"""What the stubs of other services share: an HTTP server on this machine, in a thread of the test."""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = BaseHTTPRequestHandler


class StubServer:
    """A subclass answers each request in `serve`. `origin` is the address. `with` it, or `stop` it."""

    protocol_version = "HTTP/1.0"

    def __init__(self, port: int = 0) -> None:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = stub.protocol_version

            def do_POST(self) -> None:
                stub.serve(self)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._server = Server(("127.0.0.1", port), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, request: Request) -> None:
        raise NotImplementedError


def body_of(request: Request) -> bytes:
    return request.rfile.read(int(request.headers.get("content-length", 0)))


def headers_of(request: Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def answer(request: Request, body: bytes = b"", *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
    request.send_response(status)
    for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)
