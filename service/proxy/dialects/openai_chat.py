"""OpenAI's chat completions, `POST /v1/chat/completions`.

The tables say where requests and answers hold text, and what else a request may have. They follow the types of the
Python SDK `openai` 3.57.0, `types/chat`. Members that other servers with OpenAI's format take (vLLM, llama.cpp, Ollama,
OpenRouter, Groq, DeepSeek, Mistral, LiteLLM) are in no type of that SDK, whose `extra_body` sends them. The shapes of
`public` say which members leave as they are, and in which form. A stream is chunks with deltas of one or several
choices, then `[DONE]`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from service.proxy.dialects.protocol import Event, Restorers, StreamRestorer, first_text_of_user, flag, member, objects
from service.proxy.dialects.public import (
    MODEL,
    PLAIN,
    REFUSED,
    REGION,
    REPLACED,
    SCHEMA,
    TIME_ZONE,
    WORD,
    content,
    each,
    record,
)
from service.proxy.dialects.restoring import (
    CommonDialect,
    Positions,
    RestoredField,
    content_rule,
    move_all_positions,
    move_positions,
    restore_error,
    restore_shape,
    restore_slot,
)
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
    Path,
    Shape,
    Signed,
    Typed,
    Values,
    slots_of,
)
from service.proxy.slots import Slot

CACHE_CONTROL = record(words="type ttl")
_GUIDED: dict[str, Shape] = {
    "json": Either(string=TEXT, record=SCHEMA),
    "regex": TEXT,
    "choice": TEXTS,
    "grammar": DEFINITION,
    "whitespace_pattern": DEFINITION,
}
OTHERS: dict[str, Shape] = {
    # texts
    "suffix": TEXT,
    "documents": STRINGS,
    "bad_words": TEXTS,
    "grammar": DEFINITION,
    "json_schema": SCHEMA,
    **{f"guided_{name}": shape for name, shape in _GUIDED.items()},
    "structured_outputs": record(_GUIDED, plain="json_object disable_any_whitespace disable_additional_properties"),
    "chat_template_kwargs": Values(Either(string=TEXT, number=PLAIN)),
    "client_metadata": METADATA,
    "request_id": IDENTIFIER,
    "cache_salt": IDENTIFIER,
    # settings
    **record(
        words="guided_decoding_backend reasoning_format prompt_mode route transforms",
        plain="""
        add_generation_prompt add_special_tokens best_of cache_prompt continue_final_message detokenize
        dry_allowed_length dry_base dry_multiplier dry_penalty_last_n dynatemp_exponent dynatemp_range echo
        enable_search enable_thinking id_slot ignore_eos include_reasoning include_stop_str_in_output length_penalty
        max_thinking_tokens min_keep min_p min_tokens mirostat mirostat_eta mirostat_tau n_keep n_predict n_probs
        num_ctx num_predict preserve_thinking priority prompt_logprobs random_seed reasoning_budget repeat_last_n
        repeat_penalty repetition_penalty return_progress return_token_ids return_tokens_as_token_ids safe_prompt
        skip_special_tokens spaces_between_special_tokens stream_usage t_max_predict_ms tfs_z thinking_budget
        timings_per_token top_a top_k truncate_prompt_tokens typical_p use_beam_search xtc_probability xtc_threshold
        """,
        # they call other servers, hold credentials, or run as templates
        refused="""
        chat_template data_sources extra_body extra_headers kv_transfer_params logits_processors mm_processor_kwargs
        models plugins provider search_settings tool_resources user_security_context vllm_xargs
        """,
    ).rows,
    "stop_token_ids": Each(PLAIN),
    "allowed_token_ids": Each(PLAIN),
    "keep_alive": Either(number=PLAIN),
    "think": Either(string=WORD, number=PLAIN),
    "thinking": record(words="type display", plain="budget_tokens"),
    "usage": record(plain="include"),
    "format": Either(string=WORD, record=SCHEMA),
    "cache_control": CACHE_CONTROL,
}

# Of an assistant's message, as clients send it back.
_THINKING: dict[str, Shape] = {
    "thinking": record(
        {"thinking": Signed(("signature",)), "cache_control": CACHE_CONTROL}, words="type", blobs="signature"
    ),
    "redacted_thinking": record({"cache_control": CACHE_CONTROL}, words="type", blobs="data"),
}
_DETAIL: dict[str, Shape] = {"text": Signed(("signature",)), "summary": Signed(("signature",))}
ANSWERED_BY_OTHERS: dict[str, Shape] = {
    "reasoning_content": TEXT,
    "reasoning": TEXT,
    "reasoning_details": each(_DETAIL, words="type format", plain="index", links="id", blobs="data signature"),
    "thinking_blocks": Each(Typed(_THINKING)),
    "provider_specific_fields": STRINGS,
    "images": REFUSED,
    "prefix": PLAIN,
    "parsed": STRINGS,
}


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


_NOT_REPEATED = ("choices", "usage", "obfuscation", "moderation")
_REASONING = (("reasoning_content",), ("reasoning",))


class _Choice:
    """What is known of one choice: its texts by path, and the content so far as the upstream wrote it.

    A path is `("content",)`, or `("tool_calls", 0, "function", "arguments")` with the index of the call.
    """

    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self.fields: dict[Path, RestoredField] = {}
        self.content = Positions(restorers.whole)
        self._restorers = restorers
        self._structured = structured

    def field(self, path: Path, rule: Any) -> RestoredField:
        if path not in self.fields:
            rule = content_rule(self._structured) if rule == "content" else rule
            self.fields[path] = RestoredField(self._restorers, rule)
        return self.fields[path]

    def ended_by(self, paths: set[Path]) -> list[Path]:
        """The texts that end because others begin: reasoning before content, content before calls of tools.

        Arguments in JSON do not end so: several calls may take turns, and complete JSON holds nothing back.
        """
        if not paths:
            return []
        reasons = paths <= set(_REASONING)
        return [
            path
            for path in DELTAS
            if len(path) == 1 and path in self.fields and path not in paths and self.fields[path].rule == "text"
            if not (reasons and path in _REASONING)
        ]


class ChatStream:
    def __init__(self, restorers: Restorers, structured: bool) -> None:
        self._restorers = restorers
        self._structured = structured
        self._choices: dict[Any, _Choice] = {}
        self._name: str | None = None
        self._chunk: dict[str, Any] = {}

    def event(self, name: str | None, data: Any) -> list[Event]:
        if data == "[DONE]":
            return [*self.end(), (name, data)]
        if isinstance(data, dict) and data.get("error"):
            restore_error(data, self._restorers)
            return [*self.end(), (name, data)]
        if not isinstance(data, dict) or not isinstance(data.get("choices"), list):
            return [(name, data)]
        self._name = name
        self._chunk = {key: value for key, value in data.items() if key not in _NOT_REPEATED}
        events: list[Event] = []
        kept = []
        for choice in data["choices"]:
            before, keep = self._choice(choice, data)
            if before:
                events.append(self._own(choice.get("index"), before))
            if keep:
                kept.append(choice)
        if kept or not data["choices"] or data.get("usage"):
            data["choices"] = kept
            events.append((name, data))
        return events

    def end(self) -> list[Event]:
        events = []
        for index, choice in self._choices.items():
            delta: dict[str, Any] = {}
            for path, field in choice.fields.items():
                _add(delta, path, field.end())
            if delta:
                events.append(self._own(index, delta))
        return events

    def _own(self, index: Any, delta: dict[str, Any]) -> Event:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._name, {**self._chunk, "choices": [choice]}

    def _choice(self, choice: Any, data: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Restore a choice of a chunk. Returns the delta that goes before it, and whether anything of it is left."""
        if not isinstance(choice, dict):
            return {}, True
        index, ends = _number(choice.get("index")), bool(choice.get("finish_reason"))
        first = index not in self._choices
        state = self._choices.setdefault(index, _Choice(self._restorers, self._structured))
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = {}
        texts = [text for text in _texts(delta) if text[1][text[2]]]
        before: dict[str, Any] = {}
        for path in state.ended_by({path for path, _, _, _ in texts}):
            _add(before, path, state.fields[path].end())
        changed = emptied = False
        for path, owner, key, rule in texts:
            written = owner[key]
            if path == ("content",):
                state.content.append(written)
            owner[key] = state.field(path, rule).feed(written)
            if ends:
                owner[key] += state.fields[path].end()
            changed |= owner[key] != written
            emptied |= not owner[key]
        if ends:
            for path, field in state.fields.items():
                _add(before, path, field.end())
        for annotation in objects(delta.get("annotations")):
            restore_shape(ANNOTATION, annotation, self._restorers)
            move_positions(annotation.get("url_citation"), state.content)
        if changed:
            data.pop("obfuscation", None)
            if "logprobs" in choice:
                choice["logprobs"] = None
        if not emptied or first or ends:
            return before, True
        return before, _without_empty(delta)


