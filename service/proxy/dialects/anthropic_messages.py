"""Anthropic's Messages, `POST /v1/messages`.

The tables say where requests and answers hold text, and what else a request may have. They follow the types of the
Python SDK `anthropic` 2.14.0, `types` and `types/beta`; those of events follow `RawMessageStreamEvent` of 2.12.0. The
shapes of `public` say which members leave as they are, and in which form. `start_char_index` and `end_char_index` of a
citation count in the document as it was sent.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from service.proxy.dialects.openai_chat import LOCATION
from service.proxy.dialects.protocol import Event, Restorers, StreamRestorer, first_text_of_user, member
from service.proxy.dialects.public import (
    BLOB,
    FLAG,
    MODEL,
    NAME,
    PLAIN,
    REFERENCE,
    REPLACED,
    SCHEMA,
    VERSION,
    WORD,
    content,
    each,
    record,
)
from service.proxy.dialects.restoring import (
    CommonDialect,
    RestoredField,
    Rule,
    content_rule,
    restore_error,
    restore_shape,
    restore_slot,
)
from service.proxy.dialects.shapes import (
    DEFINITION,
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
    Strings,
    Typed,
    Values,
    slots_of,
)
from service.proxy.slots import Slot, SlotKind

CACHE_CONTROL = record(words="type ttl scope")
_CONFIGS = Values(record(plain="enabled defer_loading"), SlotKind.DEFINITION)
_LISTED_TOOL = record({"description": DEFINITION, "input_schema": SCHEMA, "cache_control": CACHE_CONTROL}, names="name")
LISTED_TOOLS: Shape = Each(_LISTED_TOOL)


def _tool(rows: dict[str, Shape] | None = None, /, **names: str) -> Members:
    """A definition: what all tools have, and these rows."""
    names["words"] = f"type allowed_callers {names.get('words', '')}"
    names["names"] = f"name {names.get('names', '')}"
    names["plain"] = f"defer_loading strict eager_input_streaming max_uses {names.get('plain', '')}"
    examples = Strings(SlotKind.DEFINITION)
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
    **dict.fromkeys(("code_execution_result", "encrypted_code_execution_result", "bash_code_execution_result"), _RUN),
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


# The text of a block of the answer itself; texts inside of results of tools are never the structured content.
_CONTENT = re.compile(r"(message\.)?(content\.\d+|content_block)\.text")
_WHOLE: dict[str, Shape] = {
    "message_start": Members({"message": ANSWER}),
    "content_block_start": Members({"content_block": BLOCK}),
    "message_delta": Members({"delta": STOP}),
}


def restore_blocks(shape: Shape, value: Any, restorers: Restorers, structured: bool) -> None:
    """Restore `value` in place; the text of its own blocks is what the request asked the content to be."""
    for slot in list(slots_of(shape, value, strict=False)):
        restore_slot(slot, restorers, content_rule(structured and bool(_CONTENT.fullmatch(slot.path))))


class MessagesStream:
    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self._restorers = restorers
        self._structured = structured
        self._open: dict[tuple[int, str], RestoredField] = {}

    def event(self, name: str | None, data: Any) -> list[Event]:
        if not isinstance(data, dict):
            return [(name, data)]
        kind = data.get("type") or name
        if kind == "content_block_delta" and isinstance(data.get("delta"), dict):
            return self._delta(name, data)
        if kind == "content_block_stop":
            return [*self._ended(_index(data)), (name, data)]
        if kind == "error":
            restore_error(data, self._restorers)
            return [*self.end(), (name, data)]
        events = self.end() if kind in ("message_delta", "message_stop") else []
        if isinstance(kind, str) and kind in _WHOLE:
            restore_blocks(_WHOLE[kind], data, self._restorers, self._structured)
        return [*events, (name, data)]

    def end(self) -> list[Event]:
        return [event for index in sorted({index for index, _ in self._open}) for event in self._ended(index)]

    def _delta(self, name: str | None, data: dict[str, Any]) -> list[Event]:
        index, delta = _index(data), data["delta"]
        kind = delta.get("type")
        if kind == "signature_delta":  # it signs the thinking before it
            return [*self._ended(index), (name, data)]
        if kind == "citations_delta":
            restore_shape(Members({"citation": CITATION}), delta, self._restorers)
        row = DELTAS.get(kind) if isinstance(kind, str) else None
        if row is None or not isinstance(delta.get(row[0]), str):
            return [(name, data)]
        written = delta[row[0]]
        if (index, kind) not in self._open:
            self._open[index, kind] = RestoredField(self._restorers, self._rule(row[1]))
        delta[row[0]] = self._open[index, kind].feed(written)
        return [] if written and not delta[row[0]] else [(name, data)]

    def _rule(self, rule: Any) -> Rule:
        return content_rule(self._structured) if rule == "content" else rule

    def _ended(self, index: int) -> list[Event]:
        """End the texts of one block: the events for what they held back."""
        events: list[Event] = []
        for key in [key for key in self._open if key[0] == index]:
            rest = self._open.pop(key).end()
            delta = {"type": key[1], DELTAS[key[1]][0]: rest}
            data = {"type": "content_block_delta", "index": index, "delta": delta}
            events += [("content_block_delta", data)] if rest else []
        return events


def _index(data: dict[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else 0


class AnthropicMessages(CommonDialect):
    name = "anthropic_messages"
    path = "/v1/messages"
    counting_path: str | None = "/v1/messages/count_tokens"
    upstream_kind: Literal["openai", "anthropic"] = "anthropic"

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        return slots_of(REQUEST, body, strict=True, unread=unread)

    def structured(self, body: Any) -> bool:
        formats = (member(body, "output_config", "format", "type"), member(body, "output_format", "type"))
        return "json_schema" in formats

    def messages_of_user(self, body: Any) -> str:
        return first_text_of_user(member(body, "messages"))

    def kept_by_upstream(self, body: Any) -> tuple[str, ...]:
        return ("thread",) if member(body, "thread") is not None else ()

    def restore(self, answer: Any, restorers: Restorers, *, structured: bool = False) -> None:
        restore_blocks(ANSWER, answer, restorers, structured)

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer:
        return MessagesStream(restorers, structured)
