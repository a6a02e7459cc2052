"""What a language model says, written in each wire format: whole answers and streams of events."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Split = Callable[[str], list[str]]


class Call(NamedTuple):
    """A call of a tool. `arguments`: JSON."""

    name: str
    arguments: str


class Said(NamedTuple):
    """A text, and the calls of tools after it."""

    text: str
    calls: tuple[Call, ...] = ()


def whole(path: str, said: Said) -> dict[str, Any]:
    """The answer to a request of this path."""
    if path.endswith("/chat/completions"):
        calls = [
            {"id": f"t{number}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for number, call in enumerate(said.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": said.text}
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {"id": "c1", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    if path.endswith("/responses"):
        return _response(said)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
    blocks += [_use(number, call) | {"input": json.loads(call.arguments)} for number, call in enumerate(said.calls)]
    return _message(blocks, "tool_use" if said.calls else "end_turn")


def events(path: str, said: Said, split: Split) -> Iterator[str]:
    """The same as server-sent events. `split`: a text into the deltas of a stream."""
    if path.endswith("/chat/completions"):
        return _chat_events(said, split)
    return _response_events(said, split) if path.endswith("/responses") else _message_events(said, split)


def _use(number: int, call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": call.name, "input": {}}


def _message(content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    facts = {"id": "m1", "type": "message", "role": "assistant", "model": "stub"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return facts | {"content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _response(said: Said) -> dict[str, Any]:
    part = {"type": "output_text", "text": said.text, "annotations": []}
    output: list[dict[str, Any]] = []
    if said.text:
        item = {"id": "i1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        output.append(item)
    for number, call in enumerate(said.calls):
        facts = {"id": f"f{number}", "call_id": f"t{number}", "status": "completed"}
        output.append({"type": "function_call", "name": call.name, "arguments": call.arguments} | facts)
    facts = {
        "id": "r1", "object": "response", "created_at": 1, "model": "stub", "status": "completed", "output": output,
    }  # fmt: skip
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage_details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    asked = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return facts | asked | {"usage": usage | usage_details}


def _chat_events(said: Said, split: Split) -> Iterator[str]:
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
        return _data(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant"})
    for part in split(said.text):
        yield chunk({"content": part})
    for number, call in enumerate(said.calls):
        start = {"index": number, "id": f"t{number}", "type": "function"}
        yield chunk({"tool_calls": [start | {"function": {"name": call.name, "arguments": ""}}]})
        for part in split(call.arguments):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if said.calls else "stop")
    yield "data: [DONE]\n\n"


def _message_events(said: Said, split: Split) -> Iterator[str]:
    yield _event("message_start", {"message": _message([], None)})
    blocks: list[tuple[dict[str, Any], str, str, str]] = []
    if said.text:
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", said.text))
    for number, call in enumerate(said.calls):
        blocks.append((_use(number, call), "input_json_delta", "partial_json", call.arguments))
    for index, (block, kind, member, text) in enumerate(blocks):
        yield _event("content_block_start", {"index": index, "content_block": block})
        for part in split(text):
            yield _event("content_block_delta", {"index": index, "delta": {"type": kind, member: part}})
        yield _event("content_block_stop", {"index": index})
    delta = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    yield _event("message_delta", {"delta": delta, "usage": {"output_tokens": 1}})
    yield _event("message_stop", {})


def _response_events(said: Said, split: Split) -> Iterator[str]:
    written = _response(said)
    number = iter(range(1_000_000))

    def event(name: str, members: dict[str, Any]) -> str:
        return _event(name, {"sequence_number": next(number)} | members)

    yield event("response.created", {"response": written | {"output": []}})
    for index, item in enumerate(written["output"]):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            part = item["content"][0]
            begun = item | {"content": [], "status": "in_progress"}
            yield event("response.output_item.added", {"output_index": index, "item": begun})
            place |= {"content_index": 0}
            yield event("response.content_part.added", place | {"part": part | {"text": ""}})
            for delta in split(said.text):
                yield event("response.output_text.delta", place | {"delta": delta, "logprobs": []})
            yield event("response.output_text.done", place | {"text": said.text, "logprobs": []})
            yield event("response.content_part.done", place | {"part": part})
        else:
            begun = item | {"arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", {"output_index": index, "item": begun})
            for delta in split(item["arguments"]):
                yield event("response.function_call_arguments.delta", place | {"delta": delta})
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield event("response.function_call_arguments.done", place | done)
        yield event("response.output_item.done", {"output_index": index, "item": item})
    yield event("response.completed", {"response": written})


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _event(name: str, members: dict[str, Any]) -> str:
    return f"event: {name}\n{_data({'type': name} | members)}"
