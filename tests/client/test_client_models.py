"""The client's methods and options equal the gateway's OpenAPI document."""

import inspect
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_kit import Recorder
from inprocess_kit import Gateway as InProcessGateway

from privacy_gateway_client import Gateway, GatewayError, Retry, errors, inputs, options

ROOT = Path(__file__).parents[2]
JOBS = {"domain", "infill", "synthesis", "finetune"}
# Routes without a method: pages and sessions of browsers, and what the SDK of OpenAI calls
FOR_OTHERS = ("/dashboard", "/v1/files", "/v1/batches")

SCHEMA = {"columns": [], "label": None}
CALLS: dict[str, Callable[[Gateway], Any]] = {
    "POST /embed/sentdp": lambda client: client.embed_documents(["a"], epsilon=1),
    "POST /embed/vector": lambda client: client.embed_texts(["a"], epsilon=1),
    "POST /embed/vector/safetensors": lambda client: client.embed_vectors([[1.0]], epsilon=1),
    "POST /v1/embeddings": lambda client: client.openai_embeddings("m", "a"),
    "GET /v1/models": lambda client: client.models.presets(),
    "GET /v1/models/{model}": lambda client: client.models.preset("m"),
    "POST /v1/chat/completions": lambda client: client.language_models.chat_completions({"model": "m"}),
    "POST /v1/responses": lambda client: client.language_models.responses({"model": "m"}),
    "POST /v1/messages": lambda client: client.language_models.messages({"model": "m"}),
    "POST /v1/responses/input_tokens": lambda client: client.language_models.count_response_tokens({"model": "m"}),
    "POST /v1/messages/count_tokens": lambda client: client.language_models.count_message_tokens({"model": "m"}),
    "POST /sanitize": lambda client: client.sanitize(["a"]),
    "POST /sanitize/batch": lambda client: list(client.sanitize_stream(["a"], fill={"mode": "marker"})),
    "GET /policies": lambda client: client.policies(),
    "GET /masking/counts": lambda client: client.masking_counts(days=7),
    "POST /restore": lambda client: client.restore(["a"], "token"),
    "POST /sanitize/recognisers/test": lambda client: client.recognisers.try_out({"deny": ["a"]}, "a"),
    "GET /sanitize/recognisers": lambda client: list(client.recognisers.list()),
    "PUT /sanitize/recognisers/{name}": lambda client: client.recognisers.put("n", {"deny": ["a"]}),
    "GET /sanitize/recognisers/{name}": lambda client: client.recognisers.get("n"),
    "DELETE /sanitize/recognisers/{name}": lambda client: client.recognisers.delete("n"),
    "GET /budget": lambda client: list(client.budget.accounts()),
    "GET /budget/series": lambda client: client.budget.series(step=60),
    "POST /budget/estimate": lambda client: client.budget.estimate({"texts": ["a"], "epsilon": 1}),
    "GET /budget/statement": lambda client: client.budget.statement(),
    "GET /admin/outlook": lambda client: client.admin.outlook(),
    "PUT /admin/tenants/{tenant}/state": lambda client: client.admin.set_state("t", "suspended", reason="r"),
    "GET /admin/tenants/{tenant}/statement": lambda client: client.admin.statement("t", from_ms=0),
    "GET /admin/tenants/{tenant}/budgets/{unit}/limit": lambda client: client.admin.limit_effect(
        "t", "sentence", epsilon=1
    ),
    "POST /admin/integrity/audit": lambda client: client.admin.start_audit(),
    "GET /budget/{account}": lambda client: client.budget.account("t/sentence"),
    "GET /budget/{account}/headroom": lambda client: client.budget.headroom("t/sentence"),
    "GET /budget/{account}/journal": lambda client: list(client.budget.journal("t/sentence")),
    "GET /budget/{account}/subjects": lambda client: list(client.budget.subjects("t/sentence")),
    "POST /accounting/compare": lambda client: client.accounting.compare({"kind": "pure", "epsilon": 1}, delta=0.1),
    "POST /accounting/calibrate": lambda client: client.accounting.calibrate(epsilon=1, delta=0.1, steps=2),
    "GET /models": lambda client: client.models.list(),
    "DELETE /models/fine-tuned/{name}": lambda client: client.models.delete_fine_tuned("n"),
    "GET /entities": lambda client: client.entities(),
    "GET /models/projections/{kind}-{dimension}-{output_dimension}": lambda client: client.models.projection(
        "pca", 4, 2
    ),
    "POST /jobs/domain": lambda client: client.build_domain("n", [{"text": "a"}]),
    "POST /jobs/infill": lambda client: client.tune_infill("n", [{"text": "a"}]),
    "POST /jobs/evaluation": lambda client: client.evaluate("n", [{"text": "a"}]),
    "POST /jobs/synthesis": lambda client: client.synthesize(
        "n", [], schema=SCHEMA, method="pearl", epsilon=1, delta=0.1, row_count="public"
    ),
    "POST /jobs/finetune": lambda client: client.finetune("n", [], labels=["a"], epsilon=1, delta=0.1, batch=1),
    "POST /jobs/release": lambda client: client.release("n", [{"text": "a"}], endpoint="sanitize", body={}),
    "GET /finetuned": lambda client: client.models.classifiers(),
    "DELETE /finetuned/{name}": lambda client: client.models.delete_classifier("n"),
    "POST /finetuned/{name}/predict": lambda client: client.models.predict("n", ["a"]),
    "GET /jobs": lambda client: list(client.jobs.list()),
    "GET /jobs/{job_id}": lambda client: client.jobs.get("j"),
    "POST /jobs/{job_id}/cancel": lambda client: client.jobs.cancel("j"),
    "POST /jobs/{job_id}/pause": lambda client: client.jobs.pause("j"),
    "POST /jobs/{job_id}/resume": lambda client: client.jobs.resume("j"),
    "GET /jobs/{job_id}/manifest": lambda client: client.jobs.manifest("j"),
    "GET /jobs/{job_id}/events": lambda client: client.jobs.wait("j"),
    "GET /jobs/{job_id}/artifact": lambda client: client.jobs.artifact("j"),
    "DELETE /jobs/{job_id}/artifact": lambda client: client.jobs.delete_artifact("j"),
    "GET /jobs/{job_id}/card": lambda client: client.jobs.card("j"),
    "GET /jobs/{job_id}/report": lambda client: client.jobs.report("j"),
    "POST /jobs/{job_id}/sample": lambda client: list(client.jobs.sample("j")),
    "GET /domains": lambda client: client.domains.list(),
    "DELETE /domains/{name}": lambda client: client.domains.delete("n"),
    "GET /keys": lambda client: client.keys.list(),
    "POST /keys": lambda client: client.keys.create(label="a"),
    "POST /keys/{key_id}/rotate": lambda client: client.keys.rotate("k", overlap_s=1),
    "DELETE /keys/{key_id}": lambda client: client.keys.revoke("k"),
    "GET /vault": lambda client: list(client.vault.entries()),
    "DELETE /vault": lambda client: client.vault.clear(),
    "DELETE /vault/{entry_id}": lambda client: client.vault.delete("e"),
    "POST /beta/litellm_basic_guardrail_api": lambda client: client.presidio.guardrail({"input_type": "request"}),
    "POST /analyze": lambda client: client.presidio.analyze("a"),
    "POST /anonymize": lambda client: client.presidio.anonymize({"text": "a", "analyzer_results": []}),
    "POST /deanonymize": lambda client: client.presidio.deanonymize(
        {"text": "a", "anonymizer_results": [], "deanonymizers": {}}
    ),
    "GET /supportedentities": lambda client: client.presidio.supported_entities(),
    "GET /recognizers": lambda client: client.presidio.recognizers(),
    "GET /anonymizers": lambda client: client.presidio.anonymizers(),
    "GET /deanonymizers": lambda client: client.presidio.deanonymizers(),
    "GET /budget/events": lambda client: list(client.budget.events()),
    "GET /budget/integrity": lambda client: client.budget.integrity(),
    "GET /budget/{account}/forecast": lambda client: client.budget.forecast("t/sentence"),
    "GET /budget/{account}/spending": lambda client: client.budget.spending("t/sentence"),
    "GET /budget/{account}/bounds": lambda client: client.budget.bounds("t/sentence"),
    "GET /budget/{account}/journal/export": lambda client: list(client.budget.export_journal("t/sentence")),
    "GET /admin/integrity": lambda client: client.admin.integrity(),
    "GET /admin/service": lambda client: client.admin.service(),
    "GET /alerts": lambda client: list(client.alerts.fired()),
    "GET /alerts/rules": lambda client: client.alerts.rules(),
    "GET /alerts/rules/{name}": lambda client: client.alerts.rule("n"),
    "PUT /alerts/rules/{name}": lambda client: client.alerts.put_rule("n", {"when": {"kind": "integrity"}}),
    "DELETE /alerts/rules/{name}": lambda client: client.alerts.delete_rule("n"),
    "POST /alerts/rules/{name}/test": lambda client: client.alerts.send_sample("n"),
    "GET /admin/alerts": lambda client: list(client.admin.alerts.fired()),
    "GET /admin/alerts/rules": lambda client: client.admin.alerts.rules(),
    "GET /admin/alerts/rules/{name}": lambda client: client.admin.alerts.rule("n"),
    "PUT /admin/alerts/rules/{name}": lambda client: client.admin.alerts.put_rule("n", {"when": {"kind": "integrity"}}),
    "DELETE /admin/alerts/rules/{name}": lambda client: client.admin.alerts.delete_rule("n"),
    "POST /admin/alerts/rules/{name}/test": lambda client: client.admin.alerts.send_sample("n"),
    "GET /livez": lambda client: client.health.live(),
    "GET /readyz": lambda client: client.health.ready(),
    "GET /metrics": lambda client: client.health.metrics(),
    "GET /admin/tenants": lambda client: client.admin.tenants(),
    "POST /admin/tenants": lambda client: client.admin.create_tenant("t", epsilon=1),
    "GET /admin/tenants/{tenant}/budgets": lambda client: list(client.admin.budgets("t")),
    "PUT /admin/tenants/{tenant}/budgets/{unit}/limit": lambda client: client.admin.set_limit("t", "vector", epsilon=1),
    "POST /admin/tenants/{tenant}/keys": lambda client: client.admin.create_key("t"),
    "GET /admin/tenants/{tenant}/keys": lambda client: client.admin.keys("t"),
    "POST /admin/tenants/{tenant}/keys/{key_id}/rotate": lambda client: client.admin.rotate_key("t", "k", overlap_s=1),
    "DELETE /admin/tenants/{tenant}/keys/{key_id}": lambda client: client.admin.revoke_key("t", "k"),
    "POST /admin/tenants/{tenant}/sessions/end": lambda client: client.admin.end_sessions("t"),
    "POST /admin/sessions/end": lambda client: client.admin.end_sessions(),
    "GET /admin/audit": lambda client: list(client.admin.audit()),
}


