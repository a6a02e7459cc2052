"""Members beside the conversation, over HTTP: what they hold is masked and restored, public, or refused."""

import json
from typing import Any

import httpx
from gateway_kit import Tenant
from inprocess_kit import Gateway
from model_formats_kit import Call, Said
from model_kit import ModelServer, heard_in, left_in

from gpu_workers.engine.protocol import Role

CACHED = '"cache_control": {"type": "ephemeral", "ttl": "1h"}'
TYPED = """
{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
 "properties": {"file_path": {"type": "string", "description": "The file", "pattern": "^/"},
  "pet": {"discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat"}},
   "oneOf": [{"$ref": "#/$defs/Cat"}]},
  "limit": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}], "default": null}},
 "$defs": {"Cat": {"type": "object", "properties": {}, "title": "Cat"}}, "required": ["file_path"],
 "additionalProperties": false}
"""
# Requests as agents send them. CACHED and TYPED stand for the member and the schema above.
REAL = {
    "/v1/messages": r"""
{"model": "claude-opus-5", "max_tokens": 32000,
 "system": [{"type": "text", "text": "You are an agent.", CACHED}],
 "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", CACHED}]},
  {"role": "assistant",
   "content": [{"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "Read",
     "input": {"file_path": "/a"}, "caller": {"type": "direct"}}]},
  {"role": "user",
   "content": [{"type": "tool_result", "tool_use_id": "toolu_01A09q90qw90lq917835lq9", "content": "1",
     "is_error": false, CACHED}]}],
 "tools": [{"name": "mcp__ide__getDiagnostics", "description": "Reads", "input_schema": TYPED,
   CACHED}],
 "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
 "metadata": {"user_id": "user_0123_account__session_0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab"},
 "thinking": {"type": "enabled", "budget_tokens": 31999},
 "betas": ["claude-code-20250219", "interleaved-thinking-2025-05-14"], "output_config": {"effort": "high"},
 "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
""",
    "/v1/responses": r"""
{"model": "gpt-5-codex", "instructions": "You are an agent.",
 "input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Hi"}]},
  {"type": "reasoning", "id": "rs_0123456789abcdef", "summary": [{"type": "summary_text", "text": "Reads"}],
   "content": null, "encrypted_content": "gAAAAABogAAAAABogAAAAABogAAAAABo=="},
  {"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "call_a1B2c3D4e5F6"},
  {"type": "function_call_output", "call_id": "call_a1B2c3D4e5F6", "output": "a"}],
 "tools": [{"type": "function", "name": "shell", "strict": false, "parameters": TYPED},
  {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "a"}},
  {"type": "web_search", "external_web_access": true}],
 "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"effort": "medium", "summary": "auto"},
 "store": false, "include": ["reasoning.encrypted_content"],
 "prompt_cache_key": "0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab", "text": {"verbosity": "low"}, "service_tier": "priority",
 "client_metadata": {"x-codex-installation-id": "0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab"}}
""",
    "/v1/chat/completions": r"""
{"model": "gpt-5-mini", "stream_options": {"include_usage": true}, "reasoning_effort": "minimal",
 "logit_bias": {"50256": -100},
 "messages": [{"role": "system", "content": [{"type": "text", "text": "Hi", CACHED}]},
  {"role": "assistant", "content": null, "refusal": null, "annotations": [], "audio": null, "function_call": null,
   "reasoning_content": "It is", "provider_specific_fields": {"citations": null},
   "tool_calls": [{"index": 0, "id": "chatcmpl-tool-0123456789abcdef0123456789abcdef", "type": "function",
     "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}}]},
  {"role": "tool", "tool_call_id": "chatcmpl-tool-0123456789abcdef0123456789abcdef", "name": "get_weather",
   "content": "Sunny"}],
 "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": TYPED, "strict": true}}],
 "tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "top_k": 20, "min_p": 0.0,
 "stop_token_ids": [2], "chat_template_kwargs": {"enable_thinking": false}, "guided_choice": ["yes", "no"],
 "documents": [{"title": "A", "text": "B"}]}
""",
}


TEXT = "Please write to Maria Keller in Lisbon, maria.keller@example.org."
ORIGINALS = ("Maria", "Keller", "Lisbon", "maria.keller@example.org")
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
SCHEMA = {"type": "object", "properties": {}}
KEPT = ("tool_choice", "thinking", "betas", "reasoning", "include", "stream_options", "context_management")


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


# test_planted_texts.py plants texts in every member
MASKED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"documents": [{"title": TEXT, "text": TEXT}], "metadata": {TEXT: TEXT}, "suffix": TEXT}),
    (CHAT, tool(properties={TEXT: {"type": "string"}}, required=[TEXT], pattern=TEXT)),
    (CHAT, {"messages": [{"role": "tool", "tool_call_id": TEXT, "content": "Hi"}]}),
    (RESPONSES, {"tools": [{"type": "file_search", "filters": {"type": "eq", "key": "a", "value": TEXT}}]}),
    (MESSAGES, {"metadata": {"user_id": TEXT}}),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"vendor": {"a": TEXT}}, "2"),
    (CHAT, {TEXT: 1}, "2"),
    (CHAT, {"messages": [{"role": "user", "content": "Hi", "channel": TEXT}]}, "messages.0.2"),
    (RESPONSES, {"tools": [{"type": "mcp", "server_label": TEXT}]}, "tools.0.server_label"),
    (MESSAGES, {"container": TEXT}, "container"),
]


def test_texts_beside_the_conversation_are_masked(tenant: Tenant, llm: ModelServer) -> None:
    for number, (path, body) in enumerate(MASKED, 1):
        assert ask(tenant, path, body).status_code == 200
        assert len(llm.bodies) == number
    assert not left_in(llm.seen, ORIGINALS)


def test_texts_that_cannot_be_masked_are_refused_by_place(tenant: Tenant, llm: ModelServer) -> None:
    for path, body, place in REFUSED:
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


def test_nothing_leaves_while_recognisers_die(proxying: Gateway, tenant: Tenant, llm: ModelServer) -> None:
    proxying.kill_worker_at_work(Role.SANITIZE)
    answer = ask(tenant, CHAT, {"messages": [{"role": "user", "content": TEXT}]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "worker-died")
    assert not llm.bodies


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
        assert [json.loads(arguments) for arguments in heard_in(answer).arguments] == [{name: "well"}]
    assert not left_in(llm.seen, ORIGINALS)


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


def test_requests_of_agents_leave_with_all_of_their_members(tenant: Tenant, llm: ModelServer) -> None:
    llm.reply = lambda _: "Yes."
    for path, text in REAL.items():
        body = json.loads(text.replace("TYPED", TYPED).replace("CACHED", CACHED))
        model = "stub-claude" if path == MESSAGES else "stub-gpt"
        assert tenant.http.post(path, json=body | {"model": model}).status_code == 200
        sent = llm.bodies[-1]
        assert sent.keys() == body.keys()
        for name in KEPT:
            assert sent.get(name) == body.get(name)
