"""Which texts of a request the dialects find: every string that the SDKs' types declare, but for a documented list."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic.types.beta.message_create_params
import anthropic.types.message_create_params
import openai.types.chat.completion_create_params
import openai.types.responses.response_create_params
import pytest
from sdk_samples_kit import Samples, mask

from core.errors import InvalidInput
from service.proxy.dialects import shapes
from service.proxy.dialects.registry import DIALECTS
from service.proxy.dialects.shapes import DEPTH_MAX
from service.proxy.slots import Kind, Slot

CHAT, RESPONSES, MESSAGES = DIALECTS["/v1/chat/completions"], DIALECTS["/v1/responses"], DIALECTS["/v1/messages"]

# The strings that stay, by member, or by type and member where other types have a text of that name.
UNTOUCHED_OF_CHAT = """
    model voice id tool_call_id country timezone ChatCompletionAllowedToolsParam.tools Function.name FunctionCall.name
    Custom.name FunctionDefinition.name JSONSchema.name ChatCompletionFunctionCallOptionParam.name
    ChatCompletionFunctionMessageParam.name"""
UNTOUCHED_OF_RESPONSES = """
    model id call_id caller_id file_id file_ids container container_id skill_id tunnel_id vector_store_ids version name
    namespace keys key size mode country timezone allowed_domains continuation_id previous_response_id conversation
    comparison_response_id approval_request_id fingerprint encrypted_content server_label server_url authorization
    headers allowed_tools tool_names ToolChoiceAllowedParam.tools ContextManagement.type ImageGenerationCallError.type
    ImageGenerationCallError.code ImageGenerationCallError.param PendingSafetyCheck.code
    ComputerCallOutputAcknowledgedSafetyCheck.code ImageGenerationCallErrorModerationDetails.categories
    ContainerNetworkPolicyDomainSecretParam.domain ContainerNetworkPolicyDomainSecretParam.value"""
UNTOUCHED_OF_MESSAGES = """
    model id tool_use_id tool_id tab_id download_id file_id skill_id previous_message_id user_profile_id workspace_id
    version name tool_name toolset_name server_name mcp_server_name country timezone allowed_domains blocked_domains
    signature encrypted_content encrypted_stdout encrypted_index RedactedThinkingBlock.data
    RedactedThinkingBlockParam.data BetaRedactedThinkingBlock.data BetaRedactedThinkingBlockParam.data page_age
    retrieved_at container inference_geo required betas stop_reason token fallback_credit_token trigger
    clear_tool_inputs exclude_tools allowed_tools authorization_token BetaRequestMCPServerURLDefinitionParam.url"""
REQUESTS = [
    (CHAT, openai.types.chat.completion_create_params.CompletionCreateParamsStreaming, UNTOUCHED_OF_CHAT),
    (RESPONSES, openai.types.responses.response_create_params.ResponseCreateParamsStreaming, UNTOUCHED_OF_RESPONSES),
    (MESSAGES, anthropic.types.message_create_params.MessageCreateParamsStreaming, UNTOUCHED_OF_MESSAGES),
    (MESSAGES, anthropic.types.beta.message_create_params.MessageCreateParamsStreaming, UNTOUCHED_OF_MESSAGES),
]


@pytest.mark.parametrize(("dialect", "kind", "untouched"), REQUESTS)
def test_every_string_of_a_request_is_found_but_the_documented_ones(dialect: Any, kind: type, untouched: str) -> None:
    samples, left = Samples(), set()
    for body in samples.bodies(kind):
        mask(dialect.slots(body))
        left |= samples.left_in(json.dumps(body))

    assert len(samples.members) > 50
    allowed = set(untouched.split())
    assert not {member for member in left if member not in allowed and member.split(".")[1] not in allowed}


@pytest.mark.parametrize(("dialect", "kind", "untouched"), REQUESTS)
def test_no_declared_content_counts_as_unknown(dialect: Any, kind: type, untouched: str) -> None:
    """Media are images, sounds, files and documents by reference; every other declared type has a row of its own."""
    media = set()
    for body in Samples().bodies(kind):
        for slot in dialect.slots(body):
            if slot.kind is Kind.MEDIA and isinstance(slot.value, dict):
                media.add(slot.value.get("type", slot.key))

    assert media <= {
        *("image_url", "input_audio", "file", "audio"),
        *("input_image", "input_file", "computer_screenshot", "image", "input_image_mask", "base64", "source"),
        *("url", "container_upload"),
    }


def test_kinds_of_a_chat_request() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"to":"Maria"}'}}
    tool = {"name": "f", "description": "Write", "parameters": {"properties": {"to": {"description": "Who"}}}}
    body = {
        "model": "m",
        "user": "maria@example.org",
        "messages": [
            {
                "role": "user",
                "name": "Maria",
                "content": [{"type": "text", "text": "Hi"}, {"type": "new", "words": "x"}],
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [{"type": "function", "function": tool}],
        "metadata": {"Maria's key": "Maria"},
    }

    assert {(slot.path, slot.kind, str(slot.value)) for slot in CHAT.slots(body)} == {
        ("messages.0.name", Kind.TEXT, "Maria"),
        ("messages.0.content.0.text", Kind.TEXT, "Hi"),
        ("messages.0.content.1", Kind.MEDIA, "{'type': 'new', 'words': 'x'}"),
        ("messages.1.tool_calls.0.function.arguments", Kind.JSON, '{"to":"Maria"}'),
        ("messages.2.content", Kind.TEXT, "done"),
        ("tools.0.function.description", Kind.DEFINITION, "Write"),
        ("tools.0.function.parameters.properties.0.description", Kind.DEFINITION, "Who"),
        ("metadata.0", Kind.TEXT, "Maria"),
        ("user", Kind.IDENTIFIER, "maria@example.org"),
    }
    assert "Maria" not in repr(list(CHAT.slots(body)))


def test_kinds_of_a_messages_request() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Maria asks", "signature": "s"},
        {"type": "thinking", "thinking": "Maria asks"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"to": ["Maria"]}},
        {"type": "document", "title": "CV", "source": {"type": "base64", "data": "AA"}},
        {"type": "web_search_tool_result", "content": {"type": "unheard_of", "text": "Maria"}},
    ]
    body = {"model": "m", "messages": [{"role": "assistant", "content": blocks}], "metadata": {"user_id": "u"}}

    assert {(slot.path, slot.kind) for slot in MESSAGES.slots(body)} == {
        ("messages.0.content.0.thinking", Kind.KNOWN),
        ("messages.0.content.1.thinking", Kind.TEXT),
        ("messages.0.content.2.input", Kind.VALUE),
        ("messages.0.content.3.source", Kind.MEDIA),
        ("messages.0.content.3.title", Kind.TEXT),
        ("messages.0.content.4.content", Kind.MEDIA),
        ("metadata.user_id", Kind.IDENTIFIER),
    }


def test_texts_of_unknown_members_of_a_conversation_are_found() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "Maria asks", "id": "r1", "format": "vendor-v1", "index": 0},
        {"type": "reasoning.text", "text": "Maria", "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "TWFyaWE="},
    ]
    message = {"role": "assistant", "content": "Hi", "reasoning_details": details, "channel": {"Maria": ["Maria"]}}
    message["author"] = {"name": "Maria", "account_id": "a1"}
    chat = {"model": "m", "messages": [message], "provider": {"order": ["Maria"]}, "models": ["Maria"]}
    block = {"type": "text", "text": "Hi", "remark": "Maria"}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi", "remark": "Maria"}]}

    assert [(slot.path, slot.kind) for slot in CHAT.slots(chat)] == [
        ("messages.0.content", Kind.TEXT),
        ("messages.0.2.0.1", Kind.TEXT),
        ("messages.0.2.1.1", Kind.KNOWN),
        ("messages.0.3.0.0", Kind.TEXT),
        ("messages.0.4.0", Kind.TEXT),
    ]
    assert [slot.value for slot in MESSAGES.slots({"messages": [{"role": "user", "content": [block]}]})] == [
        "Hi",
        "Maria",
    ]
    assert [slot.value for slot in RESPONSES.slots({"input": [item]})] == ["Hi", "Maria"]


def test_texts_of_unknown_members_of_a_message_and_of_a_call_are_found() -> None:
    message = {"role": "user", "content": "Hi", "remark": "Maria", "name": "a", "clear_at": "never"}
    function = {"name": "f", "arguments": '{"a": "Weber"}', "reason": "Maria"}
    calls = [
        {"id": "c1", "type": "function", "function": function},
        {"id": "c2", "type": "custom", "custom": {"name": "f", "input": "Weber", "reason": "Maria"}},
    ]
    chat = {"messages": [{"role": "assistant", "tool_calls": calls, "function_call": function}]}

    assert [slot.value for slot in MESSAGES.slots({"messages": [message]})] == ["Hi", "Maria"]
    found = sorted(slot.value for slot in CHAT.slots(chat) if slot.kind is Kind.TEXT)
    assert found == ["Maria", "Maria", "Maria", "Weber"]


@pytest.mark.parametrize(("dialect", "kind", "untouched"), REQUESTS)
def test_no_declared_member_counts_as_unknown(
    dialect: Any, kind: type, untouched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Slot] = []
    of_unknown = shapes._unknown
    monkeypatch.setattr(shapes, "_unknown", lambda *given: found.extend(of_unknown(*given)) or iter(()))
    for body in Samples().bodies(kind):
        list(dialect.slots(body))
    assert not found


def test_items_of_responses_without_a_type() -> None:
    items = [{"role": "user", "content": "Maria"}, {"id": "m1"}, {"call_id": "c", "output": "Maria"}]
    slots = list(RESPONSES.slots({"model": "m", "input": items}))

    assert [(slot.path, slot.kind) for slot in slots] == [("input.0.content", Kind.TEXT), ("input.2", Kind.MEDIA)]


def test_log_probabilities_of_earlier_answers_do_not_leave() -> None:
    part = {"type": "output_text", "text": "Maria", "annotations": [], "logprobs": [{"token": "Maria", "bytes": [77]}]}
    list(RESPONSES.slots({"input": [{"type": "message", "role": "assistant", "content": [part]}]}))

    assert part["logprobs"] == []


@pytest.mark.parametrize(
    ("dialect", "body", "field"),
    [
        (CHAT, {"messages": "Maria"}, "messages"),
        (CHAT, {"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        (CHAT, {"messages": [{"role": "user", "content": ["Maria"]}]}, "messages.0.content.0"),
        (
            CHAT,
            {"messages": [{"role": "tool", "content": [{"type": "text", "text": {}}]}]},
            "messages.0.content.0.text",
        ),
        (CHAT, {"user": ["Maria"]}, "user"),
        (CHAT, {"metadata": {"Maria": 1}}, "metadata.0"),
        (CHAT, ["Maria"], None),
        (RESPONSES, {"input": {"role": "user"}}, "input"),
        (RESPONSES, {"input": [{"type": "function_call", "arguments": {}}]}, "input.0.arguments"),
        (MESSAGES, {"system": 1}, "system"),
        (MESSAGES, {"stop_sequences": "Maria"}, "stop_sequences"),
    ],
)
def test_members_of_another_json_type_are_refused_by_path(dialect: Any, body: Any, field: str | None) -> None:
    with pytest.raises(InvalidInput) as refused:
        list(dialect.slots(body))

    assert refused.value.field == field
    assert "Maria" not in str(refused.value)


@pytest.mark.parametrize("depth", [DEPTH_MAX, 5_000])
def test_texts_that_are_nested_too_deeply_are_refused(depth: int) -> None:
    schema: dict[str, Any] = {"description": "Maria"}
    blocks: dict[str, Any] = {"type": "text", "text": "Maria"}
    for _ in range(depth):
        schema = {"items": schema}
        blocks = {"type": "tool_result", "content": [blocks]}

    with pytest.raises(InvalidInput, match=str(DEPTH_MAX)):
        list(CHAT.slots({"functions": [{"parameters": schema}]}))
    with pytest.raises(InvalidInput, match=str(DEPTH_MAX)):
        list(MESSAGES.slots({"messages": [{"role": "user", "content": [blocks]}]}))


def test_model_stream_structure_and_seed() -> None:
    user = {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "first"}]}
    chat = {"model": "m", "stream": True, "messages": [{"role": "system", "content": "s"}, user]}
    assert (CHAT.model(chat), CHAT.streams(chat), CHAT.messages_of_user(chat)) == ("m", True, "first")
    assert CHAT.structured({"response_format": {"type": "json_schema"}})
    assert RESPONSES.messages_of_user({"input": "first"}) == "first"
    assert RESPONSES.messages_of_user({"input": [{"role": "user", "content": "first"}]}) == "first"
    assert RESPONSES.structured({"text": {"format": {"type": "json_object"}}})
    assert not RESPONSES.structured({"text": {"format": {"type": "text"}}})
    assert MESSAGES.structured({"output_config": {"format": {"type": "json_schema"}}})
    assert MESSAGES.messages_of_user({"messages": []}) == ""
    for dialect in DIALECTS.values():
        assert not dialect.streams({"stream": None})
        for body in ({}, {"model": 1}, [], {"model": ""}):
            with pytest.raises(InvalidInput):
                dialect.model(body)
        with pytest.raises(InvalidInput):
            dialect.streams({"stream": "yes"})


def test_what_the_upstream_keeps() -> None:
    assert CHAT.kept_by_upstream({}) == ()
    assert CHAT.kept_by_upstream({"store": True}) == ("store",)
    assert RESPONSES.kept_by_upstream({}) == ("store",)
    assert RESPONSES.kept_by_upstream({"store": None}) == ("store",)
    assert RESPONSES.kept_by_upstream({"store": False}) == ()
    asked = {"store": False, "previous_response_id": "r", "conversation": {"id": "c"}, "background": True}
    asked["input"] = [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "i"}]
    assert RESPONSES.kept_by_upstream(asked) == ("previous_response_id", "conversation", "background", "input.1")
    assert MESSAGES.kept_by_upstream({"messages": []}) == ()
    assert MESSAGES.kept_by_upstream({"thread": {"type": "create"}}) == ("thread",)


def test_paths_name_members_of_the_api_alone() -> None:
    for dialect, kind, _ in REQUESTS:
        for body in Samples().bodies(kind):
            assert all(re.fullmatch(r"[a-z_0-9.$A-Z]+", slot.path) for slot in dialect.slots(body))
            assert not any(
                "key" in slot.path.split(".") or "city" in slot.path.split(".properties")
                for slot in dialect.slots(body)
            )