@pytest.fixture(scope="module")
def document(gateway: InProcessGateway) -> dict[str, Any]:
    return gateway.anyone.get("/openapi.json").json()


def test_every_route_has_a_method(document: dict[str, Any]) -> None:
    routes = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if not path.startswith(FOR_OTHERS)
    }
    assert set(CALLS) == routes


def test_a_method_sends_its_request() -> None:
    for route in CALLS:
        sent = Recorder(lambda _: httpx.Response(418))
        with (
            Gateway("http://gateway", "key", retry=Retry(attempts=1), transport=sent) as client,
            pytest.raises(GatewayError),
        ):
            CALLS[route](client)
        method, path = route.split()
        [request] = sent.requests
        assert request.method == method
        assert re.fullmatch(
            re.sub(r"\{account\}", ".+", re.sub(r"\{(?!account)\w+\}", "[^/]+", path)), request.url.path
        )


def members(document: dict[str, Any], name: str) -> set[str]:
    """The members of a body, by the name of its schema or of its job."""
    return set(properties(document, name))


def properties(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The schemas of the members of a body."""
    schema = document["components"]["schemas"][f"{name.title()}Request" if name in JOBS else name]
    found: dict[str, Any] = schema["properties"]
    return found


def test_options_are_the_members_that_may_be_left_out(document: dict[str, Any]) -> None:
    for kind, body, named in [
        (options.DocumentOptions, "SentDPRequest", {"documents", "epsilon", "encoding_format"}),
        (options.VectorOptions, "VectorRequest", {"texts", "vectors", "epsilon", "encoding_format"}),
        (options.SanitizeOptions, "SanitizeRequest", {"documents"}),
        (options.StreamOptions, "SanitizeRequest", {"documents", "reversible"}),
        (options.DomainOptions, "domain", {"name", "documents", "embeddings"}),
        (options.InfillOptions, "infill", {"name", "documents"}),
        (options.SynthesisOptions, "synthesis", {"name", "rows", "schema", "method", "epsilon", "delta", "row_count"}),
        (
            options.FinetuneOptions,
            "finetune",
            {"name", "labels", "epsilon", "delta", "rows", "batch", "private", "public"},
        ),
        (options.KeyOptions, "KeyTerms", set()),
        (options.TenantOptions, "NewTenant", {"name", "epsilon"}),
    ]:
        assert set(kind.__annotations__) | named == members(document, body)


def test_the_words_and_members_that_the_client_permits_are_those_of_the_gateway(document: dict[str, Any]) -> None:
    assert set(inputs.EMBEDDED) == members(document, "DocumentBody")
    assert set(inputs.SANITIZED) == members(document, "TextDocument")
    for kind, body in [
        (options.DocumentOptions, "SentDPRequest"),
        (options.VectorOptions, "VectorRequest"),
        (options.SanitizeOptions, "SanitizeRequest"),
        (options.MaskOptions, "MaskBody"),
        (options.FillOptions, "Fill"),
        (options.SynthesisOptions, "synthesis"),
        (options.FinetuneOptions, "finetune"),
    ]:
        for name, permitted in inputs._hints(kind).items():
            schema = json.dumps(properties(document, body)[name])
            words = re.search(r'"enum": (\[.*?\])', schema)
            assert (permitted if isinstance(permitted, tuple) else ()) == tuple(json.loads(words[1]) if words else ())
    assert set(options.MaskOptions.__annotations__) == members(document, "MaskBody")
    assert set(options.FillOptions.__annotations__) == members(document, "Fill")


def test_the_methods_of_a_client_are_documented() -> None:
    with Gateway("http://gateway", "key") as client:
        groups = [client, *(value for name, value in vars(client).items() if not name.startswith("_"))]
    for group in groups:
        methods = [one for one in inspect.getmembers(group, inspect.ismethod) if not one[0].startswith("_")]
        assert methods
        for name, method in methods:
            assert inspect.getdoc(method), f"{type(group).__name__}.{name}"


def test_every_code_has_an_error_class() -> None:
    page = (ROOT / "docs/reference/problems.md").read_text()
    assert set(errors.CODES) == set(re.findall(r"^\| \d{3} `([a-z-]+)` \|", page, re.MULTILINE))


def test_the_version_is_that_of_the_gateway() -> None:
    own = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
    assert own["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
