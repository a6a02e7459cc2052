"""The spans of requests: steps, links between requests and batches, and what the settings change."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from collector_kit import Collector, attributes
from gateway_kit import DOCUMENT, Tenant
from inprocess_kit import Gateway, opened_gateway

from service.app import create_admin_app, create_app
from service.tracing import export

EMBED = "POST /embed/sentdp"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OTHERS = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@contextmanager
def running(folder: Path, collector: Collector, **settings: Any) -> Iterator[Gateway]:
    with (
        mock.patch.object(export, "INTERVAL_S", 0.05),
        opened_gateway(folder, TRACES_ENDPOINT=collector.endpoint, **settings) as gateway,
    ):
        yield gateway


@pytest.fixture(scope="module")
def traced(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("traced"), collector) as gateway:
        yield gateway


@pytest.fixture
def tenant(traced: Gateway, collector: Collector) -> Tenant:
    tenant = traced.tenant(epsilon=3)
    collector.trace_of("POST /admin/tenants")
    collector.spans.clear()
    return tenant


def test_a_release_has_a_span_for_each_step(tenant: Tenant, collector: Collector) -> None:
    answer = tenant.embed(epsilon=1)
    spans = collector.trace_of(EMBED)
    names = [span.name for span in sorted(spans, key=lambda span: span.start_time_unix_nano)]
    by_name = {span.name: span for span in spans}
    steps = ["authenticate", "receive and check", "validate and price", "reserve", "run", "commit", "respond"]
    assert [name for name in names if name in steps] == steps
    parents = {span.span_id: span.name for span in spans}
    assert {parents[by_name[name].parent_span_id] for name in steps} == {EMBED}
    assert parents[by_name["wait for a worker"].parent_span_id] == "run"
    scripts = [attributes(span)["gateway.script"] for span in spans if span.name == "redis script"]
    assert list(dict.fromkeys(scripts)) == ["reserve", "commit"]
    whole = attributes(by_name[EMBED])
    request_id = whole.pop("gateway.request_id")
    assert request_id == answer.headers["X-Request-ID"]
    assert whole == {
        "http.request.method": "POST",
        "http.route": "/embed/sentdp",
        "http.response.status_code": 200,
        "gateway.release_id": answer.headers["Release-Id"],
    }


def test_a_batch_and_its_request_are_linked(tenant: Tenant, collector: Collector) -> None:
    tenant.embed(epsilon=1)
    [wait] = [span for span in collector.trace_of(EMBED) if span.name == "wait for a worker"]
    spans = collector.until(lambda found: any(span.name == "batch" for span in found))
    [batch] = [span for span in spans if span.name == "batch" and span.links[0].span_id == wait.span_id]
    assert wait.links[0].span_id == batch.span_id
    assert batch.trace_id != wait.trace_id
    assert attributes(batch) == {"gateway.role": "embed"}
    collector.until(lambda found: any(span.name == "work" and span.parent_span_id == batch.span_id for span in found))


def test_a_long_document_has_as_many_spans_as_a_short_one(tenant: Tenant, collector: Collector) -> None:
    seen = []
    for text in ("One sentence.", DOCUMENT * 60):
        collector.spans.clear()
        answer = tenant.http.post("/sanitize", json={"documents": [{"text": text}], "mask": {"entities": ["URL"]}})
        assert answer.status_code == 200
        names = [span.name for span in collector.trace_of("POST /sanitize")]
        spans = collector.until(lambda found: any(span.name == "batch" for span in found))
        seen.append((sorted(names), sum(span.name == "batch" for span in spans)))
    assert seen[0] == seen[1]


def test_an_error_is_a_code(tenant: Tenant, collector: Collector) -> None:
    assert tenant.embed(epsilon=100).status_code == 403
    spans = {span.name: span for span in collector.trace_of(EMBED)}
    assert attributes(spans["reserve"])["error.type"] == "budget-exhausted"
    assert attributes(spans[EMBED])["http.response.status_code"] == 403
    assert {span.status.message for span in spans.values()} == {""}


def test_a_callers_ids_and_words_are_not_taken(traced: Gateway, tenant: Tenant, collector: Collector) -> None:
    headers = {"traceparent": OTHERS, "X-Request-ID": "zqcanary"}
    assert tenant.http.get("/zqcanary", headers=headers).status_code == 404
    assert tenant.http.request("ZQCANARY", "/budget", headers=headers).status_code in (400, 405)
    spans = [collector.trace_of("GET unmatched")[-1]]
    assert spans[0].trace_id.hex() != TRACE
    assert "gateway.request_id" not in attributes(spans[0])
    assert not any(b"canary" in raw.lower() for raw in collector.raw)


def test_probes_and_what_runs_between_requests_have_no_spans(
    traced: Gateway, tenant: Tenant, collector: Collector
) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        assert traced.anyone.get(path).status_code == 200
    tenant.http.get("/budget")
    spans = collector.until(lambda found: any(span.name == "GET /budget" for span in found))
    roots = {span.name for span in spans if not span.parent_span_id}
    assert roots == {"GET /budget"}


def test_settings_add_tenants_and_accept_the_traces_of_callers(collector: Collector, tmp_path: Path) -> None:
    with running(tmp_path, collector, TRACES_TENANTS="true", TRACES_ACCEPT_INCOMING="true") as gateway:
        tenant = gateway.tenant(epsilon=3)
        collector.spans.clear()
        assert tenant.embed(epsilon=1, headers={"traceparent": f"00-{'1' * 32}-{SPAN}-00"}).status_code == 200
        assert tenant.embed(epsilon=1, headers={"traceparent": OTHERS}).status_code == 200
        spans = collector.trace_of(EMBED)
        [whole] = [span for span in spans if span.name == EMBED]
        assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (TRACE, SPAN)
        assert attributes(whole)["gateway.tenant"] == tenant.name
        assert "1" * 32 not in {span.trace_id.hex() for span in collector.spans}  # its caller records nothing


def test_the_frameworks_own_telemetry_is_off(traced: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would export the messages of exceptions, where the environment or another library asks for it."""
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    for app in (create_app(traced.service), create_admin_app(traced.service)):
        telemetry = app._telemetry
        assert not any(telemetry[name] for name in ("tracing", "metrics", "logs", "auto_configure"))
