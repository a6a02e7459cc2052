"""LiteLLM's guardrail contract over HTTP, by the bodies that LiteLLM sends."""

import json
from typing import Any

import httpx
import pytest
from gateway_kit import Tenant, good
from inprocess_kit import Gateway
from model_kit import left_in

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org."
ORIGINALS = ("Maria", "Keller", "maria.keller", "Lisbon")
PATH = "/beta/litellm_basic_guardrail_api"


def asked(tenant: Tenant, **fields: Any) -> httpx.Response:
    body = {
        "input_type": "request", "litellm_call_id": "c0", "litellm_trace_id": "t0", "litellm_version": "1.108.7",
        "request_data": {"user_api_key_hash": "h0"}, "request_headers": {"host": "[present]"},
        "additional_provider_specific_params": {}, "texts": [], "images": None, "tools": None,
        "structured_messages": None, "tool_calls": None, "model": "gpt-5-mini",
    }  # fmt: skip
    return tenant.http.post(PATH, json=body | fields)


def masked(tenant: Tenant, text: str = TEXT, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    answer = asked(tenant, **{"texts": [text], "structured_messages": messages} | fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["privacy-guarantee"] == "none"
    return answer.json()


def restored(tenant: Tenant, *texts: str, **fields: Any) -> dict[str, Any]:
    return good(asked(tenant, input_type="response", texts=list(texts), **fields))


def test_a_request_is_masked_and_its_answer_restored(tenant: Tenant) -> None:
    decision = masked(tenant)
    assert decision["action"] == "GUARDRAIL_INTERVENED"
    assert not left_in(json.dumps(decision), ORIGINALS)
    assert decision.keys() == {"action", "texts"}
    answer = restored(tenant, *decision["texts"], "Nobody else.")
    assert answer == {
        "action": "GUARDRAIL_INTERVENED",
        "texts": [TEXT, "Nobody else."],
        "stream_holdback_chars": answer["stream_holdback_chars"],
    }


def test_what_has_no_find_passes(tenant: Tenant) -> None:
    assert masked(tenant, "What is two and two?") == {"action": "NONE", "texts": ["What is two and two?"]}
    assert restored(tenant, "Four.") == {"action": "NONE", "texts": ["Four."]}


def test_a_growing_answer_is_restored_without_taking_back_what_was_sent(tenant: Tenant) -> None:
    whole = masked(tenant)["texts"][0] + " I repeat: " + masked(tenant)["texts"][0]
    sent = ""
    for end in range(1, len(whole) + 1):
        answer = restored(tenant, whole[:end])
        (text,), (held,) = answer["texts"], answer["stream_holdback_chars"]
        assert text.startswith(sent)
        sent = text[: len(text) - held]
    assert text == TEXT + " I repeat: " + TEXT


def test_json_stays_valid(tenant: Tenant) -> None:
    name = 'Maria "Mia" Keller'
    decision = masked(tenant, f"Her card is 4111 1111 1111 1111. {TEXT} Call {name}.")
    surrogate = decision["texts"][0]
    answer = restored(tenant, json.dumps({"note": surrogate}))
    assert json.loads(answer["texts"][0])["note"] == f"Her card is 4111 1111 1111 1111. {TEXT} Call {name}."


def test_another_call_key_or_tenant_finds_nothing(gateway: Gateway, tenant: Tenant) -> None:
    text = masked(tenant)["texts"][0]
    other = gateway.tenant()
    masked(other, "Nothing to mask in this one.")
    for asking, fields in (
        (tenant, {"litellm_call_id": "c1"}),
        (tenant, {"request_data": {"user_api_key_hash": "h1"}}),
        (tenant, {"request_data": None}),
    ):
        refused = asked(asking, input_type="response", texts=[text], **fields)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == "litellm_call_id"
    assert restored(other, text)["texts"] == [text]


def test_tools_and_tool_calls_are_masked_in_the_messages(tenant: Tenant) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "mail", "arguments": '{"to": "Maria Keller"}'}}
    messages = [
        {"role": "user", "content": "Mail Maria Keller."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "Sent to Maria Keller."},
    ]
    tools = [{"type": "function", "function": {"name": "mail", "description": "Mails Maria Keller."}}]
    texts = ["Mail Maria Keller.", "Sent to Maria Keller."]
    decision = masked(tenant, texts=texts, structured_messages=messages, tool_calls=[call], tools=tools)
    assert not left_in(json.dumps(decision), ORIGINALS)
    arguments = json.loads(decision["structured_messages"][1]["tool_calls"][0]["function"]["arguments"])
    assert list(arguments) == ["to"]
    assert decision["structured_messages"][2]["content"] == decision["texts"][1]
    assert decision["tools"][0]["function"]["name"] == "mail"

    blocked = masked(tenant, texts=texts, structured_messages=None, tool_calls=[call])
    assert blocked["action"] == "BLOCKED"


