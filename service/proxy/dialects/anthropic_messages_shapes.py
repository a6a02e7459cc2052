"""Where requests and answers of Anthropic's Messages hold text.

From the types of the Python SDK `anthropic` 2.12.0, `types` and, where a beta adds blocks of text, `types/beta`.

These members stay as they are, by intent: names of models, tools and servers, identifiers, what the upstream signed
or encrypted (`signature`, `data` of `redacted_thinking`, `encrypted_content`, `encrypted_stdout`, `encrypted_index`),
patterns of schemas, `country` and `timezone` of a location (codes), addresses and tokens of MCP servers (the upstream
needs them to connect), lists of domains, and members that the tables do not name. `start_char_index` and
`end_char_index` of a citation count in the document as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.shapes import (
    DEFINITION,
    ERROR,
    IDENTIFIER,
    NO_TEXT,
    TEXT,
    TEXTS,
    UNTOUCHED,
    VALUE,
    Content,
    Each,
    Either,
    Media,
    Members,
    Shape,
    Signed,
    Strings,
    Typed,
)
from service.proxy.slots import Kind

CITATION = Members({"cited_text": TEXT, "document_title": TEXT, "title": TEXT, "url": TEXT, "source": TEXT})
BLOCKS: dict[str, Shape] = {}
CONTENT = Either(string=TEXT, array=Each(Typed(BLOCKS)))

_SOURCES: dict[str, Shape] = {
    "text": Members({"data": TEXT}),
    "content": Members({"content": CONTENT}),
    "base64": Media({}),
    "url": Media({"url": TEXT}),
    "file": Media({}),
}
_DOCUMENT = Content(
    {"source": Typed(_SOURCES), "title": TEXT, "context": TEXT},
)
_FAILED = Members({"error_message": TEXT})
_RUN = Members({"stdout": TEXT, "stderr": TEXT})
# The objects in `content` of the results of the upstream's own tools.
RESULTS: dict[str, Shape] = {
    "web_search_result": Members({"title": TEXT, "url": TEXT}),
    "web_search_tool_result_error": NO_TEXT,
    "web_fetch_result": Members({"url": TEXT, "content": Typed(BLOCKS)}),
    "web_fetch_tool_result_error": NO_TEXT,
    "code_execution_result": _RUN,
    "encrypted_code_execution_result": _RUN,
    "code_execution_tool_result_error": NO_TEXT,
    "bash_code_execution_result": _RUN,
    "bash_code_execution_tool_result_error": NO_TEXT,
    "text_editor_code_execution_view_result": Members({"content": TEXT}),
    "text_editor_code_execution_create_result": NO_TEXT,
    "text_editor_code_execution_str_replace_result": Members({"lines": TEXTS}),
    "text_editor_code_execution_tool_result_error": _FAILED,
    "tool_search_tool_search_result": NO_TEXT,
    "tool_search_tool_result_error": _FAILED,
    "advisor_result": Members({"text": TEXT}),
    "advisor_redacted_result": NO_TEXT,
    "advisor_tool_result_error": NO_TEXT,
}
_RESULT = Content({"content": Either(array=Each(Typed(RESULTS)), record=Typed(RESULTS))})
_USE = Content({"input": VALUE})
_GIVEN = Content({"content": CONTENT})
_TABS = Each(Members({"title": TEXT, "url": TEXT}))
_CHANGES = Each(Members({"url": TEXT, "path": TEXT, "error": TEXT}))

_TOOL = Members({"description": DEFINITION, "input_schema": SCHEMA, "input_examples": Strings(Kind.DEFINITION)})
_LISTED_TOOLS = Members({"tools": Each(Members({"description": DEFINITION, "input_schema": SCHEMA}))})
_WEB_SEARCH = Members({"user_location": Members({"city": TEXT, "region": TEXT})})
_BUILT_IN = Members({"input_examples": Strings(Kind.DEFINITION)})
# By their family: `web_search_20260209` is a `web_search`.
TOOLS: dict[str, Shape] = {
    "custom": _TOOL,
    "web_search": _WEB_SEARCH,
    "mcp_toolset": _LISTED_TOOLS,
    "advisor": NO_TEXT,
    "bash": _BUILT_IN,
    "browser_toolset": _BUILT_IN,
    "code_execution": _BUILT_IN,
    "computer": _BUILT_IN,
    "computer_toolset": _BUILT_IN,
    "memory": _BUILT_IN,
    "text_editor": _BUILT_IN,
    "tool_search_tool_bm25": _BUILT_IN,
    "tool_search_tool_regex": _BUILT_IN,
    "web_fetch": _BUILT_IN,
}


def tool_family(tool: Mapping[str, Any]) -> Any:
    """The type of a tool without its date; a tool without a type is `custom`."""
    name = tool.get("type")
    if name is None:
        return "custom"
    return re.sub(r"_20\d{6}$", "", name) if isinstance(name, str) else name


TOOL = Typed(TOOLS, tool_family)
_CHANGED_TOOL = Members({"tool": Members({"definition": TOOL})})
BLOCKS.update(
    {
        "text": Content({"text": TEXT, "citations": Each(CITATION)}),
        "image": Media({}),
        "document": _DOCUMENT,
        "search_result": Content({"content": CONTENT, "source": TEXT, "title": TEXT}),
        "thinking": Content({"thinking": Signed(("signature",))}),
        "redacted_thinking": NO_TEXT,
        "tool_use": _USE,
        "server_tool_use": _USE,
        "mcp_tool_use": _USE,
        "tool_result": _GIVEN,
        "mcp_tool_result": _GIVEN,
        "web_search_tool_result": _RESULT,
        "web_fetch_tool_result": _RESULT,
        "code_execution_tool_result": _RESULT,
        "bash_code_execution_tool_result": _RESULT,
        "text_editor_code_execution_tool_result": _RESULT,
        "tool_search_tool_result": _RESULT,
        "advisor_tool_result": _RESULT,
        "tool_reference": NO_TEXT,
        "browser_state": Content({"tabs": _TABS, "state_changes": _CHANGES}),
        "container_upload": Media({}),
        "compaction": Content(
            {"content": Signed(("signature", "encrypted_content")), "tool_changes": Each(_CHANGED_TOOL)}
        ),
        "fallback": NO_TEXT,
        "mcp_tool_listing": _LISTED_TOOLS,
        "tool_addition": _CHANGED_TOOL,
        "tool_removal": NO_TEXT,
    }
)
_FORMAT = Members({"schema": SCHEMA})
_EDITS = Each(Members({"instructions": TEXT}))
REQUEST = Members(
    {
        "system": CONTENT,
        "messages": Each(Content({"content": CONTENT, "clear_at": UNTOUCHED, "output_config": UNTOUCHED})),
        "tools": Each(TOOL),
        "stop_sequences": TEXTS,
        "metadata": Members({"user_id": IDENTIFIER}),
        "output_config": Members({"format": _FORMAT}),
        "fallbacks": Either(string=UNTOUCHED, array=Each(Members({"output_config": Members({"format": _FORMAT})}))),
        "output_format": _FORMAT,
        "compaction": Members({"instructions": TEXT}),
        "context_management": Members({"edits": _EDITS}),
    }
)
_STOPPED: dict[str, Shape] = {"stop_sequence": TEXT, "stop_details": Members({"explanation": TEXT})}
BLOCK = Typed(BLOCKS)
ANSWER = Members({"content": Each(BLOCK), **_STOPPED, "error": ERROR})
STOP = Members(_STOPPED)

# Of a stream's deltas: which member has the text of which type, and how it is restored.
DELTAS: dict[str, tuple[str, str]] = {
    "text_delta": ("text", "content"),
    "thinking_delta": ("thinking", "text"),
    "input_json_delta": ("partial_json", "json"),
    "compaction_delta": ("content", "text"),
}
