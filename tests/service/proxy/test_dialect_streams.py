"""Streams of the three dialects: every split gives what the whole answer gives, in events that the SDKs parse."""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from restorer_kit import WordRestorers

from service.proxy.endpoints import DIALECTS

CHAT, RESPONSES, MESSAGES = DIALECTS["/v1/chat/completions"], DIALECTS["/v1/responses"], DIALECTS["/v1/messages"]
PARSERS = {
    CHAT.name: TypeAdapter(ChatCompletionChunk),
    RESPONSES.name: TypeAdapter(ResponseStreamEvent),
    MESSAGES.name: TypeAdapter(RawMessageStreamEvent),
}
PROSE = "Anna and Anna Muster met An"
ARGUMENTS = '{"Anna": "[PERSON_1]", "n": ["Anna M", 1], "e": "\\u0041nna \\"A\\""}'
WHOLE = WordRestorers()


def splits(text: str) -> Iterator[list[str]]:
    """The text whole, in two at every position, and by characters."""
    yield [text]
    yield from ([text[:cut], text[cut:]] for cut in range(1, len(text)))
    yield list(text)


def run(dialect: Any, events: list[Any], *, structured: bool = False, end: bool = True) -> list[Any]:
    """What leaves for events of an upstream; each is one that the SDK parses."""
    stream = dialect.stream(WordRestorers(), structured=structured)
    left = [event for data in events for event in stream.event(name_of(data), json.loads(json.dumps(data)))]
    left += stream.end() if end else []
    for name, data in left:
        assert name == name_of(data)
        if isinstance(data, dict) and data.get("type") not in ("error", "unheard_of", "ping") and "error" not in data:
            PARSERS[dialect.name].validate_python(data)
    return [data for _, data in left]


def name_of(data: Any) -> str | None:
    return data.get("type") if isinstance(data, dict) else None


