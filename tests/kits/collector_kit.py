"""A collector of OpenTelemetry for tests: an HTTP server that parses what it receives, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """`with` it. `spans`: all that were received, with no message lost between them. `status`: its answer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.raw: list[bytes] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.receive(body, dict(self.headers))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector", daemon=True)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def receive(self, body: bytes, headers: dict[str, str]) -> None:
        message = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.headers.append(headers)
            self.raw.append(body)
            if self.status != 200:
                return
            for group in message.resource_spans:
                self.resources.append({each.key: each.value.string_value for each in group.resource.attributes})
                for scope in group.scope_spans:
                    self.spans += scope.spans

    def until(self, condition: Callable[[list[Span]], Any], within_s: float = 300.0) -> list[Span]:
        """The spans, once they fulfil a condition."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with self._lock:
                found = list(self.spans)
            if condition(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not among {sorted({span.name for span in found})}")

    def trace_of(self, name: str) -> list[Span]:
        """The spans of the last trace whose first span has this name, once it has ended."""
        spans = self.until(lambda found: any(span.name == name for span in found))
        trace_id = [span.trace_id for span in spans if span.name == name][-1]
        return [span for span in spans if span.trace_id == trace_id]


def attributes(span: Span) -> dict[str, str | int]:
    """The attributes of a span."""
    return {
        each.key: each.value.int_value if each.value.HasField("int_value") else each.value.string_value
        for each in span.attributes
    }
