"""Where requests and answers of Anthropic's Messages hold text, and what else a request may have.

From the types of the Python SDK `anthropic` 2.14.0, `types` and `types/beta`; the tools are in
`anthropic_messages_tools`. The shapes of `public` say which members leave as they are, and in which form.
`start_char_index` and `end_char_index` of a citation count in the document as it was sent.
"""

from __future__ import annotations

from service.proxy.dialects.anthropic_messages_tools import CACHE_CONTROL, CHANGED_TOOL, LISTED_TOOLS, TOOL, TOOL_CHOICE
from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.public import (
    BLOB,
    FLAG,
    MODEL,
    NAME,
    PLAIN,
    REFERENCE,
    REPLACED,
    VERSION,
    WORD,
    content,
    each,
    record,
)
from service.proxy.dialects.shapes import (
    ERROR,
    IDENTIFIER,
    STRINGS,
    TEXT,
    TEXTS,
    VALUE,
    Each,
    Either,
    Media,
    Members,
    Shape,
    Signed,
    Typed,
)

CITATION = record(
    {"cited_text": TEXT, "document_title": TEXT, "title": TEXT, "url": TEXT, "source": TEXT},
    words="type",
    blobs="encrypted_index",
    links="file_id",
    plain="""
    document_index end_char_index start_char_index end_page_number start_page_number end_block_index start_block_index
    search_result_index
    """,
)
BLOCKS: dict[str, Shape] = {}
CONTENT = Either(string=TEXT, array=Each(Typed(BLOCKS)))

_SOURCES: dict[str, Shape] = {
    "text": record({"data": TEXT}, words="type media_type"),
    "content": record({"content": CONTENT}, words="type"),
    "base64": Media({}),
    "url": Media({"url": TEXT}),
    "file": Media({}),
}
_DOCUMENT: dict[str, Shape] = {
    "source": Typed(_SOURCES),
    "title": TEXT,
    "context": TEXT,
    "citations": record(plain="enabled"),
}
_FAILED = record({"error_message": TEXT}, words="type error_code")
_FILES = each(words="type", links="file_id")
_RUN = record(
    {"stdout": TEXT, "stderr": TEXT, "content": _FILES}, words="type", blobs="encrypted_stdout", plain="return_code"
)
_EDITED = record(
    {"content": TEXT, "lines": TEXTS},
    words="type file_type",
    plain="num_lines start_line total_lines new_lines new_start old_lines old_start is_file_update",
)
_FOUND_TOOL = record({"cache_control": CACHE_CONTROL}, words="type", names="tool_name")
_ADVICE = record({"text": TEXT}, words="type stop_reason", blobs="encrypted_content")
# The objects in `content` of the results of the upstream's own tools.
RESULTS: dict[str, Shape] = {
    "web_search_result": record(
        {"title": TEXT, "url": TEXT, "page_age": TEXT}, words="type", blobs="encrypted_content"
    ),
    "web_fetch_result": record({"url": TEXT, "content": Typed(BLOCKS), "retrieved_at": TEXT}, words="type"),
    **dict.fromkeys(
        ("code_execution_result", "encrypted_code_execution_result", "bash_code_execution_result"),
        _RUN,
    ),
    **dict.fromkeys(
        (
            "text_editor_code_execution_view_result",
            "text_editor_code_execution_create_result",
            "text_editor_code_execution_str_replace_result",
        ),
        _EDITED,
    ),
    "tool_search_tool_search_result": record({"tool_references": Each(_FOUND_TOOL)}, words="type"),
    "advisor_result": _ADVICE,
    "advisor_redacted_result": _ADVICE,
    **dict.fromkeys(
        (
            *("web_search_tool_result_error", "web_fetch_tool_result_error", "code_execution_tool_result_error"),
            *("bash_code_execution_tool_result_error", "text_editor_code_execution_tool_result_error"),
            *("tool_search_tool_result_error", "advisor_tool_result_error"),
        ),
        _FAILED,
    ),
}
_CALLER = record(words="type", links="tool_id")


def _block(rows: dict[str, Shape] | None = None, /, **names: str) -> Members:
    """A block of content: what all have, and these rows. `index` is left from a stream."""
    names["words"] = f"type {names.get('words', '')}"
    names["plain"] = f"index {names.get('plain', '')}"
    return content({"cache_control": CACHE_CONTROL, "caller": _CALLER, **(rows or {})}, **names)