def chunk(delta: dict[str, Any], index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": more.pop("logprobs", None)}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def gathered(chunks: list[Any]) -> dict[tuple[Any, ...], str]:
    """The texts of chat chunks, by choice and path."""
    texts: dict[tuple[Any, ...], str] = defaultdict(str)
    finished = set()
    for data in chunks:
        for choice in data["choices"] if isinstance(data, dict) and "choices" in data else []:
            index, delta = choice["index"], choice["delta"]
            assert index not in finished
            for name in ("content", "refusal", "reasoning_content"):
                texts[index, name] += delta.get(name) or ""
            for call in delta.get("tool_calls", []):
                texts[index, "call", call["index"]] += call.get("function", {}).get("arguments", "")
                texts[index, "custom", call["index"]] += call.get("custom", {}).get("input", "")
            if choice["finish_reason"]:
                finished.add(index)
    return texts


def test_chat_texts_at_every_split() -> None:
    for name, pieces in itertools.product(("content", "refusal", "reasoning_content"), splits(PROSE)):
        chunks = [chunk({"role": "assistant", "content": ""})]
        chunks += [chunk({name: piece}) for piece in pieces]
        left = run(CHAT, [*chunks, chunk({}, finish="stop"), "[DONE]"])
        assert gathered(left)[0, name] == WHOLE.whole(PROSE)
        assert left[-1] == "[DONE]"


def test_chat_arguments_and_structured_content_at_every_split() -> None:
    for pieces in splits(ARGUMENTS):
        first = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
        calls = [chunk({"role": "assistant", "content": None, "tool_calls": [first]})]
        calls += [chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces]
        texts = gathered(run(CHAT, [*calls, chunk({}, finish="tool_calls")]))
        content = [chunk({"role": "assistant"}), *(chunk({"content": piece}) for piece in pieces)]
        structured = gathered(run(CHAT, [*content, chunk({}, finish="stop")], structured=True))
        assert texts[0, "call", 0] == structured[0, "content"] == WHOLE.whole_json(ARGUMENTS)
    restored = json.loads(WHOLE.whole_json(ARGUMENTS))
    assert restored["e"] == 'Maria "A"'


def test_chat_choices_and_parallel_calls_take_turns() -> None:
    events = [chunk({"role": "assistant", "content": ""}, 0), chunk({"role": "assistant", "content": ""}, 1)]
    for letter in PROSE:
        events += [chunk({"content": letter}, 0), chunk({"content": letter}, 1)]
    for call in (0, 1):
        start = {"index": call, "id": f"c{call}", "type": "function", "function": {"name": "f", "arguments": ""}}
        events.append(chunk({"tool_calls": [start]}))
    for letter in ARGUMENTS:
        pieces = [{"index": call, "function": {"arguments": letter}} for call in (0, 1)]
        events.append(chunk({"tool_calls": pieces}))
    events += [chunk({"content": " Anna"}, 1), chunk({}, 1, "stop"), chunk({}, 0, "tool_calls")]

    texts = gathered(run(CHAT, events))

    assert texts[0, "content"] == WHOLE.whole(PROSE)
    assert texts[1, "content"] == WHOLE.whole(PROSE + " Anna")
    assert texts[0, "call", 0] == texts[0, "call", 1] == WHOLE.whole_json(ARGUMENTS)


def test_chat_text_in_the_last_chunk_and_custom_calls() -> None:
    start = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": "An"}}
    stream = CHAT.stream(WordRestorers())
    events = [chunk({"role": "assistant", "content": "An"}), chunk({"tool_calls": [start]})]
    events.append(chunk({"tool_calls": [{"index": 0, "custom": {"input": "na M"}}]}, finish="tool_calls"))
    left = [data for event in events for _, data in stream.event(None, event)]
    assert gathered(left)[0, "content"] == "An"
    assert gathered(left)[0, "custom", 0] == "Maria M"
    assert stream.end() == []


def test_chat_reasoning_ends_before_content_begins() -> None:
    events = [
        chunk({"role": "assistant", "reasoning_content": "Anna M"}),
        chunk({"content": "Hello"}),
        chunk({}, finish="stop"),
    ]
    left = run(CHAT, events)
    deltas = [data["choices"][0]["delta"] for data in left]
    assert [delta.get("reasoning_content") for delta in deltas[:2]] == ["", "Maria M"]
    assert deltas[2] == {"content": "Hello"}


def test_chat_first_chunks_stay_in_order_and_held_ones_are_dropped() -> None:
    """SDKs number choices in the order in which they begin, so the first chunk of each one stays."""
    events = [chunk({"content": "An"}, 0), chunk({"content": "x"}, 1), chunk({"content": "na"}, 0, obfuscation="ooo")]
    left = run(CHAT, [*events, chunk({"content": "!"}, 0), chunk({}, 0, "stop")])
    assert [data["choices"][0]["index"] for data in left] == [0, 1, 0, 0]
    assert [data["choices"][0]["delta"].get("content") for data in left] == ["", "x", "Maria!", None]


def test_chat_log_probabilities_obfuscation_and_usage() -> None:
    token = {"content": [{"token": "Anna", "logprob": -1.0, "bytes": None, "top_logprobs": []}], "refusal": None}
    events = [
        chunk({"content": "Hi "}, logprobs=token, obfuscation="a"),
        chunk({"content": "[PERSON_1] "}, logprobs=token, obfuscation="b"),
    ]
    usage = {"completion_tokens": 1, "prompt_tokens": 1, "total_tokens": 2}
    left = run(
        CHAT,
        [
            *events,
            chunk({"content": "An"}, usage=usage),
            chunk({}, finish="stop"),
            {**chunk({}), "choices": [], "usage": usage},
        ],
    )

    assert [data["choices"][0]["logprobs"] for data in left[:2]] == [token, None]
    assert [data.get("obfuscation") for data in left[:2]] == ["a", None]
    assert [data.get("usage") for data in left] == [None, None, usage, None, None, usage]


def test_chat_citations_of_a_stream() -> None:
    text = "Anna Muster lives."
    citation = {"type": "url_citation", "title": "Anna", "url": "u", "start_index": 12, "end_index": 17}
    events = [
        chunk({"role": "assistant", "content": text}),
        chunk({"annotations": [{"type": "url_citation", "url_citation": citation}]}),
    ]
    left = run(CHAT, [*events, chunk({}, finish="stop")])
    moved = left[1]["choices"][0]["delta"]["annotations"][0]["url_citation"]
    assert WHOLE.whole(text)[moved["start_index"] : moved["end_index"]] == "lives"
    assert moved["title"] == "Maria"


def item(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "id": "i", "status": "in_progress", **members}


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


PLACES = {"item_id": "i", "output_index": 0}
RESPONSE_TEXTS = [
    ("response.output_text", {"content_index": 0, "logprobs": []}, "text", PROSE),
    ("response.refusal", {"content_index": 0}, "refusal", PROSE),
    ("response.reasoning_text", {"content_index": 0}, "text", PROSE),
    ("response.reasoning_summary_text", {"summary_index": 0}, "text", PROSE),
    ("response.function_call_arguments", {}, "arguments", ARGUMENTS),
    ("response.mcp_call_arguments", {}, "arguments", ARGUMENTS),
    ("response.custom_tool_call_input", {}, "input", PROSE),
    ("response.code_interpreter_call_code", {}, "code", PROSE),
    ("response.shell_call_command", {"command_index": 0}, "command", PROSE),
]


def test_responses_texts_at_every_split() -> None:
    for kind, indices, member, text in RESPONSE_TEXTS:
        expected = WHOLE.whole_json(text) if text is ARGUMENTS else WHOLE.whole(text)
        for pieces in splits(text):
            deltas = [{"type": f"{kind}.delta", "delta": piece, **PLACES, **indices} for piece in pieces]
            done = {"type": f"{kind}.done", member: text, **PLACES, **indices}
            left = run(RESPONSES, numbered([*deltas, done]), end=False)
            assert "".join(data["delta"] for data in left[:-1]) == expected
            assert left[-1][member] == expected
            assert [data["sequence_number"] for data in left] == list(range(len(left)))


def test_responses_without_done_events_end_with_the_item_or_the_response() -> None:
    delta = {"type": "response.output_text.delta", "delta": "An", "content_index": 0, "logprobs": [], **PLACES}
    message = item("message", role="assistant", content=[{"type": "output_text", "text": "An", "annotations": []}])
    part = {"type": "response.content_part.done", "content_index": 0, "part": message["content"][0], **PLACES}
    response = {"id": "r", "created_at": 1, "object": "response", "model": "m", "output": [message]}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    for ender in (
        part,
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": response},
    ):
        left = run(RESPONSES, numbered([delta, ender]))
        assert [data["type"] for data in left] == ["response.output_text.delta", ender["type"]]
        assert left[0]["delta"] == "An"


def test_responses_two_items_take_turns() -> None:
    events = []
    for letter in "Anna":
        for number in (0, 1):
            places = {"item_id": f"i{number}", "output_index": number, "content_index": 0, "logprobs": []}
            events.append({"type": "response.output_text.delta", "delta": letter, "obfuscation": "o", **places})
    left = run(RESPONSES, numbered(events))
    texts = defaultdict(str)
    for data in left:
        texts[data["output_index"]] += data["delta"]
        assert "obfuscation" not in data
    assert texts == {0: "Maria", 1: "Maria"}
    assert [data["sequence_number"] for data in left] == list(range(len(left)))


def test_responses_annotations_shell_outputs_and_transcripts() -> None:
    text = "Anna Muster lives."
    citation = {"type": "url_citation", "title": "Anna", "url": "u", "start_index": 12, "end_index": 17}
    delta = {"type": "response.output_text.delta", "delta": text, "content_index": 0, "logprobs": [], **PLACES}
    added = {
        "type": "response.output_text.annotation.added", "annotation": citation, "annotation_index": 0,
        "content_index": 0, **PLACES,
    }  # fmt: skip
    shell = {"type": "response.shell_call_output_content.delta", "command_index": 0, **PLACES}
    shells = [{**shell, "delta": {"stdout": "An"}}, {**shell, "delta": {"stdout": "na", "stderr": "Anna!"}}]
    output = [{"stdout": "Anna", "stderr": "Anna!", "outcome": {"type": "exit", "exit_code": 0}}]
    done = {"type": "response.shell_call_output_content.done", "command_index": 0, "output": output, **PLACES}
    spoken = [{"type": "response.audio.transcript.delta", "delta": piece} for piece in ("An", "na")]
    left = run(RESPONSES, numbered([delta, added, *shells, done, *spoken, {"type": "response.audio.transcript.done"}]))

    moved = next(data["annotation"] for data in left if "annotation" in data)
    assert WHOLE.whole(text)[moved["start_index"] : moved["end_index"]] == "lives"
    outputs = [data["delta"] for data in left if data["type"] == shell["type"]]
    assert "".join(each.get("stdout", "") for each in outputs) == "Maria"
    assert "".join(each.get("stderr", "") for each in outputs) == "Maria!"
    assert next(data["output"][0]["stdout"] for data in left if data["type"] == done["type"]) == "Maria"
    assert "".join(data["delta"] for data in left if data["type"] == spoken[0]["type"]) == "Maria"


def block(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **members}}


