"""Shapes of members whose values are public: they leave as they are, so their form must hold no text.

| shape | what a value may be | why it is public |
| --- | --- | --- |
| `PLAIN` | a number, true or false | it chooses how the model works |
| `WORD` | a word of the published types (`words`) | the same |
| `NAME` | letters, digits and `_ . : / $ -`, with few digits | the call works by names of tools and properties |
| `LINK` | a number of a call, or what an upstream made; anything else is replaced by a pseudonym | links parts |
| `REFERENCE` | an identifier in the form that upstreams give | the upstream looks it up |
| `BLOB` | letters of base64, 24 or more | the upstream encrypted or signed it, and reads it again |
| `HOST`, `REGION`, `TIME_ZONE`, `MODEL`, `FLAG`, `VERSION` | the forms below | the upstream acts on them |

`REFUSED` is for known members that cannot be read and may hold anything: addresses with credentials, secrets.
All check requests alone, and find nothing in answers.

A member that takes a word takes one of the words that the published types of OpenAI and Anthropic list for members that
choose among values; the upstream judges whether it is one of its own. They say nothing about a person. A test compares
them with the types of the SDKs. `Schema` is the shape of the JSON schema of a tool's arguments or of an answer.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.text.reversible.mapping import DIGITS_MAX, is_name
from service.proxy.dialects.shapes import (
    DEFINITION,
    Each,
    Either,
    Inspection,
    Members,
    Path,
    Shape,
    Strings,
    Values,
    refuse,
    text_of,
)
from service.proxy.slots import Slot, SlotKind

# Of requests, messages, parts, items and blocks: roles, types, states, choices.
_OPENAI = """
    1024x1024 1024x1536 12h 1536x1024 16g 1g 24h 2h 30m 4g 64g 8h aac additional_tools all_turns allowed_tools
    allowlist alloy always and application/zip apply_patch apply_patch_call apply_patch_call_output approximate ash
    assistant audio auto back ballad base64 block browser calling cedar click client code_interpreter
    code_interpreter_call code_interpreter_call.outputs commentary compaction compaction_trigger completed computer
    computer_call computer_call_output computer_call_output.output.image_url computer_screenshot computer_use
    computer_use_preview concise configuration_update connector_dropbox connector_gmail connector_googlecalendar
    connector_googledrive connector_microsoftteams connector_outlookcalendar connector_outlookemail
    connector_sharepoint container_auto container_file_citation container_reference content content_filter coral
    create_file current_turn custom custom_tool_call custom_tool_call_output daybreak_blue daybreak_red default
    default-2024-11-15 delete_file detailed developer direct disabled double_click drag echo edit enabled eq exec
    exit explicit failed fast file file_citation file_path file_search file_search_call file_search_call.results
    final_answer find_in_page flac flex forward friendly function function_call function_call_output generate
    generating gif grammar gt gte high http_error image image_generation image_generation_call image_url implicit in
    in_memory in_progress incomplete inline input input_audio input_file input_image input_text interpreting
    item_reference jpeg json_object json_schema keypress lark left linux local local_shell local_shell_call
    local_shell_call_output logs low lt lte mac marin max mcp mcp_approval_request mcp_approval_response mcp_call
    mcp_list_tools mcp_protocol_error mcp_tool_execution_error medium message message.input_image.image_url
    message.output_text.logprobs minimal move mp3 namespace ne never nin none opaque open_page opus or original
    output output_text parallel pcm16 png pragmatic priority pro program program_output programmatic
    programmatic_tool_calling reasoning reasoning.encrypted_content reasoning_text refusal regex required right sage
    scale score screenshot scroll search searching server shell shell_call shell_call_output shimmer skill_reference
    soonest standard summary_text svg system text timeout tool tool_search tool_search_call tool_search_output
    transparent type ubuntu ultrafast unknown update_file url url_citation user verse wait wav web_search
    web_search_2025_08_26 web_search_call web_search_call.action.sources web_search_call.results web_search_preview
    web_search_preview_2025_03_11 webp wheel windows xhigh
