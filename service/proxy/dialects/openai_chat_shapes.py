"""Where requests and answers of OpenAI's chat completions hold text, and what else a request may have.

From the types of the Python SDK `openai` 3.57.0, `types/chat`, and from the members of other servers in
`openai_others`. The shapes of `public` say which members leave as they are, and in which form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.openai_others import ANSWERED_BY_OTHERS, CACHE_CONTROL, OTHERS
from service.proxy.dialects.public import MODEL, PLAIN, REGION, REPLACED, TIME_ZONE, WORD, content, each, record
from service.proxy.dialects.shapes import (
    DEFINITION,
    ERROR,
    IDENTIFIER,
    JSON,
    METADATA,
    STRINGS,
    TEXT,
    TEXTS,
    Each,
    Either,
    Media,
    Members,
    Shape,
    Typed,
    Values,
)

BREAKPOINT = record(words="mode ttl")
_CACHED: dict[str, Shape] = {"prompt_cache_breakpoint": BREAKPOINT, "cache_control": CACHE_CONTROL}
PARTS: dict[str, Shape] = {
    "text": content({"text": TEXT, **_CACHED}, words="type"),
    "refusal": content({"refusal": TEXT, **_CACHED}, words="type"),
    "image_url": Media({}),
    "input_audio": Media({}),
    "file": Media({"file": Media({"filename": TEXT})}),
}
CONTENT = Either(string=TEXT, array=Each(Typed(PARTS)))


def _type_or_function(value: Mapping[str, Any]) -> Any:
    return value.get("type", "function")


_CALLED = content({"arguments": JSON, "parsed_arguments": STRINGS, "provider_specific_fields": STRINGS}, names="name")
TOOL_CALLS: dict[str, Shape] = {
    "function": content(
        {"function": _CALLED, "provider_specific_fields": STRINGS, "cache_control": CACHE_CONTROL},
        words="type",
        links="id",
        plain="index",
    ),
    "custom": content({"custom": content({"input": TEXT}, names="name")}, words="type", links="id", plain="index"),
}
TOOL_CALL_LIST = Members({"tool_calls": Each(Typed(TOOL_CALLS, _type_or_function))})
ANNOTATION = record(
    {"url_citation": record({"title": TEXT, "url": TEXT, "content": TEXT}, plain="start_index end_index")}, words="type"
)
_ANSWERED: dict[str, Shape] = {
    "refusal": TEXT,
    "function_call": _CALLED,
    "tool_calls": Each(Typed(TOOL_CALLS, _type_or_function)),
    "annotations": Each(ANNOTATION),
    **ANSWERED_BY_OTHERS,
}
_SPOKEN: dict[str, Shape] = {"content": CONTENT, "name": TEXT, "cache_control": CACHE_CONTROL}
MESSAGES: dict[str, Shape] = {
    "developer": content(_SPOKEN, words="role"),
    "system": content(_SPOKEN, words="role"),
    "user": content(_SPOKEN, words="role"),
    "assistant": content({**_SPOKEN, **_ANSWERED, "audio": Media({"transcript": TEXT})}, words="role"),
    "tool": content(
        {"content": CONTENT, "cache_control": CACHE_CONTROL}, words="role", names="name", links="tool_call_id"
    ),
    "function": content({"content": CONTENT}, words="role", names="name"),
}
_GRAMMAR = record({"grammar": record({"definition": DEFINITION}, words="syntax")}, words="type")
_FUNCTION = record(
    {"description": DEFINITION, "parameters": SCHEMA, "cache_control": CACHE_CONTROL}, names="name", plain="strict"
)
_CUSTOM = record({"description": DEFINITION, "format": _GRAMMAR}, names="name")
TOOLS: dict[str, Shape] = {
    "function": record({"function": _FUNCTION, "cache_control": CACHE_CONTROL}, words="type"),
    "custom": record({"custom": _CUSTOM, "cache_control": CACHE_CONTROL}, words="type"),
}
LOCATION = record({"city": TEXT, "region": TEXT, "country": REGION, "timezone": TIME_ZONE}, words="type")
MODERATION = record({"model": MODEL, "policy": record({"input": record(words="mode"), "output": record(words="mode")})})
_NAMED = record(names="name")
_CHOSEN: dict[str, Shape] = {"function": _NAMED, "custom": _NAMED}
_TOOL_CHOICE = record(
    {**_CHOSEN, "allowed_tools": record({"tools": each(_CHOSEN, words="type")}, words="mode")}, words="type"
)
_JSON_SCHEMA = record({"description": DEFINITION, "schema": SCHEMA}, names="name", plain="strict")


def _role(value: Mapping[str, Any]) -> Any:
    return value.get("role")


# Members that both formats of OpenAI have.
SHARED: dict[str, Shape] = {
    "metadata": METADATA,
    "user": IDENTIFIER,
    "safety_identifier": IDENTIFIER,
    "prompt_cache_key": IDENTIFIER,
    "moderation": MODERATION,
    **record(
        words="prompt_cache_retention service_tier",
        plain="parallel_tool_calls store stream temperature top_logprobs top_p",
    ).rows,
    "model": REPLACED,  # replaced by the name in the operator's configuration
    "stream_options": record(plain="include_obfuscation include_usage continuous_usage_stats"),
}
REQUEST = Members(
    {
        "messages": Each(Typed(MESSAGES, _role)),
        "tools": Each(Typed(TOOLS, _type_or_function)),
        "functions": Each(_FUNCTION),
        "response_format": record({"json_schema": _JSON_SCHEMA, "schema": SCHEMA}, words="type"),
        "prediction": record({"content": CONTENT}, words="type"),
        "stop": Either(string=TEXT, array=TEXTS),
        **OTHERS,
        **SHARED,
        "web_search_options": record(
            {"user_location": record({"approximate": LOCATION}, words="type")}, words="search_context_size"
        ),
        "tool_choice": Either(string=WORD, record=_TOOL_CHOICE),
        "function_call": Either(string=WORD, record=_NAMED),
        "audio": record({"voice": Either(string=WORD, record=record(references="id"))}, words="format"),
        "modalities": Each(WORD),
        "logit_bias": Values(PLAIN),
        "prompt_cache_options": record(words="mode ttl"),
        "reasoning": record(words="effort summary", plain="max_tokens exclude enabled"),
        **record(
            words="reasoning_effort verbosity",
            plain="frequency_penalty logprobs max_completion_tokens max_tokens n presence_penalty seed",
        ).rows,
    }
)

# Of `choices.N.message`; an answer has the sound of a transcript, which is not restored.
MESSAGE = Members({"content": CONTENT, **_ANSWERED, "audio": Members({"transcript": TEXT})}, content=True)
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