def _texts(delta: dict[str, Any]) -> list[tuple[Path, dict[str, Any], str, str]]:
    """The texts of a delta: path, owner, key and rule of each."""
    found: list[tuple[Path, dict[str, Any], str, str]] = []
    for path, rule in DELTAS.items():
        found += [(path, owner, path[-1], rule) for owner in [_owner(delta, path)] if owner is not None]
    for number, call in enumerate(objects(delta.get("tool_calls"))):
        for path, rule in CALL_DELTAS.items():
            full: Path = ("tool_calls", _number(call.get("index"), number), *path)
            found += [(full, owner, path[-1], rule) for owner in [_owner(call, path)] if owner is not None]
    return found


def _number(value: Any, default: int = 0) -> int:
    return value if isinstance(value, int) else default


def _owner(value: Any, path: tuple[str, ...]) -> dict[str, Any] | None:
    """The object that has the string at the end of `path`, if there is one."""
    for name in path[:-1]:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) and isinstance(value.get(path[-1]), str) else None


def _add(delta: dict[str, Any], path: Path, text: str) -> None:
    """Put a text into a delta that has none at that path."""
    if not text:
        return
    owner: Any = delta
    if path[0] == "tool_calls":
        owner = {"index": path[1]}
        delta.setdefault("tool_calls", []).append(owner)
        path = path[2:]
    for name in path[:-1]:
        owner = owner.setdefault(name, {})
    owner[path[-1]] = text