"""
_ANTHROPIC = """
    1h 5m adaptive advisor advisor_redacted_result advisor_result advisor_tool_result advisor_tool_result_error all
    anthropic any application/pdf approximate assistant auto base64 bash bash_code_execution
    bash_code_execution_output bash_code_execution_result bash_code_execution_tool_result
    bash_code_execution_tool_result_error best_effort between_tools billing_policy browser_state browser_toolset
    char_location clear_thinking clear_tool_uses code_execution code_execution_output code_execution_result
    code_execution_tool_result code_execution_tool_result_error compact compaction computer computer_toolset
    container_upload content content_block_location content_too_large continue create custom default direct disabled
    document download_completed download_failed download_started downsize drop_block enabled
    encrypted_code_execution_result end_turn ephemeral error eu except excluded execution_time_exceeded fallback
    fast file file_not_found full global high image image/gif image/jpeg image/png image/webp input_tokens
    invalid_tool_input json_schema low max max_tokens max_uses_exceeded mcp_tool_listing mcp_tool_reference
    mcp_tool_result mcp_tool_use mcp_toolset mcp_toolset_reference medium memory model_context_window_exceeded
    model_not_found never next_user_message none object omitted only output_file_too_large overloaded page_location
    pause_turn pdf prompt_too_long query_too_long redacted_thinking refusal request_too_large search_result
    search_result_location self server_tool_use standard standard_only stop_sequence str_replace_based_edit_tool
    str_replace_editor strict summarize summarized system tab_opened text text/plain text_editor
    text_editor_code_execution text_editor_code_execution_create_result
    text_editor_code_execution_str_replace_result text_editor_code_execution_tool_result
    text_editor_code_execution_tool_result_error text_editor_code_execution_view_result thinking thinking_turns
    tokens too_many_requests tool tool_addition tool_definition tool_reference tool_removal tool_result
    tool_search_tool_bm25 tool_search_tool_regex tool_search_tool_result tool_search_tool_result_error
    tool_search_tool_search_result tool_use tool_uses unavailable unsupported_content_type updates url
    url_not_accessible url_not_allowed url_not_in_prior_context url_too_long us user user_profile web_fetch
    web_fetch_result web_fetch_tool_result web_fetch_tool_result_error web_search web_search_result
    web_search_result_location web_search_tool_result web_search_tool_result_error xhigh
"""
# Of JSON schemas (and OpenAPI, whose types tools use): `type`, `format`, `contentEncoding`, `contentMediaType`.
_SCHEMAS = """
    application/json application/octet-stream application/xml array ARRAY base64 base64url binary boolean BOOLEAN
    byte char color cuid cuid2 currency date date-time decimal double duration email emoji enum file-path float
    hostname idn-email idn-hostname int int16 int32 int64 int8 INTEGER integer ip ipv4 ipv6 iri iri-reference
    json-pointer json-string jwt multi-line nanoid NULL null number NUMBER OBJECT object password path phone regex
    relative-json-pointer STRING string text/html text/markdown text/plain time timestamp uint uint16 uint32 uint64
    uint8 ulid unix-time uri uri-reference uri-template url uuid uuid4 xid
"""
# Of other servers with OpenAI's format (vLLM, llama.cpp, Ollama, OpenRouter, Groq, DeepSeek, Mistral).
_OTHER = """
    anthropic-claude-v1 deepseek fallback google-gemini-v1 guidance hidden json lm-format-enforcer middle-out
    openai-responses-v1 outlines parsed raw reasoning.encrypted reasoning.summary reasoning.text redacted_thinking
    thinking xai-responses-v1 xgrammar
