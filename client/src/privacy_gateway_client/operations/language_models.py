"""Language models behind the gateway, in the formats of OpenAI and Anthropic.

The gateway masks the request and restores the answer. A call is not repeated once it was sent, because the model may
have been paid. A stream yields the data of each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing, close_flow, emit, next_line
from privacy_gateway_client.exchange import JSON_HEADERS, call_flow, given, json_of, parsed_json
from privacy_gateway_client.operations.reading import EventReader, fetched_json

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def chat_completions(
    core: Core, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
) -> Op[dict[str, Any]]:
    """`POST /v1/chat/completions`: the members of OpenAI's request."""
    return (yield from _answer(core, CHAT, request, policy, conversation))


def responses(
    core: Core, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
) -> Op[dict[str, Any]]:
    """`POST /v1/responses`: the members of OpenAI's request."""
    return (yield from _answer(core, RESPONSES, request, policy, conversation))


def messages(
    core: Core, request: Mapping[str, Any], *, policy: str | None = None, conversation: str | None = None
) -> Op[dict[str, Any]]:
    """`POST /v1/messages`: the members of Anthropic's request."""
    return (yield from _answer(core, MESSAGES, request, policy, conversation))


def stream(
    core: Core,
    path: str,
    request: Mapping[str, Any],
    *,
    policy: str | None = None,
    conversation: str | None = None,
) -> Op[None]:
    """The events of one of the three paths, with `"stream": true`: the data of each, parsed."""
    flow = yield from call_flow(core.retry, _request(path, {**request, "stream": True}, policy, conversation))
    reader = EventReader()
    while (line := (yield from next_line(flow))) is not None:
        event = reader.take(line)
        if event is not None and event.data != "[DONE]":
            yield from emit(parsed_json(event.data))
    yield from close_flow(flow)


def _answer(
    core: Core, path: str, request: Mapping[str, Any], policy: str | None, conversation: str | None
) -> Op[dict[str, Any]]:
    return (yield from fetched_json(core, _request(path, request, policy, conversation)))


def _request(path: str, request: Mapping[str, Any], policy: str | None, conversation: str | None) -> Outgoing:
    headers = JSON_HEADERS | given({"Privacy-Policy": policy, "Privacy-Conversation": conversation})
    return Outgoing("POST", path, headers=headers, content=json_of(dict(request)), repeatable=False)
