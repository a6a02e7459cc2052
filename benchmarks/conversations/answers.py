"""What a client reads from an answer: its text and the arguments of its calls, whole or put together from events."""

import json
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """`arguments`: the JSON of each call of a tool."""

    text: str
    arguments: list[str]


def heard(path: str, body: str, *, stream: bool) -> Heard:
    """Return what an answer of this format says."""
    kind = path.rsplit("/", 1)[-1]
    if not stream:
        return {"completions": _chat, "responses": _response, "messages": _message}[kind](json.loads(body))
    return {"completions": _chat_events, "responses": _response_events, "messages": _message_events}[kind](_data(body))


def _data(body: str) -> list[dict[str, Any]]:
    lines = (line.removeprefix("data: ") for line in body.split("\n") if line.startswith("data: "))
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    if any("error" in event or event.get("type") == "error" for event in events):
        raise ValueError("the stream ended with an error")
    return events


def _chat(body: Any) -> Heard:
    message = body["choices"][0]["message"]
    return Heard(message["content"], [call["function"]["arguments"] for call in message.get("tool_calls", [])])


def _response(body: Any) -> Heard:
    texts = [part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"]]
    return Heard("".join(texts), [item["arguments"] for item in body["output"] if item["type"] == "function_call"])


def _message(body: Any) -> Heard:
    texts = [block["text"] for block in body["content"] if block["type"] == "text"]
    return Heard("".join(texts), [json.dumps(block["input"]) for block in body["content"] if "input" in block])


def _chat_events(events: list[dict[str, Any]]) -> Heard:
    text, calls = "", {}
    for event in events:
        for choice in event["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                calls.setdefault(call["index"], []).append(call["function"].get("arguments") or "")
    return Heard(text, ["".join(calls[index]) for index in sorted(calls)])


def _response_events(events: list[dict[str, Any]]) -> Heard:
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    calls: dict[int, str] = {}
    for event in events:
        if event["type"] == "response.function_call_arguments.delta":
            calls[event["output_index"]] = calls.get(event["output_index"], "") + event["delta"]
    said = Heard(text, [calls[index] for index in sorted(calls)])
    whole = _response(events[-1]["response"])
    if said != whole:
        raise ValueError("the last event says something else than the deltas")
    return said


def _message_events(events: list[dict[str, Any]]) -> Heard:
    text, calls = "", {}
    for event in events:
        if event["type"] == "content_block_delta":
            delta = event["delta"]
            text += delta.get("text", "")
            if "partial_json" in delta:
                calls.setdefault(event["index"], []).append(delta["partial_json"])
    return Heard(text, ["".join(calls[index]) for index in sorted(calls)])