"""
WORDS = frozenset((_OPENAI + _ANTHROPIC + _SCHEMAS + _OTHER).split())


_DATED = re.compile(r"_20\d{6}$")
# Upstreams put a prefix before what they draw. The second form is a number that a client or a small server counts.
_ISSUED = re.compile(
    r"(?:asst|at|batch|call|chatcmpl(?:-tool)?|ci|cmp|cntr|compl|container|conv|ctc|ctco|cu|cuo|fc|fco|file|fs|gen|ig"
    r"|lsh|lsho|mcp|mcpa|mcpl|mcpr|mcptoolu|msg|pmpt|prof|prog|pyd_ai|req|resp|rs|sh|sho|skill|srvtoolu|thread|tool"
    r"|toolu|tooluse|ts|tsc|tso|tun|tunnel|up|vs|wrkspc|ws|apc|apco|cmpt)[_-][A-Za-z0-9_-]{8,256}"
    r"|[0-9a-f]{32,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[A-Za-z]{1,4}|[A-Za-z]{0,4}[_-]?\d{1,4}"
)


def is_issued(text: str) -> bool:
    """Whether an identifier has a form that upstreams give."""
    return bool(_ISSUED.fullmatch(text))


@dataclass(frozen=True)
class Plain:
    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        if reading.strict and not isinstance(owner[key], bool | int | float | None):
            raise refuse("This member must be a number, true or false; anything else would leave unread.", path)
        yield from ()


@dataclass(frozen=True)
class PublicForm:
    """A string of a form. `expected`: what a problem says of it."""

    accepts: Any
    expected: str

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if reading.strict and value is not None and not (isinstance(value, str) and self.accepts(value)):
            raise refuse(f"This member must be {self.expected}; anything else would leave unread.", path)
        yield from ()


@dataclass(frozen=True)
class Link:
    """An identifier that links the parts of a request, such as a call of a tool and its result. One in no form of
    upstreams is replaced by the same pseudonym everywhere."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if not reading.strict or value is None or value == "":
            return
        if not isinstance(value, str):
            raise refuse("This member must be a string; anything else would leave unread.", path)
        if not is_issued(value):
            yield Slot(owner, key, SlotKind.IDENTIFIER, text_of(path))


@dataclass(frozen=True)
class Refused:
    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        if reading.strict and owner[key] is not None:
            raise refuse("This member cannot be read and would leave as it is.", path)
        yield from ()


@dataclass(frozen=True)
class Replaced:
    """A value that the gateway replaces or has checked before."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        del owner, key, path, reading
        yield from ()


def _matches(pattern: str, *, flags: int = 0) -> Any:
    return re.compile(pattern, flags).fullmatch


def is_word(text: str) -> bool:
    return text in WORDS or _DATED.sub("", text) in WORDS


def _is_host(text: str) -> bool:
    return bool(_HOST.fullmatch(text)) and sum(map(str.isdecimal, text)) <= DIGITS_MAX


_HOST = re.compile(
    r"(?:\*\.)?(?:[a-z0-9][a-z0-9-]{0,62}\.)+[a-z][a-z0-9-]{1,62}(?:/[\w.*-]+)*/?", re.IGNORECASE | re.ASCII
)
_REGIONS = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc"

PLAIN = Plain()
WORD = PublicForm(is_word, "one of the values that the API lists")
NAME = PublicForm(
    is_name, f"a name of letters, digits and _ . : / $ - that begins with a letter and has at most {DIGITS_MAX} digits"
)
LINK = Link()
REFERENCE = PublicForm(is_issued, "an identifier that the model's server gave")
BLOB = PublicForm(
    _matches(r"(?:[A-Za-z0-9+/_-]{24,}={0,2})?"), "what the model's server wrote, 24 or more letters of base64"
)
HOST = PublicForm(_is_host, "a name of a host, such as docs.example.org")
REGION = PublicForm(_matches("[A-Za-z]{2}"), "a country's code of two letters")
TIME_ZONE = PublicForm(
    _matches(rf"UTC|GMT|(?:{_REGIONS})(?:/[A-Za-z_]{{1,32}}(?:[+-]\d{{1,2}})?){{1,2}}"), "a time zone"
)
MODEL = PublicForm(
    _matches(
        r"(?:chatgpt|claude|codex|computer-use|gpt|o[1-9]|omni-moderation|text-moderation)(?:[-.][a-z0-9.-]{1,48})?"
    ),
    "a model of the server",
)
FLAG = PublicForm(_matches(r"[a-z0-9]+(?:-[a-z0-9]+)*-20\d\d-?\d\d-?\d\d"), "a flag of the API, which ends with a date")
VERSION = PublicForm(
    _matches(r"latest|\d{1,8}|(?:bedrock-|vertex-)?20\d\d-\d\d-\d\d"), "latest, a short number or a date"
)
SIZE = PublicForm(_matches(r"auto|\d{2,5}x\d{2,5}"), "auto, or a width and a height such as 1024x1024")
REFUSED = Refused()
REPLACED = Replaced()

_OF_NAMES: Mapping[str, Shape] = {
    "plain": PLAIN,
    "words": Either(string=WORD, array=Each(WORD), number=PLAIN),
    "names": Either(string=NAME, array=Each(NAME)),
    "links": LINK,
    "references": Either(string=REFERENCE, array=Each(REFERENCE)),
    "blobs": BLOB,
    "hosts": Each(HOST),
    "refused": REFUSED,
}


def record(rows: Mapping[str, Shape] | None = None, /, **names: str) -> Members:
    """An object with these rows. `names`: further members by their shape, such as `words="type role"`."""
    found = {name: _OF_NAMES[kind] for kind, each in names.items() for name in each.split()}
    return Members({**found, **(rows or {})})


def content(rows: Mapping[str, Shape] | None = None, /, **names: str) -> Members:
    """An object of a conversation with these rows: a message, a part of one, an item, a block."""
    return Members(record(rows, **names).rows, content=True)


def each(rows: Mapping[str, Shape] | None = None, /, **names: str) -> Each:
    """A list of objects with these rows."""
    return Each(record(rows, **names))


_DRAFT = re.compile(r"https?://json-schema\.org/(?:draft-0\d|draft/20\d\d-\d\d)/schema#?")


@dataclass(frozen=True)
class _Name:
    """A name of a property, or a pointer to a part of the schema: public in the form of a name, else a definition, as
    the key is that it names."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if isinstance(value, str) and (_DRAFT.fullmatch(value) or all(map(_is_step, value.split("/")))):
            return
        yield from DEFINITION.find(owner, key, path, reading)


