"""OpenAI's chat completions, `POST /v1/chat/completions`. The tables are in `openai_chat_shapes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from service.proxy.dialects import openai_chat_shapes as shapes
from service.proxy.dialects.common import CommonDialect
from service.proxy.dialects.openai_chat_stream import ChatStream
from service.proxy.dialects.protocol import Restorers, StreamRestorer
from service.proxy.dialects.requests import first_text_of_user, flag, member, objects
from service.proxy.dialects.restoring import (
    Positions,
    content_rule,
    move_all_positions,
    restore_shape,
    restore_slot,
)
from service.proxy.dialects.shapes import slots_of
from service.proxy.slots import Slot


class OpenAIChat(CommonDialect):
    name = "openai_chat"
    path = "/v1/chat/completions"
    upstream_kind: Literal["openai", "anthropic"] = "openai"

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        return slots_of(shapes.REQUEST, body, strict=True, unread=unread)

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
        restore_shape(shapes.ECHOES, answer, restorers)

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer:
        return ChatStream(restorers, structured)


def _restore_message(message: dict[str, Any], logprobs: Any, restorers: Restorers, structured: bool) -> None:
    content = message.get("content")
    if isinstance(content, str) and content:
        citations = [annotation.get("url_citation") for annotation in objects(message.get("annotations"))]
        move_all_positions(citations, Positions(restorers.whole, content))
    for slot in list(slots_of(shapes.MESSAGE, message, strict=False)):
        changed = restore_slot(slot, restorers, content_rule(structured and slot.path == "content"))
        if changed and isinstance(logprobs, dict) and slot.path in ("content", "refusal"):
            logprobs[slot.path] = None
