"""Real answers of a gateway: every charging capability, jobs until their end, and what can be asked about both."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
from corpus_kit import embedding_rows, json_lines, rows, until
from finetune_http_kit import RECORD, submit
from gateway_kit import DOCUMENT, Tenant, Tenants
from synthesis_kit import shop_request, shop_rows

VECTORS = ("laplace", "privemb", "privunit", "codebook")
_TEXTS = ["The parcel was late.", "Nobody knew why."]
_NDJSON = {"Content-Type": "application/x-ndjson"}
NO_PRICE = " (no price)"  # marks the answer of an operation that may also release


class Sent(NamedTuple):
    """An answer of `operation`, as the OpenAPI document names it. `body`: what it holds, as JSON."""

    operation: str
    status: int
    headers: dict[str, str]
    body: Any


def sent(operation: str, answer: httpx.Response) -> Sent:
    kind = answer.headers.get("content-type", "")
    if "json" not in kind:
        return Sent(operation, answer.status_code, dict(answer.headers), {"file": ""} if answer.content else {})
    lines = [json.loads(line) for line in answer.text.splitlines()] if "ndjson" in kind else answer.json()
    return Sent(operation, answer.status_code, dict(answer.headers), lines)


def priced(tenant: Tenant) -> Iterator[Sent]:
    """Releases by every mechanism, refusals, and an answer that is replayed."""

    def posted(path: str, body: Any, **headers: str) -> Sent:
        return sent(f"POST {path}", tenant.http.post(path, json=body, headers=headers))

    documents = [{"text": DOCUMENT, "id": "a"}, {"sentences": _TEXTS}]
    for fields in (
        {"mechanism": "sentence_codes"},
        {"mechanism": "sentence_codes", "domain": "auto"},
        {"mechanism": "clipped_cosine", "encoding_format": "base64"},
        {"mechanism": "deep_candidate"},
        {"mechanism": "document_selection"},
    ):
        yield posted("/embed/sentdp", {"documents": documents, "epsilon": 2.0, **fields})
    words = {"documents": [{"text": DOCUMENT}], "epsilon": 2.0, "segmentation": "words"}
    yield posted("/embed/sentdp", words)
    replayed = {"Idempotency-Key": "one"}
    for _ in range(2):
        yield posted("/embed/sentdp", {"documents": documents, "epsilon": 2.0}, **replayed)
    yield posted("/embed/sentdp", {"documents": [{"text": ""}], "epsilon": 2.0})
    yield posted("/embed/sentdp", {"documents": documents, "epsilon": 1000.0})
    for mechanism in VECTORS:
        yield posted("/embed/vector", {"texts": _TEXTS, "epsilon": 4.0, "mechanism": mechanism})
    model = tenant.http.get("/v1/models").json()["data"][0]["id"]
    yield posted("/v1/embeddings", {"model": model, "input": _TEXTS})
    kept = {"documents": [{"text": "Maria Keller paid 20 euros."}]}
    for fill in ({"mode": "dp", "epsilon": 4.0}, {"mode": "metric_dp", "epsilon": 4.0}):
        yield posted("/sanitize", {**kept, "fill": fill})
        yield posted("/sanitize", {**kept, "fill": fill, "mask": {"techniques": ["all"]}})
    whole = {"mode": "dp", "epsilon": 4.0, "scope": "document"}
    yield posted("/sanitize", {**kept, "fill": whole, "mask": {"techniques": ["all"]}})
    for fill, name in (({"mode": "metric_dp", "epsilon": 4.0}, ""), ({"mode": "class_marker"}, NO_PRICE)):
        lines = json_lines([{"fill": fill}, *kept["documents"], {"text": 7}])
        answer = tenant.http.post("/sanitize/batch", content=lines, headers=_NDJSON)
        yield sent(f"POST /sanitize/batch{name}", answer)
    yield sent(f"POST /sanitize{NO_PRICE}", tenant.http.post("/sanitize", json=kept | {"return_spans": True}))


def jobs(gateway: Tenants) -> Iterator[Sent]:
    """Jobs of every kind from their creation to their end, and one that fails."""
    tenant = gateway.tenant(record=RECORD)
    domain = {"name": "own", "steps": 10, "embeddings": [row["embeddings"] for row in embedding_rows(110)]}
    infill = {"name": "own", "documents": [*rows(19), {"text": "Write to jo@example.org."}], "steps": 2}
    table = shop_request(method="marginals", rows=shop_rows(60), row_count="protected", epsilon=0.3)
    failing = {name: value for name, value in table.items() if name != "rows"} | {"schema": json.dumps(table["schema"])}
    bad = tenant.http.post("/jobs/synthesis", params=failing, content=b'{"age": 1}\n' * 2, headers=_NDJSON)
    for kind, created in (
        ("synthesis", tenant.http.post("/jobs/synthesis", json=table)),
        ("synthesis", bad),
        ("finetune", submit(tenant, model="tiny")),
        ("domain", tenant.http.post("/jobs/domain", json=domain)),
        ("infill", tenant.http.post("/jobs/infill", json=infill)),
    ):
        yield sent(f"POST /jobs/{kind}", created)
        job_id = created.json()["job_id"]
        with tenant.http.stream("GET", f"/jobs/{job_id}/events", timeout=300) as answer:
            yield Sent("GET /jobs/{job_id}/events", answer.status_code, dict(answer.headers), _events(answer))
        until(tenant.http, job_id)
        yield sent("GET /jobs/{job_id}", tenant.http.get(f"/jobs/{job_id}"))
    yield sent("POST /jobs/{job_id}/cancel", tenant.http.post(f"/jobs/{job_id}/cancel"))
    yield sent("GET /jobs", tenant.http.get("/jobs"))
    yield sent("GET /domains", tenant.http.get("/domains"))
    yield from asked(gateway, tenant, unit="record")


def asked(gateway: Tenants, tenant: Tenant, *, unit: str) -> Iterator[Sent]:
    """What a tenant can ask about its releases, and anybody about the gateway."""
    account = f"{tenant.name}/{unit}"
    for path in ("", "/journal", "/series", "/headroom", "/forecast", "/spending", "/bounds", "/subjects"):
        operation = "/budget/series" if path == "/series" else f"/budget/{{account}}{path}"
        yield sent(f"GET {operation}", tenant.http.get(operation.replace("{account}", account)))
    for path in ("/budget", "/budget/integrity", "/models", "/keys", "/v1/models", "/policies", "/entities", "/alerts"):
        yield sent(f"GET {path}", tenant.http.get(path))
    for path in ("/livez", "/readyz"):
        yield sent(f"GET {path}", gateway.anyone.get(path))
    body = {"documents": [{"text": DOCUMENT}], "epsilon": 1.5}
    yield sent("POST /budget/estimate", tenant.http.post("/budget/estimate", json=body))


def _events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The ids and data of a stream of events."""
    found: list[dict[str, Any]] = []
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            found.append({"id": value})
        elif name == "data":
            found.append({"data": json.loads(value)})
    return found
