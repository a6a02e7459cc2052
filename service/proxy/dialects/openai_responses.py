"""OpenAI's Responses, `POST /v1/responses`.

The tables say where requests and answers hold text, and what else a request may have. They follow the types of the
Python SDK `openai` 3.57.0, `types/responses`: every content part, item and tool. Those of events follow
`ResponseStreamEvent` of 3.54.0. The shapes of `public` say which members leave as they are, and in which form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import InvalidInput
from service.proxy.dialects.openai_chat import BREAKPOINT, CACHE_CONTROL, LOCATION, OTHERS, SHARED
from service.proxy.dialects.protocol import (
    CONTINUED,
    Event,
    Restorers,
    StreamRestorer,
    first_text,
    first_text_of_user,
    flag,
    member,
    objects,
)
from service.proxy.dialects.public import (
    MODEL,
    NAME,
    REFERENCE,
    REFUSED,
    SCHEMA,
    SIZE,
    VERSION,
    WORD,
    content,
    each,
    record,
)
from service.proxy.dialects.restoring import (
    CommonDialect,
    Positions,
    RestoredField,
    Rule,
    content_rule,
    move_all_positions,
    move_positions,
    restore_shape,
    restore_slot,
    whole,
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
    Strings,
    Typed,
    Values,
    slots_of,
)
from service.proxy.slots import Slot, SlotKind

_SKILL = record(
    {"description": DEFINITION, "path": TEXT, "source": MEDIA, "version": VERSION},
    words="type",
    names="name",
    references="skill_id",
)
_NETWORK = record({"domain_secrets": REFUSED}, words="type", hosts="allowed_domains")
# Where code runs: of a `shell` tool, of a call of it, and of a `code_interpreter`.
ENVIRONMENT = record(
    {"skills": Each(_SKILL), "network_policy": _NETWORK}, words="type memory_limit", references="file_ids container_id"
)
_CONTAINER = Either(string=REFERENCE, record=ENVIRONMENT)
# Keys of attributes are names; their values are what a search compares with.
_FILTERS: dict[str, Shape] = {**record(words="type", names="key").rows, "value": Strings(SlotKind.TEXT)}
_FILTER = Either(string=TEXT, record=Members(_FILTERS))
_FILTERS["filters"] = Each(_FILTER)
_RANKING = record(
    {"hybrid_search": record(plain="embedding_weight text_weight")}, words="ranker", plain="score_threshold"
)
_FILE_SEARCH = record(
    {"filters": _FILTER, "ranking_options": _RANKING},
    words="type",
    references="vector_store_ids",
    plain="max_num_results",
)
_WEB_SEARCH = record(
    {"user_location": LOCATION, "filters": record(hosts="allowed_domains blocked_domains")},
    words="type search_context_size search_content_types",
    plain="external_web_access",
)
_SELECTED = record(names="tool_names", plain="read_only")
_MCP = record(
    {
        "server_description": DEFINITION,
        "allowed_tools": Either(array=Each(NAME), record=_SELECTED),
        "require_approval": Either(string=WORD, record=record({"always": _SELECTED, "never": _SELECTED})),
    },
    words="type connector_id allowed_callers",
    names="server_label",
    references="tunnel_id",
    plain="defer_loading",
    refused="authorization headers server_url",
)
_IMAGE_GENERATION = record(
    {
        "input_image_mask": MEDIA,
        "model": MODEL,
        "size": SIZE,
        "svg": record({"model": MODEL, "reasoning": record(words="effort")}),
    },
    words="type action background complexity input_fidelity moderation output_format quality",
    plain="frame_count frame_duration_ms output_compression partial_images",
)
_FUNCTION = record(
    {"description": DEFINITION, "parameters": SCHEMA, "output_schema": SCHEMA},
    words="type allowed_callers",
    names="name",
    plain="async strict defer_loading",
)
_CUSTOM = record(
    {"description": DEFINITION, "format": record({"definition": DEFINITION}, words="type syntax")},
    words="type allowed_callers",
    names="name",
    plain="async defer_loading",
)
_PLAIN = record(words="type allowed_callers")
TOOLS: dict[str, Shape] = {}
TOOL = Typed(TOOLS)
TOOLS.update(
    {
        "function": _FUNCTION,
        "custom": _CUSTOM,
        "namespace": record({"description": DEFINITION, "tools": Each(TOOL)}, words="type", names="name"),
        "tool_search": record({"description": DEFINITION, "parameters": SCHEMA}, words="type execution"),
        "file_search": _FILE_SEARCH,
        **dict.fromkeys(("web_search", "web_search_2025_08_26"), _WEB_SEARCH),
        **dict.fromkeys(("web_search_preview", "web_search_preview_2025_03_11"), _WEB_SEARCH),
        "mcp": _MCP,
        "code_interpreter": record({"container": _CONTAINER}, words="type allowed_callers"),
        "image_generation": _IMAGE_GENERATION,
        "shell": record({"environment": ENVIRONMENT}, words="type allowed_callers"),
        **dict.fromkeys(("local_shell", "apply_patch", "computer", "programmatic_tool_calling"), _PLAIN),
        "computer_use_preview": record(words="type environment", plain="display_height display_width"),
    }
)
LISTED_TOOL = record(
    {"description": DEFINITION, "input_schema": SCHEMA, "annotations": Strings(SlotKind.DEFINITION)}, names="name"
)
TOOL_CHOICE = Either(
    string=WORD,
    record=record(
        {"tools": each(words="type", names="name server_label")}, words="type mode", names="name server_label"
    ),
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
    {"text": TEXT, "keys": TEXTS, "path": each(plain="x y")}, words="type button", plain="x y scroll_x scroll_y"
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
    {"stdout": TEXT, "stderr": TEXT, "outcome": record(words="type", plain="exit_code"), "created_by": IDENTIFIER}
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
        {"arguments": JSON, "output": TEXT, "error": _MCP_ERROR}, names="name server_label", links="approval_request_id"
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
_PROMPT = record({"variables": Values(Either(string=TEXT, record=PART)), "version": VERSION}, references="id")
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
        **record(words="truncation personality", plain="background max_output_tokens max_tool_calls").rows,
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


def restore_parts(shape: Shape, value: Any, restorers: Restorers, structured: bool) -> None:
    """Restore `value` in place, and with each text of an answer the positions and log-probabilities beside it."""
    for slot in list(slots_of(shape, value, strict=False)):
        part = slot.owner
        if slot.key != "text" or not isinstance(part, dict) or part.get("type") != "output_text":
            restore_slot(slot, restorers)
            continue
        move_all_positions(objects(part.get("annotations")), Positions(restorers.whole, slot.value))
        if restore_slot(slot, restorers, content_rule(structured)) and "logprobs" in part:
            part["logprobs"] = []


@dataclass(frozen=True)
class _Text:
    """A text that comes as `NAME.delta` events: which of its `NAME.done` members has it whole, what tells it apart."""

    done: str | None
    indices: tuple[str, ...]
    rule: Rule = "text"


_PART = ("output_index", "content_index")
_SUMMARY = ("output_index", "summary_index")
_COMMAND = ("output_index", "command_index")
_ITEM = ("output_index",)
_TEXTS: dict[str, _Text] = {
    "response.output_text": _Text("text", _PART, "content"),
    "response.refusal": _Text("refusal", _PART),
    "response.reasoning_text": _Text("text", _PART),
    "response.reasoning_summary_text": _Text("text", _SUMMARY),
    "response.function_call_arguments": _Text("arguments", _ITEM, "json"),
    "response.mcp_call_arguments": _Text("arguments", _ITEM, "json"),
    "response.custom_tool_call_input": _Text("input", _ITEM),
    "response.code_interpreter_call_code": _Text("code", _ITEM),
    "response.shell_call_command": _Text("command", _COMMAND),
    "response.shell_call_output_content": _Text(None, _COMMAND),
    "response.audio.transcript": _Text(None, ()),
}
_DELTA_MEMBERS = ("stdout", "stderr")

_RESPONSE = Members({"response": ANSWER})
# Events that carry whole texts, and which texts end with them: those whose indices are the same. None: no text ends.
_WHOLE: dict[str, tuple[Shape, tuple[str, ...] | None]] = {
    "response.created": (_RESPONSE, None),
    "response.queued": (_RESPONSE, None),
    "response.in_progress": (_RESPONSE, None),
    "response.completed": (_RESPONSE, ()),
    "response.incomplete": (_RESPONSE, ()),
    "response.failed": (_RESPONSE, ()),
    "response.cancelled": (_RESPONSE, ()),
    "error": (Members({"message": TEXT, "param": TEXT, "error": ERROR}), ()),
    "response.output_item.added": (Members({"item": ITEM}), None),
    "response.output_item.done": (Members({"item": ITEM}), _ITEM),
    "response.content_part.added": (Members({"part": PART}), None),
    "response.content_part.done": (Members({"part": PART}), _PART),
    "response.reasoning_summary_part.added": (Members({"part": PART}), None),
    "response.reasoning_summary_part.done": (Members({"part": PART}), _SUMMARY),
    "response.shell_call_command.added": (Members({"command": TEXT}), None),
    "response.shell_call_output_content.done": (
        Members({"output": Each(Members({"stdout": TEXT, "stderr": TEXT}))}),
        _COMMAND,
    ),
}
_ANNOTATION = "response.output_text.annotation.added"


@dataclass
class _Open:
    """A text that has begun: its last event without the text, and what the upstream wrote of it."""

    field: RestoredField
    written: Positions
    name: str | None
    event: dict[str, Any]
    member: str | None

    def rest(self) -> list[Event]:
        rest = self.field.end()
        return [(self.name, {**self.event, "delta": {self.member: rest} if self.member else rest})] if rest else []


class ResponsesStream:
    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self._restorers = restorers
        self._structured = structured
        self._open: dict[tuple[Any, ...], _Open] = {}
        self._next: int | None = None

    def event(self, name: str | None, data: Any) -> list[Event]:
        if data == "[DONE]":
            return [*self.end(), (name, data)]
        if not isinstance(data, dict):
            return [(name, data)]
        if self._next is None and isinstance(data.get("sequence_number"), int):
            self._next = data["sequence_number"]
        kind = data.get("type") or name
        kind = kind if isinstance(kind, str) else ""
        text, _, last = kind.rpartition(".")
        if text in _TEXTS and last == "delta":
            events = self._delta(text, name, data)
        elif kind in _WHOLE:
            shape, indices = _WHOLE[kind]
            events = [] if indices is None else self._ended(data, indices)
            restore_parts(shape, data, self._restorers, self._structured)
            events.append((name, data))
        elif text in _TEXTS and last == "done":
            events = [*self._ended(data, _TEXTS[text].indices, text), (name, self._done(data, _TEXTS[text]))]
        else:
            if kind == _ANNOTATION:
                self._annotation(data)
            events = [(name, data)]
        return self._numbered(events)

    def end(self) -> list[Event]:
        return self._numbered(self._ended({}, ()))

    def _rule(self, text: _Text) -> Rule:
        return content_rule(self._structured) if text.rule == "content" else text.rule

    def _delta(self, kind: str, name: str | None, data: dict[str, Any]) -> list[Event]:
        delta = data.get("delta")
        owner: dict[str, Any] = delta if isinstance(delta, dict) else data
        keys = [key for key in ("delta", *_DELTA_MEMBERS) if isinstance(owner.get(key), str)]
        written = any(owner[key] for key in keys)
        changed = False
        for key in keys:
            known = self._text(kind, name, data, None if owner is data else key)
            if kind == "response.output_text":
                known.written.append(owner[key])
            restored = known.field.feed(owner[key])
            changed |= restored != owner[key]
            owner[key] = restored
        if changed:
            data.pop("obfuscation", None)
            if "logprobs" in data:
                data["logprobs"] = []
        emptied = written and not any(owner[key] for key in keys)
        return [] if emptied else [(name, data)]

    def _text(self, kind: str, name: str | None, data: dict[str, Any], member: str | None) -> _Open:
        key = (kind, member, *(_number(data.get(index)) for index in _TEXTS[kind].indices))
        known = self._open.get(key)
        if known is None:
            field = RestoredField(self._restorers, self._rule(_TEXTS[kind]))
            known = self._open[key] = _Open(field, Positions(self._restorers.whole), name, {}, member)
        known.event = {key: value for key, value in data.items() if key not in ("delta", "obfuscation")}
        if "logprobs" in known.event:
            known.event["logprobs"] = []
        return known

    def _ended(self, data: dict[str, Any], indices: tuple[str, ...], kind: str | None = None) -> list[Event]:
        """End the open texts whose indices are those of `data`: the events for what they held back."""
        events: list[Event] = []
        for key, known in list(self._open.items()):
            same = all(_number(known.event.get(index)) == _number(data.get(index)) for index in indices)
            if same and kind in (None, key[0]):
                events += known.rest()
                if kind is None:
                    del self._open[key]
        return events

    def _done(self, data: dict[str, Any], text: _Text) -> dict[str, Any]:
        if text.done and isinstance(data.get(text.done), str):
            before = data[text.done]
            data[text.done] = whole(before, self._rule(text), self._restorers)
            if data[text.done] != before and "logprobs" in data:
                data["logprobs"] = []
        return data

    def _annotation(self, data: dict[str, Any]) -> None:
        restore_shape(Members({"annotation": ANNOTATION}), data, self._restorers)
        key = ("response.output_text", None, *(_number(data.get(index)) for index in _PART))
        if key in self._open:
            move_positions(data.get("annotation"), self._open[key].written)

    def _numbered(self, events: list[Event]) -> list[Event]:
        """Number the events that have a number without gaps, from the upstream's first number on."""
        for _, data in events:
            if self._next is not None and isinstance(data, dict) and "sequence_number" in data:
                data["sequence_number"] = self._next
                self._next += 1
        return events


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


