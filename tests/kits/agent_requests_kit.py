"""Requests as agents and libraries send them: Claude Code to Messages, Codex to Responses, and a client that sends an
answer of LiteLLM back to a server of vLLM."""

from __future__ import annotations

from typing import Any

CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "file_path": {"type": "string", "description": "The file", "pattern": "^/"},
        "pet": {
            "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat"}},
            "oneOf": [{"$ref": "#/$defs/Cat"}],
        },
        "limit": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
    },
    "$defs": {"Cat": {"type": "object", "properties": {}, "title": "Cat"}},
    "required": ["file_path"],
    "additionalProperties": False,
}
USE = {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "Read", "input": {"file_path": "/a"}}
REAL: list[tuple[str, dict[str, Any]]] = [
    (
        "/v1/messages",
        {
            "model": "claude-opus-5",
            "max_tokens": 32000,
            "stream": True,
            "temperature": 1,
            "system": [{"type": "text", "text": "You are an agent.", **CACHED}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi", **CACHED}]},
                {"role": "assistant", "content": [USE | {"caller": {"type": "direct"}}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": USE["id"], "content": "1", "is_error": False, **CACHED}
                    ],
                },
            ],
            "tools": [
                {"name": "mcp__ide__getDiagnostics", "description": "Reads", "input_schema": SCHEMA, **CACHED},
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "max_uses": 8,
                    "allowed_domains": ["docs.python.org"],
                },
            ],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "metadata": {"user_id": "user_0123_account__session_0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab"},
            "thinking": {"type": "enabled", "budget_tokens": 31999},
            "betas": ["claude-code-20250219", "interleaved-thinking-2025-05-14"],
            "output_config": {"effort": "high"},
            "context_management": {
                "edits": [
                    {"type": "clear_thinking_20251015", "keep": "all"},
                    {
                        "type": "clear_tool_uses_20250919",
                        "trigger": {"type": "input_tokens", "value": 100000},
                        "exclude_tools": ["web_search"],
                    },
                ]
            },
        },
    ),
    (
        "/v1/responses",
        {
            "model": "gpt-5-codex",
            "instructions": "You are an agent.",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Hi"}]},
                {
                    "type": "reasoning",
                    "id": "rs_0123456789abcdef",
                    "summary": [{"type": "summary_text", "text": "Reads"}],
                    "content": None,
                    "encrypted_content": "gAAAAABogAAAAABogAAAAABogAAAAABo==",
                },
                {
                    "type": "function_call",
                    "name": "shell",
                    "arguments": '{"command":["ls"]}',
                    "call_id": "call_a1B2c3D4e5F6",
                },
                {"type": "function_call_output", "call_id": "call_a1B2c3D4e5F6", "output": "a"},
            ],
            "tools": [
                {"type": "function", "name": "shell", "description": "Runs", "strict": False, "parameters": SCHEMA},
                {
                    "type": "custom",
                    "name": "apply_patch",
                    "format": {"type": "grammar", "syntax": "lark", "definition": "a"},
                },
                {"type": "web_search", "external_web_access": True},
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "store": False,
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab",
            "text": {"verbosity": "low"},
            "service_tier": "priority",
            "client_metadata": {"x-codex-installation-id": "0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab"},
        },
    ),
    (
        "/v1/chat/completions",
        {
            "model": "gpt-5-mini",
            "n": 1,
            "seed": 7,
            "temperature": 0.0,
            "max_completion_tokens": 100,
            "stop": ["\n"],
            "stream": True,
            "stream_options": {"include_usage": True},
            "reasoning_effort": "minimal",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "Answer", "strict": True, "schema": SCHEMA},
            },
            "logit_bias": {"50256": -100},
            "messages": [
                {"role": "system", "content": [{"type": "text", "text": "Hi", **CACHED}]},
                {
                    "role": "assistant",
                    "content": None,
                    "refusal": None,
                    "annotations": [],
                    "audio": None,
                    "function_call": None,
                    "reasoning_content": "It is",
                    "provider_specific_fields": {"citations": None},
                    "tool_calls": [
                        {
                            "index": 0,
                            "id": "chatcmpl-tool-0123456789abcdef0123456789abcdef",
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
                        }
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "chatcmpl-tool-0123456789abcdef0123456789abcdef",
                    "name": "get_weather",
                    "content": "Sunny",
                },
            ],
            "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA, "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
            # of vLLM
            "top_k": 20,
            "min_p": 0.0,
            "stop_token_ids": [2],
            "chat_template_kwargs": {"enable_thinking": False},
            "guided_choice": ["yes", "no"],
            "documents": [{"title": "A", "text": "B"}],
        },
    ),
]
