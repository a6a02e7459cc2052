"""Counting tokens: what leaves is what the generating endpoint would send. Nothing is kept or charged."""

from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_kit import ModelServer, left_in, words_in

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org."
ORIGINALS = ("Maria Keller", "maria.keller@example.org", "Lisbon")
PATHS = {"/v1/messages": "/v1/messages/count_tokens", "/v1/responses": "/v1/responses/input_tokens"}


def body_for(path: str, **fields: Any) -> dict[str, Any]:
    if path.startswith("/v1/messages"):
        return {"model": "stub-claude", "system": "Be kind.", "messages": [{"role": "user", "content": TEXT}]} | fields
    return {"model": "stub-gpt", "instructions": "Be kind.", "input": TEXT} | fields


def ask(tenant: Tenant, path: str, policy: str | None = None, **fields: Any) -> httpx.Response:
    headers = {} if policy is None else {"Privacy-Policy": policy}
    return tenant.http.post(path, json=body_for(path, **fields), headers=headers)


@pytest.mark.parametrize("path", PATHS)
def test_the_count_is_of_what_the_generating_endpoint_sends(tenant: Tenant, llm: ModelServer, path: str) -> None:
    needed = {"max_tokens": 9} if path == "/v1/messages" else {}
    for policy in (None, "forgotten", "kept-numbered"):
        generated, counted = ask(tenant, path, policy, **needed), ask(tenant, PATHS[path], policy)
        assert (generated.status_code, counted.status_code) == (200, 200), counted.text
        sent, to_count = llm.bodies[-2:]
        assert {**to_count, **needed} == sent
        assert not left_in(llm.seen, ORIGINALS)
        assert counted.json()["input_tokens"] == words_in(to_count)
        assert counted.headers["privacy-guarantee"] == "none"
    assert [raw[0] for raw in llm.raw[-2:]] == [path, PATHS[path]]
    kept = tenant.http.get("/vault").json()["entries"]
    assert kept == (1 if path == "/v1/responses" else 0)  # of the answer, and not of the count


@pytest.mark.parametrize("path", PATHS.values())
def test_a_count_by_a_policy_with_a_price_is_refused_and_free(tenant: Tenant, llm: ModelServer, path: str) -> None:
    for policy in ("priced", "priced-words"):
        refused = ask(tenant, path, policy)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "invalid-input"
        assert "price" in refused.json()["error"]["message"]
    assert not llm.bodies
    assert (tenant.committed("token"), tenant.committed("vector")) == (0.0, 0.0)


@pytest.mark.parametrize("path", PATHS.values())
@pytest.mark.parametrize("status", [404, 405, 501])
def test_an_upstream_that_counts_nothing_is_named_as_such(
    tenant: Tenant, llm: ModelServer, path: str, status: int
) -> None:
    llm.status = status
    answer = ask(tenant, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown-model")
    assert "counts no tokens" in answer.json()["error"]["message"]
    assert ("type" in answer.json()) == path.startswith("/v1/messages")


def test_errors_and_requests_of_the_other_format_have_their_own_answers(tenant: Tenant, llm: ModelServer) -> None:
    for path, model in (("/v1/messages/count_tokens", "stub-gpt"), ("/v1/responses/input_tokens", "stub-claude")):
        answer = ask(tenant, path, model=model)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown-model")
        assert "format of" in answer.json()["error"]["message"]
        unknown = ask(tenant, path, unknown_member="Maria Keller")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, "invalid-input")
    assert not llm.bodies
    llm.status = 429
    assert ask(tenant, "/v1/messages/count_tokens").status_code == 429


def test_a_count_streams_nothing_and_knows_personality(tenant: Tenant, llm: ModelServer) -> None:
    answer = ask(tenant, "/v1/responses/input_tokens", stream=True, personality="pragmatic")
    assert answer.status_code == 200, answer.text
    assert answer.json()["object"] == "response.input_tokens"
    assert llm.bodies[-1]["personality"] == "pragmatic"


def test_every_example_of_the_api_page_is_answered(proxying: Gateway, tenant: Tenant, llm: ModelServer) -> None:
    """With the name of a model that the operator has declared."""
    answered = set()
    for path, operations in proxying.app.openapi()["paths"].items():
        for operation in (each for each in operations.values() if each["tags"] == ["language models"]):
            example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if example is not None:
                model = {"model": "stub-claude" if "/messages" in path else "stub-gpt"} if "model" in example else {}
                answer = tenant.http.post(path, json=example | model)
                assert answer.status_code == 200, answer.text
                answered.add(path)
    assert len(answered) == 6
    assert llm.bodies
