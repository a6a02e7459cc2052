"""The API page has an example of each JSON body, which is answered as it stands, and names each operation once."""

import re
from typing import Any

from gateway_kit import Gateway
from inprocess_kit import Gateway as InProcessGateway

# These need what another call made, a token, a job that has ended, a model, or a store of the operator.
OTHERWISE = {
    "POST /restore", "POST /jobs/release", "POST /jobs/{job_id}/sample", "POST /finetuned/{name}/predict",
    "POST /v1/batches",
}  # fmt: skip


def operations_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each operation by its method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def test_every_example_is_answered_as_it_stands(real_gateway: Gateway) -> None:
    tenant = real_gateway.tenant(record={"epsilon": 1000, "delta": 1e-2})  # as that of `make run`
    owner = real_gateway.with_key(tenant, "admin", "read", "release", "jobs").http
    key = owner.post("/keys", json={}).json()["key_id"]
    places = {"name": "order-number", "tenant": "acme", "key_id": key, "unit": "sentence"}
    refused: dict[str, str] = {}
    for call, operation in operations_of(owner.get("/openapi.json").json()).items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None or call in OTHERWISE or operation["tags"] == ["language models"]:
            continue
        method, path = call.split()
        client = real_gateway.admin if path.startswith("/admin") else owner
        address = re.sub(r"{(\w+)}", lambda found: places[found[1]], path)
        answer = client.request(method, address, json=content["example"])
        if not answer.is_success:
            refused[call] = answer.text
        elif answer.status_code == 202:
            owner.post(f"/jobs/{answer.json()['job_id']}/cancel")
        elif call == "POST /admin/tenants/{tenant}/keys":
            places["key_id"] = answer.json()["key_id"]
    assert refused == {}


def test_operations_are_named_once_and_have_their_headers(gateway: InProcessGateway) -> None:
    operations = operations_of(gateway.app.openapi())
    named = {operation["operationId"]: operation["parameters"] for operation in operations.values()}
    assert len(named) == len(operations)
    assert all(re.fullmatch("[a-z_]+", name) for name in named)
    headers = {name: [each["name"] for each in parameters] for name, parameters in named.items()}
    assert all(names.count("X-Request-ID") == 1 for names in headers.values())
    assert {name for name, names in headers.items() if "Idempotency-Key" in names} >= {
        "sanitize", "embed_sentdp", "embed_vector", "embed_vector_file", "create_embeddings", "create_finetune",
        "predict", "openai_chat",
    }  # fmt: skip
