"""Where requests and answers of OpenAI's Responses hold text, and what else a request may have.

From the types of the Python SDK `openai` 3.57.0, `types/responses`: every content part and item; the tools are in
`openai_responses_tools`. The shapes of `public` say which members leave as they are, and in which form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.openai_chat_shapes import BREAKPOINT, SHARED
from service.proxy.dialects.openai_others import CACHE_CONTROL, OTHERS
from service.proxy.dialects.openai_responses_tools import ENVIRONMENT, LISTED_TOOL, TOOL, TOOL_CHOICE
from service.proxy.dialects.public import (
    MODEL,
    REFERENCE,
    SIZE,
    VERSION,
    WORD,
    content,
    each,
    record,
)
from service.proxy.dialects.shapes import (
    DEFINITION,
    ERROR,
    IDENTIFIER,
    JSON,
    MEDIA,
    STRINGS,
    TEXT,
    TEXTS,
    VALUE,
    Each,
    Either,
    Emptied,
    Media,
    Members,
    Shape,
    Signed,
    Typed,
    Values,
)

ANNOTATION = record(
    {"title": TEXT, "url": TEXT, "filename": TEXT},
    words="type",
    links="file_id container_id",
    plain="index start_index end_index",
)
_CACHED: dict[str, Shape] = {"prompt_cache_breakpoint": BREAKPOINT, "cache_control": CACHE_CONTROL}
_OUTPUT_TEXT: dict[str, Shape] = {
    "text": TEXT,
    "annotations": Each(ANNOTATION),
    "logprobs": Emptied(),
    "parsed": STRINGS,
}
_TEXT = content({"text": TEXT, **_CACHED}, words="type")
PARTS: dict[str, Shape] = {
    "input_text": _TEXT,
    "input_image": Media({}),
    "input_file": Media({"filename": TEXT}),
    "input_audio": Media({}),
    "computer_screenshot": Media({}),
    "output_text": content({**_OUTPUT_TEXT, **_CACHED}, words="type"),
    "refusal": content({"refusal": TEXT}, words="type"),
    "text": _TEXT,
    "summary_text": _TEXT,
    "reasoning_text": _TEXT,
}
PART = Typed(PARTS)
CONTENT = Either(string=TEXT, array=Each(PART))

_CHECKS = each({"message": TEXT, "code": TEXT}, links="id")
_ACTION = record(
    {
        "text": TEXT,
        "keys": TEXTS,
        "path": each(plain="x y"),
    },
    words="type button",
    plain="x y scroll_x scroll_y",
)
_SEARCH_ACTION = record(
    {"query": TEXT, "queries": TEXTS, "url": TEXT, "pattern": TEXT, "sources": each({"url": TEXT}, words="type")},
    words="type",
)
_FOUND = record(
    {"text": TEXT, "filename": TEXT, "attributes": Values(VALUE)}, links="file_id vector_store_id", plain="score"
)
_OUTPUTS: dict[str, Shape] = {"logs": record({"logs": TEXT}, words="type"), "image": Media({})}
_SHELL_ACTION = record(
    {"command": TEXTS, "env": Values(TEXT), "working_directory": TEXT, "user": TEXT}, words="type", plain="timeout_ms"
)
_SHELL_COMMANDS = record({"commands": TEXTS}, plain="max_output_length timeout_ms")
_SHELL_OUTPUT = record(
    {
        "stdout": TEXT,
        "stderr": TEXT,
        "outcome": record(words="type", plain="exit_code"),
        "created_by": IDENTIFIER,
    }
)
_PATCH = record({"diff": TEXT, "path": TEXT}, words="type")
_MCP_ERROR = Either(string=TEXT, record=record({"message": TEXT, "content": VALUE}, words="type", plain="code"))
_IMAGE_ERROR = record({"message": TEXT, "code": TEXT, "param": TEXT, "type": TEXT, "moderation_details": STRINGS})
_SVG_USAGE = record({"model": MODEL}, plain="input_tokens output_tokens reasoning_tokens total_tokens")
TEXT_FORMAT = record({"description": DEFINITION, "schema": SCHEMA}, words="type", names="name", plain="strict")
TEXT_CONFIG = record({"format": TEXT_FORMAT}, words="verbosity")
_REASONING = record(words="effort summary generate_summary context mode", plain="enabled max_tokens")
_CALLER = record(words="type", links="caller_id")


def _item(rows: dict[str, Shape] | None = None, /, **names: str) -> Members:
    """An item of a conversation: what all have, and these rows."""
    names["words"] = f"type status {names.get('words', '')}"
    names["links"] = f"id call_id {names.get('links', '')}"
    return content({"caller": _CALLER, "created_by": IDENTIFIER, **(rows or {})}, **names)


ITEMS: dict[str, Shape] = {
    "message": _item({"content": CONTENT}, words="role phase"),
    "item_reference": _item(),
    "function_call": _item({"arguments": JSON, "parsed_arguments": STRINGS}, names="name namespace", plain="async"),
    "function_call_output": _item({"output": CONTENT}, names="name namespace"),
    "custom_tool_call": _item({"input": TEXT}, names="name namespace", plain="async"),
    "custom_tool_call_output": _item({"output": CONTENT}),
    "reasoning": _item(
        {"summary": Each(_TEXT), "content": Each(_TEXT)}, blobs="encrypted_content signature", words="format"
    ),
    "compaction": _item(blobs="encrypted_content"),
    "compaction_trigger": _item(),
    "configuration_update": _item({"text": TEXT_CONFIG, "reasoning": _REASONING}),
    "additional_tools": _item({"tools": Each(TOOL)}, words="role"),
    "tool_search_call": _item({"arguments": VALUE}, words="execution"),
    "tool_search_output": _item({"tools": Each(TOOL)}, words="execution"),
    "file_search_call": _item({"queries": TEXTS, "results": Each(_FOUND)}),
    "web_search_call": _item({"action": _SEARCH_ACTION}),
    "computer_call": _item({"action": _ACTION, "actions": Each(_ACTION), "pending_safety_checks": _CHECKS}),
    "computer_call_output": _item({"output": PART, "acknowledged_safety_checks": _CHECKS}),
    "image_generation_call": _item(
        {"result": MEDIA, "revised_prompt": TEXT, "error": _IMAGE_ERROR, "size": SIZE, "svg_usage": _SVG_USAGE},
        words="action background output_format quality",
    ),
    "code_interpreter_call": _item({"code": TEXT, "outputs": Each(Typed(_OUTPUTS))}, links="container_id"),
    "local_shell_call": _item({"action": _SHELL_ACTION}),
    "local_shell_call_output": _item({"output": JSON}),
    "shell_call": _item({"action": _SHELL_COMMANDS, "environment": ENVIRONMENT}),
    "shell_call_output": _item({"output": Each(_SHELL_OUTPUT)}, plain="max_output_length"),
    "apply_patch_call": _item({"operation": _PATCH}),
    "apply_patch_call_output": _item({"output": TEXT}),
    "mcp_list_tools": _item({"tools": Each(LISTED_TOOL), "error": TEXT}, names="server_label"),
    "mcp_approval_request": _item({"arguments": JSON}, names="name server_label"),
    "mcp_approval_response": _item({"reason": TEXT}, links="approval_request_id", plain="approve"),
    "mcp_call": _item(
        {"arguments": JSON, "output": TEXT, "error": _MCP_ERROR},
        names="name server_label",
        links="approval_request_id",
    ),
    "program": _item({"code": Signed(("fingerprint",))}, blobs="fingerprint"),
    "program_output": _item({"result": TEXT}),
}


def item_type(item: Mapping[str, Any]) -> Any:
    """An item without a type is a message if it has a role, and a reference if it has an identifier alone."""
    if item.get("type") is not None:
        return item["type"]
    if "role" in item:
        return "message"
    return "item_reference" if set(item) <= {"id", "type"} else None


ITEM = Typed(ITEMS, item_type)
_PROMPT = record(
    {"variables": Values(Either(string=TEXT, record=PART)), "version": VERSION},
    references="id",
)
_SHARED: dict[str, Shape] = {
    "instructions": Either(string=TEXT, array=Each(ITEM)),
    "prompt": _PROMPT,
    "tools": Each(TOOL),
    "text": TEXT_CONFIG,
}
REQUEST = Members(
    {
        "input": Either(string=TEXT, array=Each(ITEM)),
        **OTHERS,
        **_SHARED,
        **SHARED,
        "tool_choice": TOOL_CHOICE,
        "reasoning": _REASONING,
        "include": Each(WORD),
        "conversation": Either(string=REFERENCE, record=record(references="id")),
        "previous_response_id": REFERENCE,
        "prompt_cache_options": record(words="mode ttl", references="comparison_response_id", plain="prewarm"),
        "context_management": each(words="type", plain="compact_threshold"),
        "background_options": record(words="completion_window", references="continuation_id"),
        "access_programs": record(words="cyber"),
        "image": record(words="context_compression"),
        **record(words="truncation", plain="background max_output_tokens max_tool_calls").rows,
    }
)
ANSWER = Members(
    {
        "output": Each(ITEM),
        "error": ERROR,
        **_SHARED,
        **{name: SHARED[name] for name in ("metadata", "user", "safety_identifier", "prompt_cache_key")},
    }
)
