"""Requests whose texts are filled under a budget: what leaves, what it costs, and what the headers say."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, opened_gateway
from model_kit import ModelServer, left_in
from proxy_kit import POLICIES

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org."
ORIGINALS = ("Maria Keller", "maria.keller@example.org")  # a private fill may draw one word that stood there
EPSILON = 4.0


@pytest.fixture
def tenant(proxying: Gateway) -> Tenant:
    return proxying.tenant(epsilon=100.0)


def ask(tenant: Tenant, *texts: str, policy: str = "priced", headers: Any = None, **fields: Any) -> httpx.Response:
    messages = [{"role": "user", "content": text} for text in texts or (TEXT,)]
    body = {"model": "stub-gpt", "messages": messages} | fields
    return tenant.http.post("/v1/chat/completions", json=body, headers={"Privacy-Policy": policy} | dict(headers or {}))


def sent(llm: ModelServer) -> list[str]:
    return [message["content"] for message in llm.bodies[-1]["messages"]]


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_each_text_is_filled_and_charged_before_it_leaves(tenant: Tenant, llm: ModelServer) -> None:
    answer = ask(tenant, TEXT, "Nothing is masked here.", TEXT)
    assert answer.status_code == 200, answer.text
    first, second, third = sent(llm)
    assert second == "Nothing is masked here."
    for filled in (first, third):
        assert filled.startswith("Please write to ")
        assert not left_in(filled, ORIGINALS)
    assert tenant.committed("token") == 3 * EPSILON
    assert answer.headers["privacy-guarantee"] == "pure-dp; unit=token"
    assert answer.headers["privacy-epsilon"] == str(EPSILON)
    assert answer.headers["privacy-remaining"] == str(100.0 - 3 * EPSILON)
    assert answer.headers["release-id"]
    assert answer.json()["choices"][0]["message"]["content"] == third  # as the model said it


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_every_format_is_filled(tenant: Tenant, llm: ModelServer, path: str, stream: bool) -> None:
    body: dict[str, Any] = {"model": "stub-gpt", "input": TEXT, "instructions": "Be kind.", "stream": stream}
    if path == "/v1/messages":
        turn = {"role": "user", "content": [{"type": "text", "text": TEXT}]}
        body = {"model": "stub-claude", "max_tokens": 9, "system": "Be kind.", "messages": [turn], "stream": stream}
    answer = tenant.http.post(path, json=body, headers={"Privacy-Policy": "priced"})
    assert answer.status_code == 200, answer.text
    assert not left_in(llm.seen + answer.text, ORIGINALS)
    assert answer.headers["privacy-guarantee"] == "pure-dp; unit=token"
    assert tenant.committed("token") == 2 * EPSILON


def test_metric_fills_say_their_worst_case(tenant: Tenant, llm: ModelServer) -> None:
    answer = ask(tenant, "Zworykin met the buyers on Monday.", policy="priced-words")
    assert answer.status_code == 200, answer.text
    guarantee, unit, worst = answer.headers["privacy-guarantee"].split("; ")
    assert (guarantee, unit) == ("metric-dp", "unit=token")
    assert float(worst.removeprefix("epsilon-worst-case=")) == tenant.committed("token")
    assert float(answer.headers["privacy-epsilon"]) == 2.5 == tenant.committed("vector")
    assert not left_in(llm.seen, ["Zworykin"])


def test_keys_and_form_of_json_stay(tenant: Tenant, llm: ModelServer) -> None:
    call = {"name": "mail", "arguments": json.dumps({"to": "Maria Keller", "copies": 2, "urgent": ""})}
    messages: Any = [
        {"role": "user", "content": "Mail her."},
        {"role": "assistant", "tool_calls": [{"id": "t1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "t1", "content": json.dumps([{"customer": "Maria Keller"}])},
    ]
    answer = ask(tenant, messages=messages)
    assert answer.status_code == 200, answer.text
    found = llm.bodies[-1]["messages"]
    arguments = json.loads(found[1]["tool_calls"][0]["function"]["arguments"])
    assert (list(arguments), arguments["copies"], arguments["urgent"]) == (["to", "copies", "urgent"], 2, "")
    assert list(json.loads(found[2]["content"])[0]) == ["customer"]
    assert not left_in(llm.seen, ["Maria Keller"])
    assert tenant.committed("token") == 4 * EPSILON  # the number is a value, too


def test_without_budget_nothing_leaves_and_nothing_is_charged(proxying: Gateway, llm: ModelServer) -> None:
    poor = proxying.tenant(epsilon=2 * EPSILON)
    error = refused(ask(poor, TEXT, TEXT, TEXT), 403, "budget-exhausted")
    assert error["requested"]["epsilon"] == 3 * EPSILON
    assert not llm.bodies
    assert poor.committed("token") == 0.0
    assert ask(poor, TEXT, TEXT).status_code == 200
    refused(ask(poor), 403, "budget-exhausted")
    assert len(llm.bodies) == 1


def test_a_repeat_under_the_same_key_sends_the_same_text_and_costs_nothing(tenant: Tenant, llm: ModelServer) -> None:
    key = {"Idempotency-Key": "k1"}
    first, second = ask(tenant, headers=key), ask(tenant, headers=key)
    assert first.headers["release-id"] == second.headers["release-id"]
    assert llm.bodies[0] == llm.bodies[1]
    assert tenant.committed("token") == EPSILON
    refused(ask(tenant, "Another text.", headers=key), 400, "idempotency-conflict")
    refused(ask(tenant, policy="priced-words", headers=key), 400, "idempotency-conflict")
    ask(tenant)
    assert llm.bodies[2] != llm.bodies[0] or tenant.committed("token") == 2 * EPSILON
    assert tenant.committed("token") == 2 * EPSILON


def test_a_retry_of_an_sdk_sends_the_same_text_and_costs_nothing(tenant: Tenant, llm: ModelServer) -> None:
    first, second = (ask(tenant, headers={"X-Stainless-Retry-Count": number}) for number in "01")
    assert first.headers["release-id"] == second.headers["release-id"]
    assert llm.bodies[0] == llm.bodies[1]
    assert tenant.committed("token") == EPSILON
    ask(tenant, policy="priced-words", headers={"X-Stainless-Retry-Count": "2"})
    assert tenant.committed("token") > EPSILON
    cost = tenant.committed("token")
    ask(tenant, headers={"X-Stainless-Retry-Count": "0"})
    assert tenant.committed("token") == cost + EPSILON


def test_a_failed_upstream_keeps_the_charge_and_says_so(tenant: Tenant, llm: ModelServer) -> None:
    llm.status = 500
    failed = ask(tenant)
    assert failed.status_code == 500
    assert failed.headers["x-should-retry"] == "false"
    assert failed.headers["privacy-epsilon"] == str(EPSILON)
    assert tenant.committed("token") == EPSILON
    llm.status = 200
    again = ask(tenant, headers={"Idempotency-Key": failed.headers["idempotency-key"]})
    assert again.status_code == 200, again.text
    assert tenant.committed("token") == EPSILON
    assert llm.bodies[0] == llm.bodies[1]


def test_what_has_no_guarantee_is_refused_before_it_costs(tenant: Tenant, llm: ModelServer) -> None:
    signed = [{"type": "thinking", "thinking": TEXT, "signature": "c2ln"}]
    turns = [{"role": "user", "content": "Hm."}, {"role": "assistant", "content": signed}]
    body = {"model": "stub-claude", "max_tokens": 9, "messages": turns}
    answer = tenant.http.post("/v1/messages", json=body, headers={"Privacy-Policy": "priced"})
    assert answer.status_code == 400
    picture = [{"type": "image_url", "image_url": {"url": "https://example.org/zq.png"}}]
    refused(ask(tenant, messages=[{"role": "user", "content": picture}]), 400, "invalid-input")
    refused(ask(tenant, " "), 400, "invalid-input")
    refused(ask(tenant, *["x"] * 257), 400, "invalid-input")
    background = {"model": "stub-gpt", "input": TEXT, "background": True}
    answer = tenant.http.post("/v1/responses", json=background, headers={"Privacy-Policy": "priced"})
    refused(answer, 400, "invalid-input")
    refused(ask(tenant, headers={"Privacy-Subject": "subject-ada"}), 400, "subject-not-allowed")
    assert not llm.bodies
    assert tenant.committed("token") == 0.0


def respond(tenant: Tenant, policy: str, **fields: Any) -> httpx.Response:
    body = {"model": "stub-gpt", "input": TEXT} | fields
    return tenant.http.post("/v1/responses", json=body, headers={"Privacy-Policy": policy})


def test_a_conversation_that_the_upstream_keeps_costs_its_new_texts(
    stub: ModelServer, llm: ModelServer, tmp_path: Path
) -> None:
    """At an upstream of one tenant."""
    upstreams = {name: given | {"tenants": ["alone"]} for name, given in json.loads(stub.setting).items()}
    with opened_gateway(tmp_path, {}, policies=POLICIES, UPSTREAMS=json.dumps(upstreams)) as gateway:
        tenant = gateway.tenant("alone")
        for number, fields in enumerate(({}, {"previous_response_id": "r1"}, {"conversation": "c1"}), 1):
            answer = respond(tenant, "priced", **fields)
            assert answer.status_code == 200, answer.text
            assert tenant.committed("token") == number * EPSILON


def test_a_tenant_continues_its_own_answers_alone_where_several_share_the_model(
    proxying: Gateway, tenant: Tenant, llm: ModelServer
) -> None:
    first = respond(tenant, "priced-kept")
    assert first.status_code == 200, first.text
    own = {"previous_response_id": first.json()["id"]}
    other = proxying.tenant(epsilon=100.0)
    items = [{"role": "user", "content": TEXT}, {"type": "item_reference", "id": "i1"}]
    for caller, policy, fields, place in (
        (other, "priced-kept", own, "previous_response_id"),
        (tenant, "priced", own, "previous_response_id"),
        (tenant, "priced-kept", {"previous_response_id": "unknown"}, "previous_response_id"),
        (tenant, "priced-kept", {"conversation": "c1"}, "conversation"),
        (tenant, "priced-kept", {"input": items}, "input"),
    ):
        assert refused(respond(caller, policy, **fields), 400, "invalid-input")["param"] == place
    assert len(llm.bodies) == 1
    assert (tenant.committed("token"), other.committed("token")) == (EPSILON, 0.0)
    assert respond(tenant, "priced-kept", **own).status_code == 200
    assert tenant.committed("token") == 2 * EPSILON
    vault = tenant.http.get("/vault").json()
    assert "Maria" not in json.dumps(vault)


def test_a_later_turn_does_not_show_whether_the_text_of_a_priced_turn_is_the_same(
    tenant: Tenant, llm: ModelServer
) -> None:
    """Its surrogates would, if their key were made of that text."""
    second = []
    for _ in range(3):
        first = respond(tenant, "priced-kept")
        assert first.status_code == 200, first.text
        continued = {"input": "Jonas Weber lives in Porto.", "previous_response_id": first.json()["id"]}
        assert respond(tenant, "kept", **continued).status_code == 200
        second.append(llm.bodies[-1]["input"])
        assert not left_in(second[-1], ["Jonas Weber", "Porto"])
    assert len(set(second)) > 1


def test_a_subject_pays_for_its_requests(proxying: Gateway, llm: ModelServer) -> None:
    tenant = proxying.tenant(epsilon=1000.0, subject_epsilon=EPSILON)
    refused(ask(tenant), 400, "subject-required")
    for subject in ("subject-ada", "subject-bob"):
        assert ask(tenant, headers={"Privacy-Subject": subject}).status_code == 200
    refused(ask(tenant, headers={"Privacy-Subject": "subject-ada"}), 403, "budget-exhausted")
    assert len(llm.bodies) == 2
    assert "subject-ada" not in llm.seen


def test_with_reuse_a_conversation_pays_for_each_text_once(stub: ModelServer, llm: ModelServer, tmp_path: Path) -> None:
    settings = {"UPSTREAMS": stub.setting, "REUSE_RETENTION_S": "3600"}
    with opened_gateway(tmp_path, {}, policies=POLICIES, **settings) as gateway:
        tenant = gateway.tenant()
        turns = [TEXT, "Jonas Weber lives in Porto.", "Who lives in Porto?"]
        for count in range(1, len(turns) + 1):
            answer = ask(tenant, *turns[:count])
            assert answer.headers["privacy-guarantee"] == "pure-dp; unit=token; repeats=public"
            assert tenant.committed("token") == count * EPSILON
        assert sent(llm)[:2] == [message["content"] for message in llm.bodies[1]["messages"]]
        last = ask(tenant, *turns)  # nothing is new
        assert last.status_code == 200
        assert llm.bodies[-1] == llm.bodies[-2]
        assert tenant.committed("token") == len(turns) * EPSILON
        assert "release-id" not in last.headers
        ask(gateway.tenant(), *turns)
        ask(tenant, *turns, headers={"Idempotency-Key": "k"})
        assert tenant.committed("token") == 2 * len(turns) * EPSILON
