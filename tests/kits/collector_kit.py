"""A collector of OpenTelemetry for tests: an HTTP server that parses what it receives, and keeps the spans."""

import gzip
import threading
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from stub_kit import Request, StubServer, answer, body_of
from wait_kit import until


class Collector(StubServer):
    """`spans`: all that were received, with no message lost between them. `status`: its answer."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.raw: list[bytes] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self._lock = threading.Lock()
        super().__init__()
        self.endpoint = f"{self.origin}/v1/traces"

    def serve(self, request: Request) -> None:
        body = body_of(request)
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        message = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.headers.append(dict(request.headers))
            self.raw.append(body)
            for group in message.resource_spans if self.status == 200 else ():
                self.resources.append({each.key: each.value.string_value for each in group.resource.attributes})
                for scope in group.scope_spans:
                    self.spans += scope.spans
        answer(request, status=self.status)

    def until(self, condition: Callable[[list[Span]], Any]) -> list[Span]:
        """The spans, once they fulfil a condition."""
        until(lambda: condition(list(self.spans)), "such spans were not received")
        return list(self.spans)

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