def _without_empty(delta: dict[str, Any]) -> bool:
    """Remove the texts that became empty. Returns whether the delta still says something."""
    for path, owner, key, _ in _texts(delta):
        if not owner[key]:
            del owner[key]
            if len(path) > 1 and not owner and path[0] in delta and path[0] != "tool_calls":
                del delta[path[0]]
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [call for call in calls if _says_something(call)]
        if not delta["tool_calls"]:
            del delta["tool_calls"]
    return any(value for name, value in delta.items() if name != "role")


def _says_something(call: Any) -> bool:
    """Whether a call has an identifier or a name left. Then an empty text stays, as first parts have it."""
    if not isinstance(call, dict):
        return True
    said = bool(call.get("id")) or bool(call.get("function")) or bool(call.get("custom"))
    for name, text in (("function", "arguments"), ("custom", "input")):
        if said and isinstance(call.get(name), dict):
            call[name].setdefault(text, "")
    return said


class OpenAIChat(CommonDialect):
    name = "openai_chat"
    path = "/v1/chat/completions"
    upstream_kind: Literal["openai", "anthropic"] = "openai"

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        return slots_of(REQUEST, body, strict=True, unread=unread)

    def structured(self, body: Any) -> bool:
        return member(body, "response_format", "type") in ("json_schema", "json_object")

    def messages_of_user(self, body: Any) -> str:
        return first_text_of_user(member(body, "messages"))

    def kept_by_upstream(self, body: Any) -> tuple[str, ...]:
        return ("store",) if flag(body, "store", default=False) else ()

    def restore(self, answer: Any, restorers: Restorers, *, structured: bool = False) -> None:
        for choice in objects(member(answer, "choices")):
            message = choice.get("message")
            if isinstance(message, dict):
                _restore_message(message, choice.get("logprobs"), restorers, structured)
        restore_shape(ECHOES, answer, restorers)

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer:
        return ChatStream(restorers, structured)


def _restore_message(message: dict[str, Any], logprobs: Any, restorers: Restorers, structured: bool) -> None:
    content = message.get("content")
    if isinstance(content, str) and content:
        citations = [annotation.get("url_citation") for annotation in objects(message.get("annotations"))]
        move_all_positions(citations, Positions(restorers.whole, content))
    for slot in list(slots_of(MESSAGE, message, strict=False)):
        changed = restore_slot(slot, restorers, content_rule(structured and slot.path == "content"))
        if changed and isinstance(logprobs, dict) and slot.path in ("content", "refusal"):
            logprobs[slot.path] = None
