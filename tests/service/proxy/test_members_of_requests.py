"""Members beside the conversation, over HTTP: what they hold is masked and restored, public, or refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx
import pytest
from agent_requests_kit import REAL
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_formats_kit import Call, Said
from model_kit import ModelServer, left_in

TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org."
ORIGINALS = ("Maria", "Keller", "Lisbon", "maria.keller@example.org")
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
SCHEMA = {"type": "object", "properties": {}}


@pytest.fixture
def tenant(proxying: Gateway) -> Tenant:
    return proxying.tenant()


def ask(tenant: Tenant, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    if path == RESPONSES:
        asked: dict[str, Any] = {"model": "stub-gpt", "input": "Hi", "store": False}
    else:
        asked = {"model": "stub-gpt", "messages": [{"role": "user", "content": "Hi"}]}
    if path == MESSAGES:
        asked |= {"model": "stub-claude", "max_tokens": 9}
    return tenant.http.post(path, json=asked | body, headers=headers)


def tool(**schema: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA | schema}}]}


MASKED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"suffix": TEXT}),
    (CHAT, {"documents": [{"title": TEXT, "text": TEXT}]}),
    (CHAT, {"guided_regex": TEXT}),
    (CHAT, {"guided_choice": [TEXT]}),
    (CHAT, {"chat_template_kwargs": {"note": TEXT, TEXT: True}}),
    (CHAT, {"metadata": {TEXT: TEXT}}),
    (CHAT, tool(pattern=TEXT)),
    (CHAT, tool(**{"x-note": {TEXT: TEXT}})),
    (CHAT, tool(properties={TEXT: {"type": "string"}}, required=[TEXT])),
    (CHAT, {"messages": [{"role": "user", "content": "Hi", "name": TEXT}]}),
    (CHAT, {"messages": [{"role": "tool", "tool_call_id": TEXT, "content": "Hi"}]}),
    (RESPONSES, {"tools": [{"type": "mcp", "server_label": "a", "server_description": TEXT}]}),
    (RESPONSES, {"tools": [{"type": "file_search", "filters": {"type": "eq", "key": "a", "value": TEXT}}]}),
    (MESSAGES, {"metadata": {"user_id": TEXT}}),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"transforms": [TEXT]}, "transforms.0"),
    (CHAT, {"service_tier": TEXT}, "service_tier"),
    (CHAT, {"vendor": {"a": TEXT}}, "2"),
    (CHAT, {TEXT: 1}, "2"),
    (CHAT, tool(format=TEXT), "tools.0.function.parameters.format"),
    (CHAT, {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "Hi", "name": TEXT}]}, "messages.0.name"),
    (CHAT, {"messages": [{"role": "user", "content": "Hi", "channel": TEXT}]}, "messages.0.2"),
    (RESPONSES, {"tools": [{"type": "mcp", "server_label": TEXT}]}, "tools.0.server_label"),
    (RESPONSES, {"tools": [{"type": "mcp", "server_label": "a", "server_url": TEXT}]}, "tools.0.server_url"),
    (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": [TEXT]}]}, "tools.0.vector_store_ids.0"),
    (MESSAGES, {"container": TEXT}, "container"),
    (
        MESSAGES,
        {"mcp_servers": [{"type": "url", "name": "a", "authorization_token": TEXT}]},
        "mcp_servers.0.authorization_token",
    ),
    (
        MESSAGES,
        {"tools": [{"type": "web_fetch_20260318", "name": "web_fetch", "allowed_domains": [TEXT]}]},
        "tools.0.allowed_domains.0",
    ),
]


@pytest.mark.parametrize(("path", "body"), MASKED)
def test_texts_beside_the_conversation_are_masked(
    tenant: Tenant, llm: ModelServer, path: str, body: dict[str, Any]
) -> None:
    assert ask(tenant, path, body).status_code == 200
    assert len(llm.bodies) == 1
    assert not left_in(llm.seen, ORIGINALS)


@pytest.mark.parametrize(("path", "body", "place"), REFUSED)
def test_texts_that_cannot_be_masked_are_refused_by_place(
    tenant: Tenant, llm: ModelServer, path: str, body: dict[str, Any], place: str
) -> None:
    refused = ask(tenant, path, body)
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert message.startswith(f"`{place}`: ")
    assert "proxy.unread" in message
    assert not left_in(refused.text, ORIGINALS)
    assert not llm.bodies


def test_a_header_that_holds_a_text_does_not_leave(tenant: Tenant, llm: ModelServer) -> None:
    assert ask(tenant, MESSAGES, {}, **{"anthropic-beta": "Ask Maria Keller"}).status_code == 400
    assert not llm.bodies
    flags = "claude-code-20250219,interleaved-thinking-2025-05-14"
    assert ask(tenant, MESSAGES, {}, **{"anthropic-beta": flags}).status_code == 200
    assert llm.headers[0]["anthropic-beta"] == flags


def test_a_policy_lets_members_pass_by_their_path(tenant: Tenant, llm: ModelServer) -> None:
    given = {"provider": {"order": ["maria"]}, "messages": [{"role": "user", "content": TEXT, "channel": "maria"}]}
    assert ask(tenant, CHAT, given).status_code == 400
    assert ask(tenant, CHAT, given, **{"Privacy-Policy": "unread"}).status_code == 200
    (sent,) = llm.bodies
    assert (sent["provider"], sent["messages"][0]["channel"]) == (given["provider"], "maria")
    assert not left_in(sent["messages"][0]["content"], ORIGINALS)


def test_masked_names_of_properties_come_back_in_the_call_of_a_tool(tenant: Tenant, llm: ModelServer) -> None:
    question = {"role": "user", "content": "How does Maria Keller like it?"}

    def call(body: dict[str, Any]) -> Said:
        (name,) = body["tools"][0]["function"]["parameters"]["properties"]
        assert body["tools"][0]["function"]["parameters"]["required"] == [name]
        return Said("", (Call("f", json.dumps({name: "well"})),))

    llm.reply = call
    name = "Rating of Maria Keller"
    asked = tool(properties={name: {"type": "string"}}, required=[name])
    for stream in (False, True):
        answer = ask(tenant, CHAT, asked | {"messages": [question], "stream": stream})
        assert answer.status_code == 200, answer.text
        assert json.dumps({name: "well"})[1:-1] in arguments_of(answer)
    assert not left_in(llm.seen, ORIGINALS)


def arguments_of(answer: httpx.Response) -> str:
    if answer.headers["content-type"].startswith("application/json"):
        return str(answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    lines = (json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {"))
    calls = (call for line in lines for choice in line["choices"] for call in choice["delta"].get("tool_calls") or ())
    return "".join(call["function"].get("arguments") or "" for call in calls)


def test_identifiers_of_calls_stay_together(tenant: Tenant, llm: ModelServer) -> None:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function} for name in ("call of Maria", "call_0123456789ab")]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
    body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": calls}, *results]}
    assert ask(tenant, CHAT, body).status_code == 200
    (_, assistant, first, second) = llm.bodies[0]["messages"]
    own, issued = (call["id"] for call in assistant["tool_calls"])
    assert (first["tool_call_id"], second["tool_call_id"]) == (own, issued)
    assert issued == "call_0123456789ab"
    assert not left_in(own, ORIGINALS)


@pytest.mark.parametrize(("path", "body"), REAL)
def test_requests_of_agents_leave_with_all_of_their_members(
    tenant: Tenant, llm: ModelServer, path: str, body: dict[str, Any]
) -> None:
    llm.reply = lambda _: "Yes."
    model = "stub-claude" if path == MESSAGES else "stub-gpt"
    assert tenant.http.post(path, json=copy.deepcopy(body) | {"model": model}).status_code == 200
    (sent,) = llm.bodies
    assert sent.keys() == body.keys()
    for name in ("tool_choice", "thinking", "betas", "reasoning", "include", "stream_options", "context_management"):
        assert sent.get(name) == body.get(name)
