"""The export of spans: bounded, never in the way of a request, and counted."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from alert_kit import until
from collector_kit import Collector, attributes
from gateway_kit import free_port
from prometheus_client import REGISTRY
from pydantic import SecretStr, ValidationError

from core import spans
from service.config.settings import TracingSettings
from service.tracing import export as export_module
from service.tracing.export import SpanExport, built_export


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("gateway_trace_spans_total", {"outcome": outcome}) or 0.0


def make_spans(count: int, name: str = "request") -> None:
    for _ in range(count):
        with spans.root(name, kind="server") as span:
            span.set("http.response.status_code", 200)


def test_without_an_endpoint_there_is_no_export() -> None:
    assert built_export(TracingSettings()) is None


def test_spans_arrive_as_they_were_made(collector: Collector) -> None:
    headers = {"X-Collector-Key": SecretStr("secret")}
    export = SpanExport(
        TracingSettings(traces_endpoint=collector.endpoint, traces_headers=headers, traces_service_name="own")
    )
    export.start()
    with spans.root("request", kind="server") as request:
        request.set("gateway.role", "embed")
        request.link(spans.root("other"))
        with pytest.raises(ValueError, match="text"), spans.span("step", kind="client"):
            raise ValueError("text")
    export.stop()
    step, whole = collector.until(lambda found: len(found) == 2)
    assert (step.name, whole.name) == ("step", "request")
    assert step.trace_id == whole.trace_id == request.ref.trace_id.to_bytes(16, "big")
    assert step.parent_span_id == whole.span_id
    assert (whole.parent_span_id, whole.kind, step.kind) == (b"", whole.SPAN_KIND_SERVER, whole.SPAN_KIND_CLIENT)
    assert attributes(whole) == {"gateway.role": "embed"}
    assert [link.trace_id for link in whole.links] == [request.links[0].trace_id.to_bytes(16, "big")]
    assert (step.status.code, step.status.message) == (step.status.STATUS_CODE_ERROR, "")
    assert not step.events
    assert step.start_time_unix_nano <= step.end_time_unix_nano
    assert {name.lower(): value for name, value in collector.headers[0].items()}["x-collector-key"] == "secret"
    assert set(collector.resources[0]) == {"service.name", "service.version", "service.instance.id"}
    assert collector.resources[0]["service.name"] == "own"


def test_a_collector_that_does_not_answer_delays_nothing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    class Stuck:
        def export(self, _: Sequence[Any]) -> Any:
            released.wait()
            raise RuntimeError("zqcanary")

        def shutdown(self) -> None:
            pass

    before = {outcome: counted(outcome) for outcome in ("queue-full", "export-failed")}
    monkeypatch.setattr(export_module, "QUEUE_SPANS_MAX", 100)
    monkeypatch.setattr(export_module, "BATCH_SPANS_MAX", 10)
    export = SpanExport(TracingSettings(traces_endpoint=collector.endpoint), Stuck())
    export.start()
    make_spans(10)
    until(lambda: len(export._queue) == 0)  # the thread holds the first batch
    make_spans(150)
    assert counted("queue-full") - before["queue-full"] == 50
    released.set()
    export.stop()
    assert counted("export-failed") - before["export-failed"] == 110


def test_a_collector_that_is_away_or_refuses_is_counted(
    collector: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "TIMEOUT_S", 0.5)
    collector.status = 400
    for endpoint in (collector.endpoint, f"http://127.0.0.1:{free_port()}/v1/traces"):
        before = counted("export-failed")
        export = SpanExport(TracingSettings(traces_endpoint=endpoint))
        export.start()
        make_spans(3)
        export.stop()
        until(lambda before=before: counted("export-failed") - before == 3)
    assert [record.name for record in caplog.records].count("privacy_gateway.tracing") == 2


def test_what_is_beyond_the_limit_of_a_request_is_counted(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "SPANS_PER_REQUEST_MAX", 2)
    before = counted("limit")
    export = SpanExport(TracingSettings(traces_endpoint=collector.endpoint))
    export.start()
    with spans.root("request"):
        for _ in range(5):
            spans.span("step").end()
    export.stop()
    assert counted("limit") - before == 4
    assert len(collector.until(lambda found: len(found) == 2)) == 2


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://", "http://user:zqcanary@collector"])
def test_a_wrong_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TracingSettings(traces_endpoint=endpoint)
    assert "TRACES_ENDPOINT is" in str(refused.value)
