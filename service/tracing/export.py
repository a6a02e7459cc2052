"""Sends spans to a collector of OpenTelemetry, from a thread of its own.

Guarantee: a request never waits for the collector and never fails because of it. The queue is bounded; what does not
fit, and what the collector does not take, is dropped and counted in `gateway_trace_spans_total`. The environment
(`OTEL_*`) is not read, and no provider is set for other libraries, whose spans could hold text.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections import deque
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from core import spans
from core.spans import SpanRef, TraceSpan
from service import metrics
from service.config.settings import TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger("privacy_gateway.tracing")

STOP_S_MAX = 5.0
QUEUE_SPANS_MAX = 8192  # that wait for the collector: some 2 MB
BATCH_SPANS_MAX = 512  # of one message
INTERVAL_S = 2.0  # longest time between two messages while spans wait
TIMEOUT_S = 10.0  # of one message with its repetitions
SPANS_PER_REQUEST_MAX = 128
_SCOPE = "privacy-gateway"


class SpanExport:
    """The `Sink` of `core.spans`. `stop` sends what is left, for a few seconds at most."""

    def __init__(self, settings: TracingSettings, exporter: SpanExporter | None = None) -> None:
        """`exporter`: by default that of the settings. Raises ValueError where the extra `otel` is not installed."""
        self._exporter = exporter or _exporter(settings)
        self._readable = _Conversion(settings.traces_service_name)
        self._queue: deque[TraceSpan] = deque()
        self._sample_ratio = settings.traces_sample_ratio
        self._wake = threading.Event()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """Record and send the spans of this process from now on."""
        self._thread.start()
        spans.install(self, sample_ratio=self._sample_ratio, per_trace_max=SPANS_PER_REQUEST_MAX)

    def stop(self) -> None:
        """Send what is queued and end the thread. Blocks for at most `STOP_S_MAX`."""
        spans.uninstall(self)
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_S_MAX)
        with contextlib.suppress(Exception):
            self._exporter.shutdown()  # ends the attempts of an export that still runs

    def ended(self, span: TraceSpan) -> None:
        if len(self._queue) >= QUEUE_SPANS_MAX:
            metrics.TRACE_SPANS.labels("queue-full").inc()
            return
        self._queue.append(span)
        if len(self._queue) == BATCH_SPANS_MAX:
            self._wake.set()

    def limited(self) -> None:
        metrics.TRACE_SPANS.labels("limit").inc()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(INTERVAL_S)
            self._wake.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_SPANS_MAX))]
            try:
                result = self._exporter.export([self._readable(span) for span in batch])
                sent, reason = result.name == "SUCCESS", result.name
            except Exception as error:  # its text could hold what the collector answered
                sent, reason = False, type(error).__name__
            metrics.TRACE_SPANS.labels("exported" if sent else "export-failed").inc(len(batch))
            if not sent and not self._failing:
                log.warning("traces-not-exported", extra={"fields": {"reason": reason}})
            self._failing = not sent


def built_export(settings: TracingSettings) -> SpanExport | None:
    """The export of these settings, which is not started yet; None without an endpoint. Raises ValueError."""
    return SpanExport(settings) if settings.traces_endpoint else None


class _Conversion:
    """Makes OpenTelemetry's form of a span, in the thread of the export."""

    def __init__(self, service_name: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        installed = version("privacy-gateway")
        attributes = {"service.name": service_name, "service.version": installed}
        self._resource = Resource({**attributes, "service.instance.id": secrets.token_hex(16)})
        self._scope = InstrumentationScope(_SCOPE, installed)

    def __call__(self, span: TraceSpan) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        parent = None if span.parent_id is None else SpanRef(span.ref.trace_id, span.parent_id)
        return ReadableSpan(
            span.name,
            context=_context(span.ref),
            parent=None if parent is None else _context(parent),
            resource=self._resource,
            attributes=dict(span.attributes),
            links=[Link(_context(ref)) for ref in span.links],
            kind=SpanKind[span.kind.upper()],
            status=Status(StatusCode.ERROR if span.code else StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _context(ref: SpanRef) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(ref.trace_id, ref.span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _exporter(settings: TracingSettings) -> SpanExporter:
    try:
        import requests
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise ValueError("TRACES_ENDPOINT needs the extra `otel`: pip install 'privacy-gateway[otel]'") from None
    session = requests.Session()
    session.trust_env = False  # no proxy and no credentials of the environment
    return OTLPSpanExporter(
        endpoint=settings.traces_endpoint,
        certificate_file=None if settings.traces_ca_file is None else str(settings.traces_ca_file),
        headers=_headers(settings),
        timeout=TIMEOUT_S,
        compression=Compression.NoCompression,  # 0.2 kB a span, which take longer to compress than to send
        session=session,
    )


def _headers(settings: TracingSettings) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in settings.traces_headers.items()}
