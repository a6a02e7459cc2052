"""The tools of OpenAI's Responses: their definitions, which of them a model may choose, and where they run."""

from __future__ import annotations

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.openai_chat_shapes import LOCATION
from service.proxy.dialects.public import (
    MODEL,
    NAME,
    REFERENCE,
    REFUSED,
    SIZE,
    VERSION,
    WORD,
    each,
    record,
)
from service.proxy.dialects.shapes import DEFINITION, MEDIA, TEXT, Each, Either, Members, Shape, Strings, Typed
from service.proxy.slots import Kind

_SKILL = record(
    {"description": DEFINITION, "path": TEXT, "source": MEDIA, "version": VERSION},
    words="type",
    names="name",
    references="skill_id",
)
_NETWORK = record({"domain_secrets": REFUSED}, words="type", hosts="allowed_domains")
# Where code runs: of a `shell` tool, of a call of it, and of a `code_interpreter`.
ENVIRONMENT = record(
    {"skills": Each(_SKILL), "network_policy": _NETWORK},
    words="type memory_limit",
    references="file_ids container_id",
)
_CONTAINER = Either(string=REFERENCE, record=ENVIRONMENT)
# Keys of attributes are names; their values are what a search compares with.
_FILTERS: dict[str, Shape] = {**record(words="type", names="key").rows, "value": Strings(Kind.TEXT)}
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
    {"description": DEFINITION, "input_schema": SCHEMA, "annotations": Strings(Kind.DEFINITION)}, names="name"
)
TOOL_CHOICE = Either(
    string=WORD,
    record=record(
        {"tools": each(words="type", names="name server_label")}, words="type mode", names="name server_label"
    ),
)