_RECALLING = (CONTINUED, "conversation", "background_options.continuation_id")


class OpenAIResponses(CommonDialect):
    name = "openai_responses"
    path = "/v1/responses"
    counting_path: str | None = "/v1/responses/input_tokens"
    upstream_kind: Literal["openai", "anthropic"] = "openai"

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        return slots_of(REQUEST, body, strict=True, unread=unread)

    def structured(self, body: Any) -> bool:
        return member(body, "text", "format", "type") in ("json_schema", "json_object")

    def messages_of_user(self, body: Any) -> str:
        messages = member(body, "input")
        return messages if isinstance(messages, str) else first_text_of_user(messages)

    def kept_by_upstream(self, body: Any) -> tuple[str, ...]:
        """`store` is true where a request does not say otherwise, and a `background` response is stored to be fetched.

        An `item_reference` in the input recalls one item.
        """
        kept = [path for path in _RECALLING if member(body, *path.split(".")) is not None]
        kept += ["store"] if flag(body, "store", default=True) else []
        kept += ["background"] if flag(body, "background", default=False) else []
        items = member(body, "input")
        for number, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, dict) and item_type(item) == "item_reference":
                kept.append(f"input.{number}")
        return tuple(kept)

    def continues(self, body: Any) -> str | None:
        previous = member(body, CONTINUED)
        if previous is None or isinstance(previous, str):
            return previous
        raise InvalidInput("This member must be a string.", field=CONTINUED)

    def answer_id(self, data: Any) -> str | None:
        found = member(data, "id") if member(data, "response") is None else member(data, "response", "id")
        return found if isinstance(found, str) and found else None

    def said(self, data: Any) -> str:
        output = member(data, "output") or member(data, "response", "output") or [member(data, "item")]
        return "\n".join(first_text(item.get("content")) for item in objects(output) if item.get("type") == "message")

    def restore(self, answer: Any, restorers: Restorers, *, structured: bool = False) -> None:
        restore_parts(ANSWER, answer, restorers, structured)

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer:
        return ResponsesStream(restorers, structured)
