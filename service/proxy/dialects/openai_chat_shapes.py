"""Where requests and answers of OpenAI's chat completions hold text.

From the types of the Python SDK `openai` 3.54.0, `types/chat`. `reasoning_content` and `reasoning` are members of other
vendors of this API.

These members stay as they are, by intent: names of models, functions and tools (also `name` of tool and function
messages), identifiers of calls, patterns of schemas, `country` and `timezone` of a location (the upstream refuses
changed codes), and members that the tables do not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.shapes import (
    DEFINITION,
    ERROR,
    IDENTIFIER,
    JSON,
    METADATA,
    TEXT,
    TEXTS,
    Content,
    Each,
    Either,
    Media,
    Members,
    Shape,
    Typed,
)

PARTS: dict[str, Shape] = {
    "text": Content({"text": TEXT}),
    "refusal": Content({"refusal": TEXT}),
    "image_url": Media({}),
    "input_audio": Media({}),
    "file": Media({"file": Members({"filename": TEXT})}),
}
CONTENT = Either(string=TEXT, array=Each(Typed(PARTS)))


def _type_or_function(value: Mapping[str, Any]) -> Any:
    return value.get("type", "function")


TOOL_CALLS: dict[str, Shape] = {
    "function": Content({"function": Content({"arguments": JSON})}),
    "custom": Content({"custom": Content({"input": TEXT})}),
}
TOOL_CALL_LIST = Members({"tool_calls": Each(Typed(TOOL_CALLS, _type_or_function))})
ANNOTATION = Members({"url_citation": Members({"title": TEXT, "url": TEXT})})
_ANSWERED: dict[str, Shape] = {
    "refusal": TEXT,
    "reasoning_content": TEXT,
    "reasoning": TEXT,
    "function_call": Content({"arguments": JSON}),
    "tool_calls": Each(Typed(TOOL_CALLS, _type_or_function)),
    "annotations": Each(ANNOTATION),
}
MESSAGES: dict[str, Shape] = {
    "developer": Content({"content": CONTENT, "name": TEXT}),
    "system": Content({"content": CONTENT, "name": TEXT}),
    "user": Content({"content": CONTENT, "name": TEXT}),
    "assistant": Content({"content": CONTENT, "name": TEXT, **_ANSWERED, "audio": Media({"transcript": TEXT})}),
    "tool": Content({"content": CONTENT}),
    "function": Content({"content": CONTENT}),
}
_GRAMMAR = Members({"grammar": Members({"definition": DEFINITION})})
_FUNCTION = Members({"description": DEFINITION, "parameters": SCHEMA})
TOOLS: dict[str, Shape] = {
    "function": Members({"function": _FUNCTION}),
    "custom": Members({"custom": Members({"description": DEFINITION, "format": _GRAMMAR})}),
}
LOCATION = Members({"city": TEXT, "region": TEXT})


def _role(value: Mapping[str, Any]) -> Any:
    return value.get("role")


REQUEST = Members(
    {
        "messages": Each(Typed(MESSAGES, _role)),
        "tools": Each(Typed(TOOLS, _type_or_function)),
        "functions": Each(_FUNCTION),
        "response_format": Members({"json_schema": Members({"description": DEFINITION, "schema": SCHEMA})}),
        "prediction": Members({"content": CONTENT}),
        "stop": Either(string=TEXT, array=TEXTS),
        "metadata": METADATA,
        "user": IDENTIFIER,
        "safety_identifier": IDENTIFIER,
        "prompt_cache_key": IDENTIFIER,
        "web_search_options": Members({"user_location": Members({"approximate": LOCATION})}),
    }
)

# Of `choices.N.message`; an answer has the sound of a transcript, which is not restored.
MESSAGE = Content({"content": CONTENT, **_ANSWERED, "audio": Members({"transcript": TEXT})})
ECHOES = Members({"metadata": METADATA, "user": IDENTIFIER, "error": ERROR})

# Of a stream's `choices.N.delta`: the texts that come in pieces, by path; an index distinguishes
# `tool_calls`.
DELTAS: dict[tuple[str, ...], str] = {
    ("reasoning_content",): "text",
    ("reasoning",): "text",
    ("content",): "content",
    ("refusal",): "text",
    ("function_call", "arguments"): "json",
    ("audio", "transcript"): "text",
}
CALL_DELTAS: dict[tuple[str, ...], str] = {("function", "arguments"): "json", ("custom", "input"): "text"}