def delta(index: int, kind: str, member: str, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, member: text}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def block_text(events: list[Any], index: int, member: str) -> str:
    parts = [data["delta"] for data in events if data.get("type") == "content_block_delta" and data["index"] == index]
    return "".join(part.get(member, "") for part in parts)


def test_messages_texts_at_every_split() -> None:
    for kind, member, text, structured in (
        ("text_delta", "text", PROSE, False),
        ("text_delta", "text", PROSE, True),
        ("text_delta", "text", ARGUMENTS, True),
        ("thinking_delta", "thinking", PROSE, False),
        ("input_json_delta", "partial_json", ARGUMENTS, False),
    ):
        expected = WHOLE.whole_json(text) if text is ARGUMENTS else WHOLE.whole(text)
        for pieces in splits(text):
            deltas = [delta(0, kind, member, piece) for piece in pieces]
            events = [block(0, "text", text="", citations=None), *deltas, stop(0)]
            left = run(MESSAGES, events, structured=structured, end=False)
            assert block_text(left, 0, member) == expected
            assert left[-1] == stop(0)


def test_messages_blocks_take_turns_and_thinking_ends_before_its_signature() -> None:
    events = [block(0, "thinking", thinking="", signature=""), delta(0, "thinking_delta", "thinking", "Anna M")]
    events += [delta(0, "signature_delta", "signature", "An"), stop(0), block(1, "text", text="", citations=None)]
    events += [block(2, "tool_use", id="t", name="f", input={})]
    for letter in ARGUMENTS:
        events += [delta(1, "text_delta", "text", letter), delta(2, "input_json_delta", "partial_json", letter)]
    usage = {"output_tokens": 1}
    stopped = {"stop_reason": "stop_sequence", "stop_sequence": "Anna"}
    events += [stop(1), stop(2), {"type": "message_delta", "delta": stopped, "usage": usage}, {"type": "message_stop"}]
    left = run(MESSAGES, events)

    signed = [
        data["delta"].get("type") for data in left if data["type"] == "content_block_delta" and data["index"] == 0
    ]
    assert signed == ["thinking_delta", "signature_delta"]
    assert block_text(left, 0, "thinking") == "Maria M"
    assert block_text(left, 1, "text") == WHOLE.whole(ARGUMENTS)
    assert block_text(left, 2, "partial_json") == WHOLE.whole_json(ARGUMENTS)
    assert left[-2]["delta"]["stop_sequence"] == "Maria"


