"""Which texts of a request the dialects find, and what they refuse."""

from typing import Any

import pytest
from planting_kit import SIGNATURE

from core.errors import InvalidInput
from service.proxy.dialects.shapes import DEPTH_MAX
from service.proxy.endpoints import DIALECTS
from service.proxy.slots import SlotKind

CHAT, RESPONSES, MESSAGES = DIALECTS["/v1/chat/completions"], DIALECTS["/v1/responses"], DIALECTS["/v1/messages"]


def message(role: str = "user", **members: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, **members}]}


def test_kinds_of_a_chat_request() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"to":"Maria"}'}}
    tool = {"name": "f", "description": "Write", "parameters": {"properties": {"to": {"description": "Who"}}}}
    body = {
        "model": "m", "user": "maria@example.org",
        "messages": [
            {
                "role": "user", "name": "Maria",
                "content": [{"type": "text", "text": "Hi"}, {"type": "new", "words": "x"}],
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [{"type": "function", "function": tool}], "metadata": {"Maria's key": "Maria"},
    }  # fmt: skip

    assert {(slot.path, slot.kind, str(slot.value)) for slot in CHAT.slots(body)} == {
        ("messages.0.name", SlotKind.TEXT, "Maria"), ("messages.0.content.0.text", SlotKind.TEXT, "Hi"),
        ("messages.0.content.1", SlotKind.MEDIA, "{'type': 'new', 'words': 'x'}"),
        ("messages.1.tool_calls.0.function.arguments", SlotKind.JSON, '{"to":"Maria"}'),
        ("messages.2.content", SlotKind.TEXT, "done"), ("tools.0.function.description", SlotKind.DEFINITION, "Write"),
        ("tools.0.function.parameters.properties.0.description", SlotKind.DEFINITION, "Who"),
        ("metadata.0", SlotKind.TEXT, "Maria"), ("metadata.0", SlotKind.TEXT, "Maria's key"),
        ("user", SlotKind.IDENTIFIER, "maria@example.org"),
    }  # fmt: skip
    assert "Maria" not in repr(list(CHAT.slots(body)))


def test_kinds_of_a_messages_request() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Maria asks", "signature": SIGNATURE},
        {"type": "thinking", "thinking": "Maria asks"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"to": ["Maria"]}},
        {"type": "document", "title": "CV", "source": {"type": "base64", "data": "AA"}},
        {"type": "web_search_tool_result", "content": {"type": "unheard_of", "text": "Maria"}},
    ]
    body = {"model": "m", "messages": [{"role": "assistant", "content": blocks}], "metadata": {"user_id": "u"}}

    assert {(slot.path, slot.kind) for slot in MESSAGES.slots(body)} == {
        ("messages.0.content.0.thinking", SlotKind.KNOWN), ("messages.0.content.1.thinking", SlotKind.TEXT),
        ("messages.0.content.2.input", SlotKind.VALUE), ("messages.0.content.3.source", SlotKind.MEDIA),
        ("messages.0.content.3.title", SlotKind.TEXT), ("messages.0.content.4.content", SlotKind.MEDIA),
        ("metadata.user_id", SlotKind.IDENTIFIER),
    }  # fmt: skip


def test_members_of_other_vendors_in_a_conversation_are_read() -> None:
    details = [
        {"type": "reasoning.summary", "summary": "Maria asks", "id": "r1", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "text": "Maria", "signature": SIGNATURE},
        {"type": "reasoning.encrypted", "data": SIGNATURE},
    ]
    fields = {"citations": [{"Maria K.": "Maria"}]}
    body = message("assistant", content="Hi", reasoning_details=details, provider_specific_fields=fields)
    assert {(slot.path, slot.kind) for slot in CHAT.slots(body)} == {
        ("messages.0.content", SlotKind.TEXT),
        ("messages.0.reasoning_details.0.summary", SlotKind.TEXT),
        ("messages.0.reasoning_details.1.text", SlotKind.KNOWN),
        ("messages.0.provider_specific_fields.0.0.0", SlotKind.TEXT),  # a name and what stands under it
    }


def test_members_that_are_not_known_or_hold_another_text_are_refused() -> None:
    for dialect, body, field in [
        (CHAT, {"provider": {"order": ["Maria"]}}, "provider"), (CHAT, {"model": "m", "Maria": 1}, "1"),
        (CHAT, message(content="Hi", Maria=None), "messages.0.2"),
        (CHAT, message("assistant", tool_calls=[{"id": "c1", "Maria": 1}]), "messages.0.tool_calls.0.1"),
        (CHAT, {"tools": [{"type": "function", "function": {"name": "Maria K."}}]}, "tools.0.function.name"),
        (CHAT, {"service_tier": "Maria"}, "service_tier"), (CHAT, {"seed": "Maria"}, "seed"),
        (
            RESPONSES, {"input": message(content=[{"type": "input_text", "Maria": 1}])["messages"]},
            "input.0.content.0.1",
        ),
        (RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://Maria"}]}, "tools.0.server_url"),
        (MESSAGES, message(content="Hi", Maria=1), "messages.0.2"),
        (MESSAGES, {"tools": [{"name": "f", "input_schema": {"Maria": "a"}}]}, "tools.0.input_schema.0"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput, match=r"leave (unread|as it is).* `proxy\.unread`") as refused:
            list(dialect.slots(body))

        assert refused.value.field == field
        assert "Maria" not in str(refused.value)


def test_items_of_responses_without_a_type() -> None:
    items = [{"role": "user", "content": "Maria"}, {"id": "m1"}, {"call_id": "c", "output": "Maria"}]
    slots = list(RESPONSES.slots({"model": "m", "input": items}))
    assert [(slot.path, slot.kind) for slot in slots] == [
        ("input.0.content", SlotKind.TEXT),
        ("input.2", SlotKind.MEDIA),
    ]


def test_log_probabilities_of_earlier_answers_do_not_leave() -> None:
    part = {"type": "output_text", "text": "Maria", "annotations": [], "logprobs": [{"token": "Maria", "bytes": [77]}]}
    list(RESPONSES.slots({"input": [{"type": "message", "role": "assistant", "content": [part]}]}))
    assert part["logprobs"] == []


def test_members_of_another_json_type_are_refused_by_path() -> None:
    for dialect, body, field in [
        (CHAT, {"messages": "Maria"}, "messages"), (CHAT, message(content=7), "messages.0.content"),
        (CHAT, message(content=["Maria"]), "messages.0.content.0"),
        (CHAT, message("tool", content=[{"type": "text", "text": {}}]), "messages.0.content.0.text"),
        (CHAT, {"user": ["Maria"]}, "user"), (CHAT, {"metadata": {"Maria": 1}}, "metadata.0"),
        (CHAT, ["Maria"], None), (RESPONSES, {"input": {"role": "user"}}, "input"),
        (RESPONSES, {"input": [{"type": "function_call", "arguments": {}}]}, "input.0.arguments"),
        (MESSAGES, {"system": 1}, "system"), (MESSAGES, {"stop_sequences": "Maria"}, "stop_sequences"),
    ]:  # fmt: skip
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
