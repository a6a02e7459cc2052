"""Wrong members and values of JSON bodies: the problem names the member and what is permitted, and repeats no value."""

from typing import Any

import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway

SECRET = "zq-wrong-5512"
DOCUMENTS = [{"text": SECRET}]
PRESET = {"model": "minilm-sentdp-eps10", "input": SECRET}
SENTDP = {"documents": DOCUMENTS, "epsilon": 1}
RULE = {"kind": "forecast", "days": 1}

# method and path, body, the field, a permitted word, the nearest one
WRONG: list[tuple[str, dict[str, Any], str, str, str | None]] = [
    ("POST /v1/embeddings", PRESET | {"truncate": SECRET}, "truncate", "user", None),
    ("POST /v1/embeddings", PRESET | {"Model_": SECRET}, "Model_", "user", "model"),
    ("POST /v1/embeddings", {"model": SECRET, "inputs": SECRET}, "inputs", "input", "input"),
    ("POST /v1/embeddings", PRESET | {"encoding_format": "base46"}, "encoding_format", "float", "base64"),
    ("POST /v1/embeddings", PRESET | {SECRET: SECRET}, "", "dimensions", None),
    ("POST /embed/sentdp", SENTDP | {"mechansim": SECRET}, "mechansim", "segmentation", "mechanism"),
    ("POST /embed/sentdp", SENTDP | {"mechanism": "sentence_code"}, "mechanism", "deep_candidate", "sentence_codes"),
    ("POST /embed/sentdp", SENTDP | {"segmentation": SECRET}, "segmentation", "words", None),
    ("POST /embed/sentdp", {"documents": [{"txet": SECRET}], "epsilon": 1}, "documents.0.txet", "sentences", "text"),
    ("POST /embed/sentdp", {"documents": [{"id": "a"}], "epsilon": 1}, "documents.0", "embeddings", None),
    ("POST /embed/vector", {"text": [SECRET], "epsilon": 1}, "text", "vectors", "texts"),
    ("POST /embed/vector", {"texts": [SECRET], "epsilon": 1, "projection": "pac"}, "projection", "identity", "pca"),
    ("POST /sanitize", {"documents": DOCUMENTS, "fill": {"mode": "redact"}}, "fill.mode", "marker", None),
    ("POST /sanitize", {"documents": DOCUMENTS, "fill": {"mode": "surogate"}}, "fill.mode", "dp", "surrogate"),
    ("POST /sanitize", {"documents": DOCUMENTS, "mask": {"entites": []}}, "mask.entites", "profile", "entities"),
    ("POST /sanitize", {"documents": DOCUMENTS, "mask": {"techniques": ["ner"]}}, "mask.techniques.0", "all", None),
    ("POST /sanitize", {"documents": [{"text": "", "format": "jsn"}]}, "documents.0.format", "email", "json"),
    ("POST /restore", {"texts": [SECRET], "restoretoken": SECRET}, "restoretoken", "texts", "restore_token"),
    ("POST /analyze", {"text": SECRET, "language": "en", "entity": []}, "entity", "text", "entities"),
    ("POST /budget/estimate", SENTDP | {"domian": SECRET}, "sentdp.domian", "documents", "domain"),
    ("POST /accounting/compare", {"mechanism": {"kind": "gausian"}}, "mechanism.kind", "laplace", "gaussian"),
    ("POST /accounting/calibrate", {"target": {"epsilon": 1, "delta": 1e-5}}, "", "noise_multiplier", None),
    (
        "POST /sanitize",
        {"documents": [{"text": "", "format": "csv", "format_options": {"csv": {"columns": [{}]}}}]},
        "documents.0.format_options.csv.columns.0",
        "index",
        None,
    ),
    ("POST /accounting/calibrate", {"rate": 0.1, "steps": 1}, "rate", "sampling_rate", None),
    ("POST /jobs/domain", {"nmae": SECRET}, "nmae", "licence", "name"),
    ("POST /jobs/synthesis", {"method": "pearls"}, "method", "marginals", "pearl"),
    ("POST /jobs/finetune", {"epoch": 3}, "epoch", "labels", "epochs"),
    ("PUT /alerts/rules/own", {"when": RULE, "web_hook": {}}, "web_hook", "when", "webhook"),
    ("PUT /alerts/rules/own", {"when": RULE | {"kind": "forcast"}}, "when.kind", "budget_used", "forecast"),
    ("POST /admin/tenants", {"name": "a", "epsilon": 1, "detla": 1}, "detla", "epsilon", "delta"),
]


def test_the_problem_names_the_member_what_is_permitted_and_the_nearest_word(gateway: Gateway, tenant: Tenant) -> None:
    administrator = gateway.with_key(tenant, "admin", "read", "release", "jobs").http
    for call, body, field, permitted, nearest in WRONG:
        method, path = call.split()
        client = gateway.admin if path.startswith("/admin") else administrator
        answer = client.request(method, path, json=body)
        assert answer.status_code in (400, 422), call
        problem = answer.json().get("error", answer.json())
        found = {error["field"]: error for error in problem["errors"]}
        error = found.get(f"body.{field}".rstrip("."))
        assert error is not None, (call, found)
        assert permitted in error["permitted"], (call, error)
        assert error.get("nearest") == nearest, (call, error)
        assert nearest is None or nearest in error["message"]
        assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"type": "mask"}, "has no masking_char or no chars_to_mask"),
        ({"type": "hash", "salt": SECRET[:9]}, "has a salt of fewer than 16 bytes"),
        ({"type": "encrypt", "key": SECRET}, "has no key of 16, 24 or 32 bytes"),
    ],
)
def test_what_an_anonymizer_lacks_is_said(tenant: Tenant, terms: dict[str, str], message: str) -> None:
    body = {"text": SECRET, "analyzer_results": [], "anonymizers": {"PERSON": terms}}
    answer = tenant.http.post("/anonymize", json=body)
    assert answer.status_code == 422
    assert message in answer.text
    assert SECRET[:9] not in answer.text