def test_messages_citations_and_blocks_that_come_whole() -> None:
    citation = {"type": "char_location", "cited_text": "Anna", "document_index": 0, "document_title": "Anna"}
    citation |= {"start_char_index": 0, "end_char_index": 4, "file_id": None}
    cited = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}}
    found = {"type": "web_search_result", "title": "Anna", "url": "u", "encrypted_content": "Anna", "page_age": None}
    result = block(1, "web_search_tool_result", tool_use_id="t", content=[found])
    left = run(MESSAGES, [block(0, "text", text="", citations=None), cited, stop(0), result, stop(1)])
    assert left[1]["delta"]["citation"]["cited_text"] == "Maria"
    assert left[3]["content_block"]["content"][0]["title"] == "Maria"
    assert left[3]["content_block"]["content"][0]["encrypted_content"] == "Anna"


def test_cut_streams_give_what_was_held_back() -> None:
    for text in ("Hi A", "Hi An", "Hi Ann"):
        spoken = {"type": "response.output_text.delta", "delta": text, "content_index": 0, "logprobs": [], **PLACES}
        assert gathered(run(CHAT, [chunk({"role": "assistant", "content": text})]))[0, "content"] == text
        assert "".join(data["delta"] for data in run(RESPONSES, numbered([spoken]))) == text
        assert block_text(run(MESSAGES, [delta(0, "text_delta", "text", text)]), 0, "text") == text
    for dialect in DIALECTS.values():
        assert run(dialect, []) == []


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_unknown_events_pass_and_errors_are_restored(dialect: Any) -> None:
    unknown = {"type": "unheard_of", "text": "Anna", "choices": "Anna"}
    odd: list[Any] = [
        unknown, 7, None, "Anna", [], {"type": "ping"}, {"type": ["Anna"]}, {"type": "content_block_delta"},
    ]  # fmt: skip
    odd += [{"choices": [None, {}, {"index": [], "delta": 5}, {"delta": {"tool_calls": [4, {"index": {}}]}}]}]
    stream = dialect.stream(WordRestorers())
    for data in odd:
        assert stream.event(None, json.loads(json.dumps(data))) == [(None, data)]
    error = {"type": "error", "message": "no Anna", "code": None, "param": None, "error": {"message": "no Anna"}}
    assert run(dialect, [error]) == [json.loads(json.dumps(error).replace("Anna", "Maria"))]
