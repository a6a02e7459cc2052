"""Where requests and answers of OpenAI's Responses hold text.

From the types of the Python SDK `openai` 3.54.0, `types/responses`: every content part, item and tool.

These members stay as they are, by intent: names of models, functions, tools and labels of servers, identifiers, what
the upstream encrypted (`encrypted_content`), patterns of schemas, `country` and `timezone` of a location (codes), the
address, headers and credentials of MCP servers and containers (the upstream needs them to connect), keys that are
pressed, and members that the tables do not name.
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
    MEDIA,
    METADATA,
    NO_TEXT,
    TEXT,
    TEXTS,
    VALUE,
    Content,
    Each,
    Either,
    Emptied,
    Media,
    Members,
    Shape,
    Signed,
    Strings,
    Typed,
    Values,
)
from service.proxy.slots import Kind

ANNOTATION = Members({"title": TEXT, "url": TEXT, "filename": TEXT})
PARTS: dict[str, Shape] = {
    "input_text": Content({"text": TEXT}),
    "input_image": Media({}),
    "input_file": Media({"filename": TEXT}),
    "input_audio": Media({}),
    "computer_screenshot": Media({}),
    "output_text": Content({"text": TEXT, "annotations": Each(ANNOTATION), "logprobs": Emptied()}),
    "refusal": Content({"refusal": TEXT}),
    "text": Content({"text": TEXT}),
    "summary_text": Content({"text": TEXT}),
    "reasoning_text": Content({"text": TEXT}),
}
PART = Typed(PARTS)
CONTENT = Either(string=TEXT, array=Each(PART))

_CHECKS = Each(Members({"message": TEXT}))
_TYPED_TEXT = Members({"text": TEXT})
_SEARCH_ACTION = Members(
    {"query": TEXT, "queries": TEXTS, "url": TEXT, "pattern": TEXT, "sources": Each(Members({"url": TEXT}))}
)
_FOUND = Members({"text": TEXT, "filename": TEXT, "attributes": Values(VALUE)})
_OUTPUTS: dict[str, Shape] = {"logs": Members({"logs": TEXT}), "image": Media({})}
_SHELL_ACTION = Members({"command": TEXTS, "env": Values(TEXT), "working_directory": TEXT, "user": TEXT})
_SHELL_OUTPUT = Members({"stdout": TEXT, "stderr": TEXT})
_SKILL = Members({"description": DEFINITION, "path": TEXT, "source": MEDIA})
_ENVIRONMENT = Members({"skills": Each(_SKILL)})
_LISTED_TOOL = Members({"description": DEFINITION, "input_schema": SCHEMA, "annotations": Strings(Kind.DEFINITION)})
_MCP_ERROR = Either(string=TEXT, record=Members({"message": TEXT, "content": VALUE}))

# Keys of attributes are names; their values are what a search compares with.
_FILTERS: dict[str, Shape] = {"value": Strings(Kind.TEXT)}
_FILTER = Either(string=TEXT, record=Members(_FILTERS))
_FILTERS["filters"] = Each(_FILTER)
LOCATION = Members({"city": TEXT, "region": TEXT})
_WEB_SEARCH = Members({"user_location": LOCATION})
TOOLS: dict[str, Shape] = {}
TOOL = Typed(TOOLS)
TOOLS.update(
    {
        "function": Members({"description": DEFINITION, "parameters": SCHEMA, "output_schema": SCHEMA}),
        "custom": Members({"description": DEFINITION, "format": Members({"definition": DEFINITION})}),
        "namespace": Members({"description": DEFINITION, "tools": Each(TOOL)}),
        "tool_search": Members({"description": DEFINITION, "parameters": SCHEMA}),
        "file_search": Members({"filters": _FILTER}),
        "web_search": _WEB_SEARCH,
        "web_search_2025_08_26": _WEB_SEARCH,
        "web_search_preview": _WEB_SEARCH,
        "web_search_preview_2025_03_11": _WEB_SEARCH,
        "mcp": Members({"server_description": DEFINITION}),
        "code_interpreter": NO_TEXT,
        "image_generation": Members({"input_image_mask": MEDIA}),
        "shell": Members({"environment": _ENVIRONMENT}),
        "local_shell": NO_TEXT,
        "apply_patch": NO_TEXT,
        "computer": NO_TEXT,
        "computer_use_preview": NO_TEXT,
        "programmatic_tool_calling": NO_TEXT,
    }
)
TEXT_CONFIG = Members({"format": Members({"description": DEFINITION, "schema": SCHEMA})})

ITEMS: dict[str, Shape] = {
    "message": Content({"content": CONTENT}),
    "item_reference": NO_TEXT,
    "function_call": Content({"arguments": JSON}),
    "function_call_output": Content({"output": CONTENT}),
    "custom_tool_call": Content({"input": TEXT}),
    "custom_tool_call_output": Content({"output": CONTENT}),
    "reasoning": Content({"summary": Each(_TYPED_TEXT), "content": Each(_TYPED_TEXT)}),
    "compaction": NO_TEXT,
    "compaction_trigger": NO_TEXT,
    "configuration_update": Members({"text": TEXT_CONFIG}),
    "additional_tools": Members({"tools": Each(TOOL)}),
    "tool_search_call": Content({"arguments": VALUE}),
    "tool_search_output": Content({"tools": Each(TOOL)}),
    "file_search_call": Content({"queries": TEXTS, "results": Each(_FOUND)}),
    "web_search_call": Content({"action": _SEARCH_ACTION}),
    "computer_call": Content({"action": _TYPED_TEXT, "actions": Each(_TYPED_TEXT), "pending_safety_checks": _CHECKS}),
    "computer_call_output": Content({"output": PART, "acknowledged_safety_checks": _CHECKS}),
    "image_generation_call": Members({"result": MEDIA, "revised_prompt": TEXT, "error": Members({"message": TEXT})}),
    "code_interpreter_call": Content({"code": TEXT, "outputs": Each(Typed(_OUTPUTS))}),
    "local_shell_call": Content({"action": _SHELL_ACTION}),
    "local_shell_call_output": Content({"output": JSON}),
    "shell_call": Content({"action": Members({"commands": TEXTS}), "environment": _ENVIRONMENT}),
    "shell_call_output": Content({"output": Each(_SHELL_OUTPUT)}),
    "apply_patch_call": Content({"operation": Members({"diff": TEXT, "path": TEXT})}),
    "apply_patch_call_output": Content({"output": TEXT}),
    "mcp_list_tools": Content({"tools": Each(_LISTED_TOOL), "error": TEXT}),
    "mcp_approval_request": Content({"arguments": JSON}),
    "mcp_approval_response": Content({"reason": TEXT}),
    "mcp_call": Content({"arguments": JSON, "output": TEXT, "error": _MCP_ERROR}),
    "program": Content({"code": Signed(("fingerprint",))}),
    "program_output": Content({"result": TEXT}),
}


def item_type(item: Mapping[str, Any]) -> Any:
    """An item without a type is a message if it has a role, and a reference if it has an identifier alone."""
    if item.get("type") is not None:
        return item["type"]
    if "role" in item:
        return "message"
    return "item_reference" if set(item) <= {"id", "type"} else None


ITEM = Typed(ITEMS, item_type)
_PROMPT = Members({"variables": Values(Either(string=TEXT, record=PART))})
_SHARED: dict[str, Shape] = {
    "instructions": Either(string=TEXT, array=Each(ITEM)),
    "prompt": _PROMPT,
    "metadata": METADATA,
    "user": IDENTIFIER,
    "safety_identifier": IDENTIFIER,
    "prompt_cache_key": IDENTIFIER,
    "tools": Each(TOOL),
    "text": TEXT_CONFIG,
}
REQUEST = Members({"input": Either(string=TEXT, array=Each(ITEM)), **_SHARED})
ANSWER = Members({"output": Each(ITEM), "error": ERROR, **_SHARED})
