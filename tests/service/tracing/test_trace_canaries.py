"""Text is radioactive: marked strings go through every route of a real gateway, and no span that leaves it has one.

Valid and invalid requests of every endpoint that takes text, masked conversations, jobs and errors of the upstream.
`make fuzz` sends generated requests.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from collector_kit import Collector, Span, attributes
from corpus_kit import rows, until
from fuzz.canaries import MARK
from gateway_kit import DOCUMENT, Gateway, Tenant
from proxy_kit import POLICIES
from synthesis_kit import shop_request, shop_rows
from upstream_kit import ServedUpstream, answer, chunked, sends

from core import spans
from core.spans import ATTRIBUTES
from service.config.settings import TracingSettings
from service.tracing.export import SpanExport

pytestmark = pytest.mark.slow("process")

TEXT = f"{DOCUMENT} I am Maria Keller, {MARK}7@example.org, and {MARK} is my word."
SUBJECT = f"{MARK}subject"
HEADERS = {"X-Request-ID": MARK, "Idempotency-Key": f"{MARK}key", "traceparent": f"00-{MARK}", "baggage": f"a={MARK}"}
LINES = {"Content-Type": "application/x-ndjson"}
CHAT = {"model": "m", "messages": [{"role": "user", "content": TEXT}]}
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": null}]}\n\ndata: [DONE]\n\n'
CALL = "call a language model"
FORBIDDEN = (MARK, "Keller", "keller", "example.org")


@dataclass(frozen=True)
class Served:
    gateway: Gateway
    collector: Collector
    upstream: ServedUpstream


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("traced")
    (folder / "policies.toml").write_text(POLICIES)
    with Collector() as collector, ServedUpstream() as upstream:
        models = {
            "own": {"base_url": upstream.raw.url, "kind": "openai", "models": ["m"]},
            "other": {"base_url": upstream.raw.url, "kind": "anthropic", "models": ["c"]},
        }
        gateway = Gateway(
            folder / "data",
            {
                "PRIVACY_GATEWAY_TRACES_ENDPOINT": collector.endpoint,
                "PRIVACY_GATEWAY_TRACES_SEND_TO_UPSTREAMS": "true",
                "PRIVACY_GATEWAY_UPSTREAMS": json.dumps(models),
                "PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml"),
            },
        )
        try:
            yield Served(gateway, collector, upstream)
        finally:
            gateway.stop()
        assert not found_in(collector)


def found_in(collector: Collector) -> list[str]:
    """What was exported and may not be: marked strings, and attributes that are not in the table."""
    names = {name for span in collector.spans for name in attributes(span)}
    messages = [raw.decode("latin-1") for raw in collector.raw]
    held = [word for word in FORBIDDEN if any(word in message for message in messages)]
    texts = [span.name for span in collector.spans if span.events or span.status.message or span.trace_state]
    return [*held, *sorted(names - ATTRIBUTES), *texts]


@pytest.fixture
def tenant(served: Served) -> Tenant:
    return served.gateway.tenant(record={"epsilon": 50, "delta": 1e-3})


def post(tenant: Tenant, path: str, body: Any, **headers: str) -> httpx.Response:
    return tenant.http.post(path, json=body, headers=headers)


def test_texts_of_every_endpoint(served: Served, tenant: Tenant) -> None:
    documents = [{"text": TEXT}]
    reversible = post(tenant, "/sanitize", {"documents": documents, "fill": {"mode": "surrogate"}, "reversible": True})
    token = reversible.json().get("restore_token", MARK)
    recogniser = {"entity": "OWN_WORD", "deny_list": [MARK]}
    answers = [
        tenant.embed(documents, headers=HEADERS),
        tenant.embed(documents, headers=HEADERS),
        tenant.embed(documents, subject=SUBJECT),
        tenant.embed(documents, domain=MARK),
        post(tenant, "/embed/vector", {"texts": [TEXT], "epsilon": 8}),
        post(tenant, "/v1/embeddings", {"model": MARK, "input": [TEXT]}),
        *(post(tenant, "/sanitize", {"documents": documents, "fill": fill}) for fill in (
            {"mode": "marker"}, {"mode": "surrogate"}, {"mode": "top1"}, {"mode": "dp", "epsilon": 4.0},
            {"mode": "metric_dp", "epsilon": 2.5}, {"mode": MARK},
        )),
        tenant.http.post("/sanitize/batch", content=f"{json.dumps(documents[0])}\n{MARK}\n".encode(), headers=LINES),
        post(tenant, "/restore", {"restore_token": token, "text": TEXT}),
        post(tenant, "/restore", {"restore_token": MARK, "text": TEXT}),
        post(tenant, "/analyze", {"text": TEXT, "language": "en"}),
        post(tenant, "/anonymize", {"text": TEXT, "analyzer_results": [{"start": MARK}]}),
        post(tenant, "/sanitize/recognisers/test", {"recogniser": recogniser, "text": TEXT}),
        post(tenant, "/beta/litellm_basic_guardrail_api",
             {"input_type": "request", "litellm_call_id": MARK, "texts": [TEXT]}),
        post(tenant, "/budget/estimate", {"documents": documents, "epsilon": 1.0}),
        tenant.http.get(f"/{MARK}", params={"text": MARK}),
        tenant.http.get(f"/budget/{MARK}", headers={"Authorization": f"Bearer {MARK}"}),
    ]  # fmt: skip
    assert sum(each.status_code == 200 for each in answers) >= 10, [each.status_code for each in answers]
    by_subject = served.gateway.tenant(subject_epsilon=10)
    assert by_subject.embed(documents, subject=SUBJECT).status_code == 200
    exported(served, "POST /embed/sentdp", "POST /sanitize", "POST /sanitize/batch", "POST /restore", "POST /analyze")


def exported(served: Served, *names: str) -> None:
    """The spans of these names have arrived, and nothing that may not leave."""
    served.collector.until(lambda spans: set(names) <= {span.name for span in spans})
    assert not found_in(served.collector)


def outcomes(found: list[Span]) -> set[str | int]:
    """The outcomes of calls of language models."""
    return {attributes(span)["gateway.outcome"] for span in found if span.name == CALL}


def test_conversations_and_their_failures(served: Served, tenant: Tenant) -> None:
    message = {"role": "assistant", "content": f"Dear Maria Keller, {MARK}."}
    whole = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    scripts = [
        sends(answer(whole)), sends(chunked(EVENT)),
        sends(answer(MARK.encode(), status="500 Broken", content_type="text/plain")), sends(answer(MARK.encode())),
        sends(MARK.encode(), then="close"), sends(chunked(b"data: " + MARK.encode(), end=False), then="abort"),
    ]  # fmt: skip
    policies = ("kept", "forgotten", "priced", None)
    for policy in policies:
        served.upstream.begin(*scripts)
        for streams in (False, True, False, False, False, True):
            headers = {} if policy is None else {"X-Privacy-Policy": policy}
            post(tenant, "/v1/chat/completions", CHAT | {"stream": streams}, **headers)
    served.upstream.begin(*scripts)
    post(tenant, "/v1/messages", {"model": "c", "max_tokens": 9, "messages": CHAT["messages"], "system": MARK})
    assert post(tenant, "/v1/chat/completions", CHAT | {"model": MARK}).status_code == 404
    assert served.upstream.raw.requests
    exported(served, "POST /v1/chat/completions", CALL, "mask a conversation")
    served.collector.until(lambda found: {"answered", "server-error"} <= outcomes(found))
    calls = [attributes(span) for span in served.collector.spans if span.name == CALL]
    assert {call["gateway.upstream"] for call in calls} <= {"own", "other"}
    models = {attributes(span).get("gateway.model") for span in served.collector.spans}
    assert models <= {None, "m", "c"}
    sent = {request.headers.get("traceparent", "") for request in served.upstream.raw.requests}
    named = {header.split("-")[2] for header in sent}
    served.collector.until(lambda found: named <= {span.span_id.hex() for span in found if span.name == CALL})


def test_jobs_that_succeed_and_fail_and_are_cancelled(served: Served, tenant: Tenant) -> None:
    broken = tenant.http.post("/jobs/domain?name=broken", content=f"{MARK}\n".encode(), headers=LINES)
    jobs = [post(tenant, "/jobs/synthesis", shop_request(method="marginals", rows=shop_rows(60))), broken]
    ended = [until(tenant.http, job.json()["job_id"], within_s=300) for job in jobs if job.is_success]
    assert "succeeded" in {job["status"] for job in ended}, ended
    texts = [{"text": f"{row['text']} {TEXT}"} for row in rows(110)]
    domain = post(tenant, "/jobs/domain", {"name": "own", "documents": texts, "source": MARK}).json()["job_id"]
    until(tenant.http, domain, "running", "succeeded", within_s=300)
    tenant.http.post(f"/jobs/{domain}/cancel")
    ended.append(until(tenant.http, domain, within_s=300))
    ids = {ended[0]["job_id"], domain}
    found = served.collector.until(
        lambda found: ids <= {attributes(span).get("gateway.job.id") for span in found if span.name == "job attempt"}
    )
    outcomes = {attributes(span)["gateway.outcome"] for span in found if span.name == "job attempt"}
    assert "succeeded" in outcomes
    assert not found_in(served.collector)


def test_a_span_with_text_would_be_found() -> None:
    with Collector() as collector:
        export = SpanExport(TracingSettings(traces_endpoint=collector.endpoint))
        export.start()
        with spans.root("request") as leak:
            leak.attributes["gateway.text"] = MARK
        export.stop()
        collector.until(bool)
        assert found_in(collector) == [MARK, "gateway.text"]
