"""Streams against the SDKs: every string of every declared event, and the answers that the SDKs put together."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from restorer_kit import WORDS, WordRestorers
from sdk_samples_kit import CANARY, Samples
from test_dialect_answers import MEDIA, UNRESTORED

from service.proxy.dialects.registry import DIALECTS

CHAT, RESPONSES, MESSAGES = DIALECTS["/v1/chat/completions"], DIALECTS["/v1/responses"], DIALECTS["/v1/messages"]
UNRESTORED_EVENTS = """
    item_id ResponseAudioDeltaEvent.delta ResponseErrorEvent.code partial_image_b64 background output_format quality
    ChoiceDeltaAudio.data ResponseImageGenCallPartialImageEvent.size SignatureDelta.signature"""


class Canaries:
    """Restores every canary, and holds nothing back."""

    def text(self) -> Canaries:
        return self

    json = text

    def feed(self, text: str) -> str:
        return CANARY.sub("restored", text)

    whole = whole_json = feed

    def end(self) -> str:
        return ""


EVENTS = [(CHAT, ChatCompletionChunk), (RESPONSES, ResponseStreamEvent), (MESSAGES, RawMessageStreamEvent)]


@pytest.mark.parametrize(("dialect", "kind"), EVENTS)
def test_every_string_of_an_event_is_restored_but_identifiers_and_media(dialect: Any, kind: Any) -> None:
    samples, left = Samples(), set()
    for event in samples.bodies(kind):
        events = dialect.stream(Canaries()).event(event.get("type"), event)
        left |= samples.left_in(json.dumps(events))

    allowed = {*UNRESTORED.split(), *UNRESTORED_EVENTS.split()}
    assert len(samples.members) > 20
    rest = {member for member in left if member.split(".")[0] not in MEDIA.split()}
    assert not {member for member in rest if member not in allowed and member.split(".")[1] not in allowed}


def chat_chunk(delta: dict[str, Any], index: int, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def test_the_openai_sdk_puts_the_restored_answer_together() -> None:
    arguments, state, stream = '{"to": "[PERSON_1]"}', ChatCompletionStreamState(), CHAT.stream(WordRestorers())
    chunks = [chat_chunk({"role": "assistant"}, index) for index in (0, 1)]
    chunks += [chat_chunk({"content": letter}, index) for letter in "Anna Muster and Anna" for index in (0, 1)]
    start = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    chunks.append(chat_chunk({"tool_calls": [start]}, 1))
    chunks += [chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": each}}]}, 1) for each in arguments]
    chunks += [chat_chunk({}, 0, "stop"), chat_chunk({}, 1, "tool_calls")]
    for chunk in chunks:
        for _, data in stream.event(None, chunk):
            state.handle_chunk(ChatCompletionChunk.model_validate(data))

    choices = state.get_final_completion().choices
    assert [choice.message.content for choice in choices] == ["Maria Weber and Maria"] * 2
    assert json.loads(choices[1].message.tool_calls[0].function.arguments) == {"to": WORDS["[PERSON_1]"]}


def test_the_anthropic_sdk_puts_the_restored_message_together() -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    message |= {"stop_reason": None, "stop_sequence": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", "Anna"),
        ({"type": "text", "text": ""}, "text_delta", "text", "Anna Muster and Anna"),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": {}},
            "input_json_delta",
            "partial_json",
            '{"to": "Anna"}',
        ),
    ]
    for index, (block, kind, member, text) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        deltas = [{"type": kind, member: letter} for letter in text]
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stopped, "usage": usage}, {"type": "message_stop"}]

    snapshot: Any = None
    buffers: dict[int, Any] = {}
    stream, adapter = MESSAGES.stream(WordRestorers()), TypeAdapter(typing.cast(Any, RawMessageStreamEvent))
    for event in events:
        for _, data in stream.event(event["type"], event):
            snapshot = accumulate_event(
                event=adapter.validate_python(data), current_snapshot=snapshot, json_bufs=buffers
            )

    thinking, text, use = snapshot.content
    assert (thinking.thinking, text.text, use.input) == ("Maria", "Maria Weber and Maria", {"to": "Maria"})