def _is_step(step: str) -> bool:
    return step in ("", "#") or is_name(step) or (step.isdecimal() and len(step) <= 4)


@dataclass(frozen=True)
class Schema:
    """A JSON schema. Its texts are definitions: descriptions, titles, patterns, the values that it lists, and what
    stands under a name that begins with `x-`. A name of a property is public in the form of a name, else a definition.
    """

    def find(self, owner: Any, key: str | int, path: Path, reading: Inspection) -> Iterator[Slot]:
        value = owner[key]
        if isinstance(value, dict):
            extensions: dict[str, Shape] = {}
            if any(name not in _ROWS for name in value):
                extensions = {name: _STRINGS for name in value if name.lower().startswith("x-") and is_name(name)}
            yield from (Members({**_ROWS, **extensions}) if extensions else _MEMBERS).find(owner, key, path, reading)
        elif isinstance(value, list):
            yield from Each(self).find(owner, key, path, reading)
        else:
            yield from PLAIN.find(owner, key, path, reading)


SCHEMA = Schema()
_NAME = _Name()
_STRINGS = Strings(SlotKind.DEFINITION)
_MAP = Values(SCHEMA, SlotKind.DEFINITION)
_NAMES = Either(array=Each(_NAME), number=PLAIN)  # a number: `required: true`, as in draft 3
_ROWS: dict[str, Shape] = {
    **dict.fromkeys(("title", "description", "$comment", "pattern", "markdownDescription", "errorMessage"), DEFINITION),
    **dict.fromkeys(("enum", "const", "default", "examples", "example", "enumDescriptions", "enumNames"), _STRINGS),
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _MAP),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "additionalProperties", "unevaluatedItems"), SCHEMA),
    **dict.fromkeys(("contains", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not"), SCHEMA),
    **dict.fromkeys(("if", "then", "else", "contentSchema"), SCHEMA),
    **dict.fromkeys(("$schema", "$id", "id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor"), _NAME),
    **dict.fromkeys(("required", "propertyOrdering"), _NAMES),
    "dependentRequired": Values(_NAMES, SlotKind.DEFINITION),
    "type": Either(string=WORD, array=Each(Either(string=WORD, record=SCHEMA))),
    "discriminator": record({"propertyName": _NAME, "mapping": Values(_NAME, SlotKind.DEFINITION)}),
    **record(
        words="format contentEncoding contentMediaType",
        plain="multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength maxItems minItems "
        "uniqueItems maxContains minContains maxProperties minProperties nullable deprecated readOnly writeOnly "
        "strict optional",
    ).rows,
}
_MEMBERS = Members(_ROWS)