_RESULT = _block({"content": Either(array=Each(Typed(RESULTS)), record=Typed(RESULTS))}, links="tool_use_id")
_USE = _block({"input": VALUE}, links="id", names="name server_name toolset_name")
_GIVEN = _block({"content": CONTENT}, links="tool_use_id", names="toolset_name", plain="is_error")
_TABS = each({"title": TEXT, "url": TEXT}, links="tab_id", plain="active")
_CHANGES = each(
    {"url": TEXT, "path": TEXT, "error": TEXT}, words="type", links="tab_id download_id", plain="size_bytes"
)
_CHANGED = _block({"tool": CHANGED_TOOL})
_MODEL = record({"model": MODEL})
BLOCKS.update(
    {
        "text": _block({"text": TEXT, "citations": Each(CITATION), "parsed_output": STRINGS}),
        "image": Media({}),
        "document": _block(_DOCUMENT),
        "search_result": _block(
            {"content": CONTENT, "source": TEXT, "title": TEXT, "citations": record(plain="enabled")}
        ),
        "thinking": _block({"thinking": Signed(("signature",))}, blobs="signature"),
        "redacted_thinking": _block(blobs="data"),
        **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), _USE),
        **dict.fromkeys(("tool_result", "mcp_tool_result"), _GIVEN),
        **dict.fromkeys(
            (
                *("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
                *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
                *("tool_search_tool_result", "advisor_tool_result"),
            ),
            _RESULT,
        ),
        "tool_reference": _block(names="tool_name"),
        "browser_state": _block({"tabs": _TABS, "state_changes": _CHANGES}),
        "container_upload": Media({}),
        "compaction": _block(
            {"content": Signed(("signature", "encrypted_content")), "tool_changes": Each(_CHANGED)},
            blobs="signature encrypted_content",
        ),
        "fallback": _block({"from": _MODEL, "to": _MODEL, "trigger": STRINGS}),
        "mcp_tool_listing": _block({"tools": LISTED_TOOLS}, names="mcp_server_name"),
        "tool_addition": _CHANGED,
        "tool_removal": _CHANGED,
    }
)
_FORMAT = record({"schema": SCHEMA}, words="type")
_OUTPUT = record({"format": _FORMAT, "task_budget": record(words="type", plain="total remaining")}, words="effort")
_COUNTED = record(words="type", plain="value")
_EDIT = record(
    {
        "instructions": TEXT,
        "keep": Either(string=WORD, record=_COUNTED),
        "trigger": _COUNTED,
        "clear_at_least": _COUNTED,
        "clear_tool_inputs": Either(array=Each(NAME), number=PLAIN),
    },
    words="type",
    names="exclude_tools",
    plain="pause_after_compaction",
)
_THINKING = record(
    {"block_binding": record(words="prefix_mismatch_behavior")}, words="type display", plain="budget_tokens"
)
_SKILLED = record({"skills": each({"version": VERSION}, words="type", references="skill_id")}, references="id")
_MCP_SERVER = record(
    {"tool_configuration": record(names="allowed_tools", plain="enabled")},
    words="type",
    names="name",
    refused="url authorization_token",
)
_FALLBACK = record({"model": MODEL, "output_config": _OUTPUT, "thinking": _THINKING}, words="speed", plain="max_tokens")
_FLAGS = Each(FLAG)
REQUEST = Members(
    {
        "system": CONTENT,
        "messages": Each(content({"content": CONTENT, "output_config": _OUTPUT}, words="role clear_at")),
        "tools": Each(TOOL),
        "tool_choice": TOOL_CHOICE,
        "stop_sequences": TEXTS,
        "metadata": record({"user_id": IDENTIFIER}),
        "output_config": _OUTPUT,
        "output_format": _FORMAT,
        "fallbacks": Either(string=WORD, array=Each(_FALLBACK)),
        "compaction": record({"instructions": TEXT}, words="type"),
        "context_management": record({"edits": Each(_EDIT)}),
        "thinking": _THINKING,
        "cache_control": CACHE_CONTROL,
        "container": Either(string=REFERENCE, record=_SKILLED),
        "mcp_servers": Each(_MCP_SERVER),
        "thread": record(words="type", references="previous_message_id"),
        "diagnostics": record(references="previous_message_id"),
        "billing_policy": record(words="type bill_to"),
        "fallback_credit_token": Either(string=BLOB, record=record(words="mode", blobs="token")),
        "betas": _FLAGS,
        "anthropic_beta": _FLAGS,
        "anthropic_version": VERSION,
        "model": REPLACED,
        **record(
            words="service_tier speed inference_geo",
            references="user_profile_id workspace_id",
            plain="max_tokens stream temperature top_k top_p",
        ).rows,
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
