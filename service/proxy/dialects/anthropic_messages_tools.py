"""The tools of Anthropic's Messages: their definitions, and which of them a model may choose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.openai_chat_shapes import LOCATION
from service.proxy.dialects.public import MODEL, each, record
from service.proxy.dialects.shapes import DEFINITION, Each, Members, Shape, Strings, Typed, Values
from service.proxy.slots import Kind

CACHE_CONTROL = record(words="type ttl scope")
_CONFIGS = Values(record(plain="enabled defer_loading"), Kind.DEFINITION)
_LISTED_TOOL = record({"description": DEFINITION, "input_schema": SCHEMA, "cache_control": CACHE_CONTROL}, names="name")
LISTED_TOOLS: Shape = Each(_LISTED_TOOL)


def _tool(rows: dict[str, Shape] | None = None, /, **names: str) -> Members:
    """A definition: what all tools have, and these rows."""
    names["words"] = f"type allowed_callers {names.get('words', '')}"
    names["names"] = f"name {names.get('names', '')}"
    names["plain"] = f"defer_loading strict eager_input_streaming max_uses {names.get('plain', '')}"
    examples = Strings(Kind.DEFINITION)
    return record({"cache_control": CACHE_CONTROL, "input_examples": examples, **(rows or {})}, **names)


_BUILT_IN = _tool(
    {"configs": _CONFIGS}, plain="display_height_px display_width_px display_number enable_zoom max_characters"
)
_URLS = record({"tools": each(words="type", names="name")}, words="type")
_WEB = _tool(
    {
        "user_location": LOCATION,
        "citations": record(plain="enabled"),
        "url_sources": record({"client_tool_results": _URLS, "server_tool_results": _URLS, "user_input": _URLS}),
    },
    words="response_inclusion",
    hosts="allowed_domains blocked_domains",
    plain="max_content_tokens use_cache",
)
# By their family: `web_search_20260209` is a `web_search`.
TOOLS: dict[str, Shape] = {
    "custom": _tool({"description": DEFINITION, "input_schema": SCHEMA}),
    "web_search": _WEB,
    "web_fetch": _WEB,
    "mcp_toolset": _tool(
        {"tools": LISTED_TOOLS, "configs": _CONFIGS, "default_config": record(plain="enabled defer_loading")},
        names="mcp_server_name",
    ),
    "advisor": _tool({"model": MODEL, "caching": CACHE_CONTROL}, plain="max_tokens"),
    **dict.fromkeys(
        (
            *("bash", "browser_toolset", "code_execution", "computer", "computer_toolset", "memory", "text_editor"),
            *("tool_search_tool_bm25", "tool_search_tool_regex"),
        ),
        _BUILT_IN,
    ),
}


def tool_family(tool: Mapping[str, Any]) -> Any:
    """The type of a tool without its date; a tool without a type is `custom`."""
    name = tool.get("type")
    if name is None:
        return "custom"
    return re.sub(r"_20\d{6}$", "", name) if isinstance(name, str) else name


TOOL = Typed(TOOLS, tool_family)
# Of a block that adds a tool, or removes one.
CHANGED_TOOL = record({"definition": TOOL}, words="type", names="name server_name")
TOOL_CHOICE = record(words="type", names="name", plain="disable_parallel_tool_use")