def test_a_tool_call_that_repeats_a_text_is_masked_too(tenant: Tenant) -> None:
    arguments = '{"to": "Maria Keller"}'
    call = {"id": "t1", "type": "function", "function": {"name": "mail", "arguments": arguments}}
    messages = [{"role": "user", "content": arguments}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    decision = masked(tenant, texts=[arguments], structured_messages=messages, tool_calls=[call])
    assert "Maria" not in json.dumps(decision)
    assert decision["structured_messages"][1]["tool_calls"][0]["function"]["arguments"] != arguments
    blocked = masked(tenant, texts=[arguments], structured_messages=messages[:1], tool_calls=[call])
    assert blocked["action"] == "BLOCKED"


def test_tool_calls_of_an_answer_are_blocked_while_they_cannot_be_restored(tenant: Tenant) -> None:
    surrogate = masked(tenant, "Mail Maria Keller.")["texts"][0].removeprefix("Mail ").removesuffix(".")

    def call(name: str) -> dict[str, Any]:
        return {"id": "t1", "type": "function", "function": {"name": "mail", "arguments": json.dumps({"to": name})}}

    assert restored(tenant, tool_calls=[call(surrogate)])["action"] == "BLOCKED"
    assert restored(tenant, tool_calls=[call("Somebody")])["action"] == "NONE"
    passes = {"additional_provider_specific_params": {"tool_calls": "pass", "of_another_version": 1}}
    assert restored(tenant, tool_calls=[call(surrogate)], **passes)["action"] == "NONE"


def test_what_cannot_be_masked_is_blocked_with_its_place(tenant: Tenant) -> None:
    for fields, place in (
        ({"images": ["https://example.org/zq.png"]}, "images"),
        ({"structured_messages": [{"role": "zq", "content": TEXT}]}, "messages.0"),
        ({"structured_messages": [{"role": "user", "content": [{"type": "zq"}]}]}, "messages.0.content.0"),
        ({"structured_messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        ({"additional_provider_specific_params": {"policy": "zq"}}, "policy"),
    ):
        decision = masked(tenant, **fields)
        assert decision["action"] == "BLOCKED"
        assert decision["blocked_reason"].endswith(f"({place})")
        assert "zq" not in decision["blocked_reason"].replace(place, "")


def test_bodies_that_are_not_litellms_are_refused(tenant: Tenant) -> None:
    for fields in (
        {"litellm_call_id": None},
        {"input_type": "zq"},
        {"additional_provider_specific_params": {"tool_calls": "zq"}},
    ):
        refused = asked(tenant, **{"texts": [TEXT]} | fields)
        assert refused.status_code == 422
        assert "zq" not in refused.text


def test_the_vault_counts_the_calls_that_are_kept(tenant: Tenant) -> None:
    masked(tenant)
    masked(tenant, litellm_call_id="c1")
    masked(tenant, litellm_call_id="c1")
    assert tenant.http.get("/vault").json()["entries"] == 2
    assert tenant.http.delete("/vault").status_code == 204
    assert asked(tenant, input_type="response", texts=["Nobody."]).status_code == 422


def test_the_operator_may_turn_it_off(tenant: Tenant, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.settings, "guardrail_lifetime_s", 0)
    assert asked(tenant, texts=[TEXT]).status_code == 422
    assert tenant.http.get("/vault").json()["entries"] == 0


def test_the_key_may_be_in_the_header_that_litellm_sends(gateway: Gateway, tenant: Tenant) -> None:
    body = {"input_type": "request", "litellm_call_id": "c0", "texts": [TEXT]}
    assert gateway.anyone.post(PATH, json=body, headers={"X-Api-Key": tenant.key}).status_code == 200
    assert gateway.anyone.post(PATH, json=body, headers={"X-Api-Key": "pgw_wrong"}).status_code == 401
    assert gateway.anyone.post("/sanitize", json={}, headers={"X-Api-Key": tenant.key}).status_code == 401
