"""A recorded conversation as the body of a request, in each wire format."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.conversations.recorded import Conversation
from benchmarks.conversations.scenario import Tool

Body = dict[str, Any]


def body_of(conversation: Conversation, *, stream: bool) -> Body:
    """Return the request, as a client sends it."""
    kind = conversation.path.rsplit("/", 1)[-1]
    make = {"completions": _chat, "responses": _responses, "messages": _messages}[kind]
    return make(conversation) | {"stream": stream}


def _schema(tool: Tool) -> Body:
    members = {name: {"type": "string", "description": text} for name, text in tool.members.items()}
    return {"type": "object", "properties": members}


def _call_id(number: int) -> str:
    return f"call_{number}"


def _chat(conversation: Conversation) -> Body:
    messages: list[Body] = []
    calls = 0
    for kind, text in conversation.turns:
        if kind == "call":
            calls += 1
            function = {"name": conversation.tools[0].name, "arguments": text}
            call = {"id": _call_id(calls), "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "result":
            messages.append({"role": "tool", "tool_call_id": _call_id(calls), "content": text})
        else:
            named = kind == "user" and "author" in conversation.request
            messages.append(
                {"role": kind, "content": text} | ({"name": conversation.request["author"]} if named else {})
            )
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": _schema(t)}}
        for t in conversation.tools
    ]
    body: Body = {"model": "stub-gpt", "messages": messages} | ({"tools": tools} if tools else {})
    if conversation.structured:
        body["response_format"] = {"type": "json_object"}
    return body | {name: conversation.request[name] for name in ("user", "metadata") if name in conversation.request}


def _responses(conversation: Conversation) -> Body:
    items: list[Body] = []
    calls = 0
    instructions = [text for kind, text in conversation.turns if kind == "system"]
    for kind, text in conversation.turns:
        if kind == "call":
            calls += 1
            facts = {"call_id": _call_id(calls), "name": conversation.tools[0].name}
            items.append({"type": "function_call", "arguments": text} | facts)
        elif kind == "result":
            items.append({"type": "function_call_output", "call_id": _call_id(calls), "output": text})
        elif kind == "assistant":
            part = {"type": "output_text", "text": text, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        elif kind != "system":
            items.append({"type": "message", "role": kind, "content": [{"type": "input_text", "text": text}]})
    tools = [
        {"type": "function", "name": t.name, "description": t.description, "parameters": _schema(t)}
        for t in conversation.tools
    ]
    body: Body = {"model": "stub-gpt", "input": items, "store": False}
    body |= {"instructions": "\n".join(instructions)} if instructions else {}
    body |= {"tools": tools} if tools else {}
    if conversation.structured:
        body["text"] = {"format": {"type": "json_object"}}
    return body | {name: conversation.request[name] for name in ("user", "metadata") if name in conversation.request}


def _messages(conversation: Conversation) -> Body:
    messages: list[Body] = []
    calls = 0
    above = [text for kind, text in conversation.turns if kind in ("system", "developer")]
    for kind, text in conversation.turns:
        if kind == "call":
            calls += 1
            use = {"id": _call_id(calls), "name": conversation.tools[0].name, "input": json.loads(text)}
            messages.append({"role": "assistant", "content": [{"type": "tool_use"} | use]})
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": _call_id(calls), "content": text}
            messages.append({"role": "user", "content": [block]})
        elif kind in ("user", "assistant"):
            messages.append({"role": kind, "content": [{"type": "text", "text": text}]})
    tools = [{"name": t.name, "description": t.description, "input_schema": _schema(t)} for t in conversation.tools]
    body: Body = {"model": "stub-claude", "max_tokens": 1000, "messages": messages}
    body |= {"system": "\n".join(above)} if above else {}
    body |= {"tools": tools} if tools else {}
    if conversation.structured:
        body["output_config"] = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    return body | ({"metadata": {"user_id": conversation.request["user"]}} if "user" in conversation.request else {})
